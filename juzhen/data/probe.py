"""Classification tasks, and samples of sentences that measure an embedding space."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import (
    CLASSIFIED_KINDS,
    RANKED,
    Examples,
    Kind,
    SentenceUnion,
    judged_split,
    too_few,
)
from juzhen.data.spec import DataRequest, DatasetConfig, configured_set


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


SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class TransferTask:
    """Rows with classes; of train, dev and test those splits that there are.

    by_means  classes are told apart by their means alone, as while training goes on
    """

    name: str
    splits: dict[str, Examples]
    by_means: bool = False

    @property
    def kind(self) -> Kind:
        return next(iter(self.splits.values())).kind

    @property
    def judged(self) -> str:
        """The split that the classifier is judged on."""
        return judged_split(self.splits)[0]

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Class number of each row, by split."""
        return {name: np.asarray(examples.targets, dtype=np.int64) for name, examples in self.splits.items()}

    def described(self) -> dict[str, Any]:
        """What a result says of it: which rows were learnt from, and which judged by."""
        name, in_folds = judged_split(self.splits)
        return {
            "judged_on": f"folds of {name}" if in_folds else name,
            "splits": {
                split: {"rows": len(examples), "fingerprint": examples.fingerprint}
                for split, examples in self.splits.items()
            },
        }


Load = Callable[[DatasetConfig, str], Examples | None]
"""Reads a split of a set; None where there is no file."""


def asked_tasks(job: DataRequest, load: Load) -> list[TransferTask]:
    """The tasks of `evaluation.transfer`, each set as the job describes it, or else as conf/dataset does.

    Raises UserError for a set that is not known, has no file or no classes.
    """
    described = {**job.evaluate, **job.dataset}
    tasks = []
    for name in dict.fromkeys(job.evaluation.transfer):
        config = described.get(name) or configured_set(name)
        tasks.append(_task(config, job, load))
    return tasks


def _task(config: DatasetConfig, job: DataRequest, load: Load) -> TransferTask:
    if Kind(config.kind) not in CLASSIFIED_KINDS:
        raise UserError(
            f"{config.name} has {config.kind.replace('_', ' ')}s, and a classifier needs classes: 0/1 pairs or NLI "
            "pairs, such as mrpc, qqp or snli, or texts with a class, such as tnews"
        )
    loaded = {split: load(config, split) for split in SPLITS}
    splits = {split: examples for split, examples in loaded.items() if examples is not None}
    if not splits:
        raise UserError(
            f"{config.name} has no file: source={config.source or job.source}, data_dir={job.data_dir}; set data_dir="
            "<folder that holds the sets>, or leave it out"
        )
    task = TransferTask(config.name, splits)
    if reason := too_few(task.labels):
        raise UserError(f"transfer: {config.name}: {reason}")
    return task
