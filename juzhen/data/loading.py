"""Load all rows of a job and check them before any model is loaded. Small files come before torch.

This first check reports faults of files within a second. Of large files only the existence is checked.

The classification tasks of a job, and samples of sentences that measure an embedding space, are its data, too.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import (
    CLASSIFIED_KINDS,
    JUDGED,
    RANKED,
    Examples,
    Kind,
    SentenceUnion,
    judged_split,
    too_few,
)
from juzhen.core.kinds import UNSCORED, main_metric
from juzhen.core.result import Score
from juzhen.data.convert import convert_rows, with_negatives
from juzhen.data.rankings import RankingSet, as_ranking
from juzhen.data.readers import files_of, has_split
from juzhen.data.running_text import TextTable
from juzhen.data.source import load_examples, load_named, require_hub
from juzhen.data.spec import DataRequest, DatasetConfig, Source, configured_set, smallest


@dataclass(frozen=True)
class Probe:
    """A sample of sentences, and pairs among them.

    Args:
        sentences: The sample.
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

        Args:
            sets: Rows of pairs or triplets. Rows of other kinds are ignored.
            num_sentences: Each pair has two.
            seed: Of the drawn rows.

        Returns:
            Distinct sentences, and the pairs among them.
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
        """Sample at most `num_sentences` texts, without pairs.

        Args:
            texts: To draw from.
            num_sentences: Number of texts at most.
            seed: Of the drawn texts.
            classes: Class of each text, int (texts,), or None.

        Returns:
            The texts in their old order.
        """
        rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[:num_sentences])
        chosen = None if classes is None else classes[rows]
        return cls([texts[row] for row in rows], np.empty((2, 0), dtype=np.int64), np.empty(0), chosen)

    @classmethod
    def of(cls, examples: Examples, *, num_sentences: int, seed: int) -> "Probe":
        """Sample one set of any kind.

        Args:
            examples: Pairs are sampled as by `drawn`, other rows as single texts with their classes.
            num_sentences: Number of sentences at most.
            seed: Of the drawn rows.

        Returns:
            Sampled sentences, with their pairs or classes.
        """
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
        name: Name of the set.
        splits: Split → its rows.
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
        """Describe the rows of fitting and evaluation for a result.

        Returns:
            `judged_on`, and the number of rows and the fingerprint of each split.
        """
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


def _asked_tasks(job: DataRequest, load: Load) -> list[TransferTask]:
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


if TYPE_CHECKING:
    from juzhen.data.leaks import LeakFilter


@dataclass(frozen=True)
class JobData:
    """Rows of a job.

    Args:
        train: Dataset key → training rows, in the kind that its loss reads.
        evaluation: Every scored set, one entry per split.
        absent: `split/dataset` of evaluation splits without a file → the metric that is null in the result.
        tasks: Sets with classes, for classifiers at the end of a stage.
        unscored: Evaluation set → the reason why the model has no metric for it.
    """

    train: dict[str, Examples]
    evaluation: list[Examples]
    absent: dict[str, str] = field(default_factory=dict)
    tasks: list[TransferTask] = field(default_factory=list)
    unscored: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, Score]:
        """Scores of splits without a file: a missing score is null."""
        return {
            f"{split}/{metric}": Score(None, why="the split has no file")
            for split, metric in self.absent.items()
        }


