"""Some sentences of a few sets, and what is known of them: a sample to measure an embedding space by."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from juzhen.core.examples import RANKED, Examples, Kind, SentenceUnion


@dataclass(frozen=True)
class Probe:
    """Some sentences, and pairs among them.

    pairs    (2, pairs), positions in `sentences`
    grades   similarity of each pair in the gold data, from 0 to 1
    classes  of each sentence, where it has one
    """

    sentences: list[str]
    pairs: np.ndarray
    grades: np.ndarray
    classes: np.ndarray | None = None

    @classmethod
    def drawn(cls, sets: Sequence[Examples], *, num_sentences: int, seed: int) -> "Probe | None":
        """Pairs of at most `num_sentences` sentences, as many of each set.

        Of sets with graded pairs; where there are none, of positive pairs and of anchors with their positives, whose
        grade is 1. None where there are no such sets.
        """
        paired = [examples for examples in sets if examples.grades() is not None and len(examples)]
        paired = paired or [examples for examples in sets if examples.kind in RANKED and len(examples)]
        if not paired:
            return None
        share = max(num_sentences // (2 * len(paired)), 1)
        generator = np.random.default_rng(seed)
        chosen = [
            examples.select(np.sort(generator.permutation(len(examples))[:share])) for examples in paired
        ]
        union = SentenceUnion(chosen)
        columns = [list(union.rows(position).values())[:2] for position in range(len(chosen))]
        pairs = np.concatenate([np.stack(two) for two in columns], axis=1)
        # The tables of the sets are whole: only the sentences of the pairs are wanted.
        numbers, positions = np.unique(pairs, return_inverse=True)
        sentences = [union.examples.sentences[number] for number in numbers]
        grades = [
            np.ones(len(examples), np.float32) if (gold := examples.grades()) is None else gold
            for examples in chosen
        ]
        return cls(sentences, positions.reshape(pairs.shape), np.concatenate(grades))

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], *, num_sentences: int, seed: int, classes: np.ndarray | None = None
    ) -> "Probe":
        """At most `num_sentences` of some texts, without pairs."""
        rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[:num_sentences])
        chosen = None if classes is None else classes[rows]
        return cls([texts[row] for row in rows], np.empty((2, 0), dtype=np.int64), np.empty(0), chosen)

    @classmethod
    def of(cls, examples: Examples, *, num_sentences: int, seed: int) -> "Probe":
        """The sample of one set, of whatever kind."""
        probe = cls.drawn([examples], num_sentences=num_sentences, seed=seed)
        if probe is not None:
            return probe
        classes = examples.targets if examples.kind is Kind.LABELLED_TEXT else None
        classes = None if classes is None else classes.astype(np.int64)
        texts = examples.texts("text")
        return cls.of_texts(texts, num_sentences=num_sentences, seed=seed, classes=classes)
