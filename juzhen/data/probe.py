"""Classification tasks, and samples of sentences to measure an embedding space."""

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
    """A sample of sentences, and pairs among them.

    Args:
        pairs: (2, pairs), indices into `sentences`.
        grades: Gold similarity of each pair, from 0 to 1.
        classes: Class of each sentence, or None.
    """

    sentences: list[str]
    pairs: np.ndarray
    grades: np.ndarray
    classes: np.ndarray | None = None

    @classmethod
    def drawn(cls, sets: Sequence[Examples], *, num_sentences: int, seed: int) -> "Probe | None":
        """Sample pairs with at most `num_sentences` sentences, the same number from each set.

        Sets with graded pairs are used. Without them, positive pairs and anchors with their positives are
        used, with grade 1. Returns None without any of these.
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
        # The sets' tables are complete. Keep only the sentences of the pairs.
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
        """Sample at most `num_sentences` texts, without pairs."""
        rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[:num_sentences])
        chosen = None if classes is None else classes[rows]
        return cls([texts[row] for row in rows], np.empty((2, 0), dtype=np.int64), np.empty(0), chosen)

    @classmethod
    def of(cls, examples: Examples, *, num_sentences: int, seed: int) -> "Probe":
        """Sample one set of any kind."""
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
    """Rows with classes, by split: train, dev and test, as far as they exist.

    Args:
        by_means: Classify by the means of the classes alone, as during training.
    """

    name: str
    splits: dict[str, Examples]
    by_means: bool = False

    @property
    def kind(self) -> Kind:
        return next(iter(self.splits.values())).kind

    @property
    def judged(self) -> str:
        """The split on which the classifier is evaluated."""
        return judged_split(self.splits)[0]

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Class index of each row, by split."""
        return {name: np.asarray(examples.targets, dtype=np.int64) for name, examples in self.splits.items()}

    def described(self) -> dict[str, Any]:
        """Describe the rows of fitting and evaluation for a result."""
        name, in_folds = judged_split(self.splits)
        return {
            "judged_on": f"folds of {name}" if in_folds else name,
            "splits": {
                split: {"rows": len(examples), "fingerprint": examples.fingerprint}
                for split, examples in self.splits.items()
            },
        }


Load = Callable[[DatasetConfig, str], Examples | None]
"""Reads a split of a set. None if it has no file."""


def asked_tasks(job: DataRequest, load: Load) -> list[TransferTask]:
    """Load the tasks of `evaluation.transfer`. A set's description is that of the job, or else of conf/dataset.

    Raises:
        UserError: An unknown set, or one without a file or without classes.
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
            f"{config.name} has no file: source={config.source or job.source}, data_dir={job.data_dir}. Set data_dir="
            "<folder that holds the sets>, or leave it out"
        )
    task = TransferTask(config.name, splits)
    if reason := too_few(task.labels):
        raise UserError(f"transfer: {config.name}: {reason}")
    return task