def load_job_data(
    job: DataRequest,
    kinds: Mapping[str, Kind],
    *,
    unscored: Mapping[Kind, str] = UNSCORED,
) -> JobData:
    """Read every training set (as the kind in `kinds`) and every evaluation split of a job.

    Args:
        job: The job.
        kinds: Dataset key → kind that its loss reads.
        unscored: Kinds for which the model has no metric, with the reason. Sets of these kinds are not evaluated.

    Returns:
        Training sets and evaluation splits.

    Raises:
        UserError: A set is missing or faulty, or the model cannot take the task of `transfer`.
    """
    if job.evaluation.transfer and Kind.LABELLED_TEXT in unscored:
        raise UserError(f"transfer: {unscored[Kind.LABELLED_TEXT]}. Leave it at []")
    tasks_of_pairs = _asked_tasks(
        job, lambda config, split: _task_rows(job, load_split(job, config, split), split)
    )
    read = {
        name: cast(Examples, load_split(job, config, "train", required=True))  # otherwise load_split raises
        for name, config in job.dataset.items()
    }
    evaluated = {**job.evaluate, **job.dataset}
    evaluation, absent = [], {}
    for config in evaluated.values():
        kind = Kind(config.kind)
        for split in job.evaluation.splits if kind not in unscored else ():
            examples, measure = load_split(job, config, split), main_metric(kind, unscored)
            if examples is not None:
                evaluation.append(examples)
            elif measure is not None:  # a text without a test file lacks nothing that was requested
                absent[f"{split}/{config.name}"] = measure
    reasons = unscored_reasons(job, unscored)
    _require_evaluation(job, reasons, has_some=bool(evaluation or tasks_of_pairs))
    leaks = None
    if job.filter_leaks:
        from juzhen.data.leaks import LeakFilter  # scipy comes with it, which is slow to load

        leaks = LeakFilter([*evaluation, *_unscored(job, evaluated, unscored)])
    train = {
        name: _training_rows(job, config, kinds[name], read[name], leaks)
        for name, config in job.dataset.items()
    }
    evaluation = [
        cut(sampled(examples, job.evaluation.limit), job.debug_rows, job.seed) for examples in evaluation
    ]
    tasks, without = _text_tasks(job, evaluation, read, made={task.name for task in tasks_of_pairs})
    return JobData(train, evaluation, absent, [*tasks_of_pairs, *tasks], reasons | without)


def load_stages(
    job: DataRequest, stages: Sequence[DataRequest], kinds: Sequence[Mapping[str, Kind]], **options: Any
) -> list[JobData]:
    """Read the rows of each stage, by the kinds that its losses read. Options are those of `load_job_data`.

    Sets are read once, unless two stages train on them in two kinds. A stage's own `limit` reduces its rows.

    Args:
        job: The job, which has the evaluation sets.
        stages: The stages of its schedule.
        kinds: Dataset key → kind, for each stage.
        **options: As of `load_job_data`.

    Returns:
        The rows of each stage, in order.

    Raises:
        UserError: As of `load_job_data`.
    """
    first = {name: kind for kinds_of_stage in reversed(kinds) for name, kind in kinds_of_stage.items()}
    shared, loaded = load_job_data(job, first, **options), []
    for stage, own_kinds in zip(stages, kinds, strict=True):
        if own_kinds.items() <= first.items():
            rows = {name: cut(shared.train[name], stage.dataset[name].limit, job.seed) for name in own_kinds}
            loaded.append(replace(shared, train=rows))
        else:
            loaded.append(load_job_data(stage, own_kinds, **options))
    return loaded


def _text_tasks(
    job: DataRequest, evaluation: Sequence[Examples], read: Mapping[str, Examples], *, made: set[str]
) -> tuple[list[TransferTask], dict[str, str]]:
    tasks, reasons = [], {}
    for name in dict.fromkeys(
        examples.name for examples in evaluation if examples.kind is Kind.LABELLED_TEXT
    ):
        if name in made:
            continue
        config = job.dataset.get(name) or job.evaluate[name]
        train = _task_rows(job, read.get(name) or load_split(job, config, "train"), "train")
        evaluated = {examples.split: examples for examples in evaluation if examples.name == name}
        task = TransferTask(name, ({} if train is None else {"train": train}) | evaluated)
        if reason := too_few(task.labels):
            reasons[name] = reason
        else:
            tasks.append(task)
    return tasks, reasons


def _task_rows(job: DataRequest, examples: Examples | None, split: str) -> Examples | None:
    limit = job.evaluation.transfer_limit if split == "train" else None
    return None if examples is None else cut(examples, smallest(limit, job.debug_rows), job.seed)


def unscored_reasons(job: DataRequest, unscored: Mapping[Kind, str]) -> dict[str, str]:
    """Return evaluation sets with files → the reason why the model has no metric for them.

    Args:
        job: The job.
        unscored: Kind → the reason.

    Returns:
        Name of the set → the reason.
    """
    reasons = {}
    for name, config in job.evaluate.items():
        where = {"source": job.source, "data_dir": job.data_dir}
        splits = job.evaluation.splits if Kind(config.kind) in unscored else ()
        if any(has_split(asdict(config), split, **where) for split in splits):
            reasons[name] = f"{config.kind.replace('_', ' ')}s: {unscored[Kind(config.kind)]}"
    return reasons


def _require_evaluation(job: DataRequest, reasons: Mapping[str, str], *, has_some: bool) -> None:
    """Raises UserError if none of a job's evaluation sets can be evaluated.

    Args:
        job: The job.
        reasons: Sets with files → the reason why the model has no metric for them.
        has_some: At least one set can be evaluated.
    """
    if has_some or not (job.evaluate or not job.dataset):
        return
    evaluated = {**job.evaluate, **job.dataset}
    lost = [name for name in evaluated if name not in reasons]
    parts = [f"{name} cannot be scored ({reason})" for name, reason in reasons.items()]
    parts += (
        [f"no file of {', '.join(lost)} with source={job.source}, data_dir={job.data_dir}"] if lost else []
    )
    raise UserError(
        f"there is nothing to evaluate: {'; '.join(parts) or 'no set is named'}. Set data_dir=<folder that holds "
        "<set>/dev.tsv.zst>, or choose built-in sets, such as demo_sts"
    )


def _unscored(
    job: DataRequest, evaluated: Mapping[str, DatasetConfig], unscored: Mapping[Kind, str]
) -> list[Examples]:
    """Evaluation splits for which this model has no metric, and other models have one."""
    splits = [
        load_split(job, config, split)
        for name, config in evaluated.items()
        for split in job.evaluation.splits
        if Kind(config.kind) in unscored and Kind(config.kind) is not Kind.SENTENCE and name in job.evaluate
    ]
    return [examples for examples in splits if examples is not None]


def load_split(
    job: DataRequest, config: DatasetConfig, split: str, *, required: bool = False
) -> Examples | None:
    """Read one split of a job, as of `load_examples`.

    Args:
        job: The job.
        config: Description of the set.
        split: "train", "dev" or "test".
        required: True: a missing file is an error.

    Returns:
        The rows. None if the set has no such file.
    """
    return load_examples(
        config,
        split,
        source=job.source,
        data_dir=job.data_dir,
        on_bad_row=job.on_bad_row,
        required=required,
        group="dataset" if config.name in job.dataset else "evaluate",
    )


def _training_rows(
    job: DataRequest, config: DatasetConfig, kind: Kind, examples: Examples, leaks: "LeakFilter | None"
) -> Examples:
    # Pairs are compared before they are converted to triplets. Sentences are compared one by one if they are rows.
    if leaks and kind is not Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    if examples.kind is not kind:
        examples = convert_rows(examples, kind)
    if config.learning is not None and config.learning.num_negatives is not None:
        examples = with_negatives(examples, config.learning.num_negatives)
    if leaks and kind is Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    return cut(examples, smallest(config.limit, job.debug_rows), job.seed)


def sampled(examples: Examples, limit: int | None) -> Examples:
    """Sample at most `limit` rows of an evaluation split, or queries with their whole corpus.

    Any job draws the same rows. The fingerprint changes, so their scores are not taken for scores of the whole split.

    Args:
        examples: The split.
        limit: Largest number of rows. None: all.

    Returns:
        The sample.
    """
    chosen = cut(examples, limit, seed=0)
    if chosen is examples:
        return examples
    fingerprint = hashlib.blake2b(f"{examples.fingerprint} {limit}".encode(), digest_size=16).hexdigest()
    corpus = examples.documents if examples.kind in JUDGED else chosen.documents
    return replace(chosen, fingerprint=fingerprint, documents=corpus)


def cut(examples: Examples, limit: int | None, seed: int) -> Examples:
    """Sample at most `limit` rows without replacement, in file order. The table keeps only the sentences they need.

    Of judgements, sample as many queries, with all their judgements. The corpus is then the documents of these.

    Args:
        examples: The split.
        limit: Largest number of rows. None: all.
        seed: Seed of the draws.

    Returns:
        The sample.
    """
    if limit is None or len(examples) <= limit:
        return examples
    draw = np.random.default_rng(seed)
    if examples.kind in JUDGED:
        named = np.union1d(examples.columns["query"], np.array(list(examples.unreachable), dtype=np.int32))
        queries = draw.permutation(named)[:limit]
        chosen = examples.select(np.isin(examples.columns["query"], queries))
        beyond = {
            query: examples.unreachable[query] for query in queries.tolist() if query in examples.unreachable
        }
        corpus = None if chosen.documents is None else np.unique(chosen.columns["document"])
        return replace(chosen, documents=corpus, unreachable=beyond)
    rows = np.sort(draw.permutation(len(examples))[:limit])
    chosen = examples.select(rows)
    if isinstance(chosen.sentences, TextTable):
        return chosen  # indices, not texts: nothing to save
    again = Examples.from_texts(
        chosen.name,
        chosen.split,
        kind=chosen.kind,
        texts={column: chosen.texts(column) for column in chosen.columns},
        targets=chosen.targets,
    )
    return replace(chosen, sentences=again.sentences, columns=again.columns, documents=None)


LOOKED_AT_BYTES = 2 * 2**20
"""Bytes of compressed files, all together: about 100,000 pairs, which take half a second."""


def look_at_data(
    job: DataRequest, *, unscored: Mapping[Kind, str] | None, unwritten: Collection[str] = ()
) -> None:
    """Check a job's sets by small files. An error is the same as that of reading the sets.

    Args:
        job: The job.
        unscored: Kinds that the model is not evaluated on, with the reason. None: unknown, so evaluation sets are
            skipped.
        unwritten: Names of sets whose files are not yet written, which are taken as there.

    Raises:
        UserError: A missing set, nothing to evaluate, or a file that does not fit its description.
    """
    room = LOOKED_AT_BYTES
    evaluated = {**job.evaluate, **job.dataset}
    splits = [(config, "train", True) for config in job.dataset.values()]
    splits += [
        (config, split, False)
        for config in evaluated.values()
        if unscored is not None and Kind(config.kind) not in unscored
        for split in job.evaluation.splits
    ]
    is_evaluated = False
    for config, split, required in splits:
        is_new = config.name in unwritten
        size = LOOKED_AT_BYTES + 1 if is_new else _size(job, config, split)
        is_there = True
        if size is None or size <= room:
            is_there = load_split(job, config, split, required=required) is not None
            room -= size or 0
        is_evaluated |= not required and is_there
    if unscored is not None:
        has_some = is_evaluated or bool(job.evaluation.transfer)
        _require_evaluation(job, unscored_reasons(job, unscored), has_some=has_some)


def _size(job: DataRequest, config: DatasetConfig, split: str) -> int | None:
    """Bytes of a split on the disk. None if it is missing: reading it reports that."""
    source = config.source or job.source
    if source == Source.HUB:
        if config.on_hub is None or split not in config.on_hub.splits:
            return None
        require_hub(config.name, config.on_hub.id)
        return LOOKED_AT_BYTES + 1
    files = files_of(asdict(config), split, source=source, data_dir=job.data_dir)
    return None if files is None else sum(file.stat().st_size for file in files)


def load_ranking(
    name: str,
    split: str = "test",
    *,
    data_dir: str | Path = "data",
    config_dir: str | Path | None = None,
    on_bad_row: str = "error",
) -> RankingSet:
    """Load a set as a ranking: queries, documents, and which documents answer which query.

    Args:
        name: A set of conf/dataset: retrieval, reranking, pairs or triplets.
        split: Its split.
        data_dir: Folder of the sets that are not built in.
        config_dir: Another folder with descriptions in dataset/.
        on_bad_row: "error" raises UserError for the first faulty row, "drop" leaves such rows out.

    Returns:
        The ranking.

    Raises:
        UserError: An unknown set, a missing split, or rows that are not judgements.

    Example:
        >>> ranking = load_ranking("demo_qmc", "dev")
        >>> len(ranking.queries) > 0, ranking.candidates is None
        (True, True)
    """
    places: Any = {"data_dir": data_dir, "config_dir": config_dir}
    return as_ranking(load_named(name, split, on_bad_row=on_bad_row, **places))
