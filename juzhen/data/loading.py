"""All rows a job needs, read and checked before any model is loaded; small files also before torch is.

That first look tells what is wrong with files within a second. Of large files it is only seen that they are there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, Examples, Kind, too_few
from juzhen.core.kinds import UNSCORED, main_metric
from juzhen.core.result import Score
from juzhen.data.convert import convert_rows, with_negatives
from juzhen.data.probe import TransferTask, asked_tasks
from juzhen.data.rankings import RankingSet, as_ranking
from juzhen.data.readers import files_of, has_split
from juzhen.data.running_text import TextTable
from juzhen.data.source import load_examples, require_hub
from juzhen.data.spec import DataRequest, DatasetConfig, Source, configured_set

if TYPE_CHECKING:
    from juzhen.data.leaks import LeakFilter


@dataclass(frozen=True)
class JobData:
    """What a job reads.

    train       dataset key → rows to learn from, in the kind its loss takes
    evaluation  every set that is scored, one entry per split
    absent      `split/dataset` of evaluation splits that have no file → the metric that is null in the result
    tasks       sets whose classes a classifier tells apart at the end of a stage
    unscored    sets that were to be evaluated on → why the model has no measure of them
    """

    train: dict[str, Examples]
    evaluation: list[Examples]
    absent: dict[str, str] = field(default_factory=dict)
    tasks: list[TransferTask] = field(default_factory=list)
    unscored: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, Score]:
        """The columns of splits without a file: missing data is null."""
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
    """Reads every training set (as the kind in `kinds`) and every evaluation split of a job.

    unscored  kinds of which the model has nothing to measure, and why; sets of these kinds are not evaluated on
    """
    if job.evaluation.transfer and Kind.LABELLED_TEXT in unscored:
        raise UserError(f"transfer: {unscored[Kind.LABELLED_TEXT]}; leave it at []")
    tasks_of_pairs = asked_tasks(
        job, lambda config, split: _task_rows(job, load_split(job, config, split), split)
    )
    read = {
        name: cast(Examples, load_split(job, config, "train", required=True))  # or it is a UserError
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
            elif measure is not None:  # a text without test file lacks nothing that anybody asked for
                absent[f"{split}/{config.name}"] = measure
    reasons = unscored_reasons(job, unscored)
    require_evaluation(job, reasons, has_some=bool(evaluation or tasks_of_pairs))
    leaks = None
    if job.filter_leaks:
        from juzhen.data.leaks import LeakFilter  # scipy comes with it, which takes its time

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
    """What each stage reads, by the kinds that its losses take; options as of `load_job_data`.

    Sets are read once, except those that two stages learn from in two ways. A stage's own `limit` cuts its rows.
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
    """The tasks of texts with classes that are evaluated on, and why some have none."""
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
    """The rows of a split that a classifier is made with."""
    limits = [job.evaluation.transfer_limit] if split == "train" else []
    limit = min((number for number in (*limits, job.debug_rows) if number is not None), default=None)
    return None if examples is None else cut(examples, limit, job.seed)


def unscored_reasons(job: DataRequest, unscored: Mapping[Kind, str]) -> dict[str, str]:
    """Sets that the job was to evaluate on and has files of → why the model has no measure of them."""
    reasons = {}
    for name, config in job.evaluate.items():
        where = {"source": job.source, "data_dir": job.data_dir}
        splits = job.evaluation.splits if Kind(config.kind) in unscored else ()
        if any(has_split(asdict(config), split, **where) for split in splits):
            reasons[name] = f"{config.kind.replace('_', ' ')}s: {unscored[Kind(config.kind)]}"
    return reasons


def require_evaluation(job: DataRequest, reasons: Mapping[str, str], *, has_some: bool) -> None:
    """Raises UserError for a job that was to be evaluated on something, and no set can be.

    reasons  sets that have files → why the model has no measure of them
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
    """Evaluation splits that this model has nothing to measure on, but that others are measured on."""
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
    """The rows of one split of a job, as `load_examples` gives them."""
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
    # Pairs are looked at before a view makes triplets of them, but sentences one by one if that is what is learnt.
    if leaks and kind is not Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    if examples.kind is not kind:
        examples = convert_rows(examples, kind)
    if config.learning is not None and config.learning.num_negatives is not None:
        examples = with_negatives(examples, config.learning.num_negatives)
    if leaks and kind is Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    limits = [limit for limit in (config.limit, job.debug_rows) if limit is not None]
    return cut(examples, min(limits, default=None), job.seed)


def sampled(examples: Examples, limit: int | None) -> Examples:
    """At most `limit` rows of an evaluation split, or queries with their whole corpus; any job draws the same ones.

    The fingerprint is another one, so these are not taken for scores of the whole split.
    """
    chosen = cut(examples, limit, seed=0)
    if chosen is examples:
        return examples
    fingerprint = hashlib.blake2b(f"{examples.fingerprint} {limit}".encode(), digest_size=16).hexdigest()
    corpus = examples.documents if examples.kind in JUDGED else chosen.documents
    return replace(chosen, fingerprint=fingerprint, documents=corpus)


def cut(examples: Examples, limit: int | None, seed: int) -> Examples:
    """At most `limit` rows, drawn without replacement and kept in file order; the table keeps what they need.

    Of judgements as many queries, with all that is known of them; the corpus is then what these name.
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
        return chosen  # holds places, no texts: there is nothing to save
    again = Examples.from_texts(
        chosen.name,
        chosen.split,
        kind=chosen.kind,
        texts={column: chosen.texts(column) for column in chosen.columns},
        targets=chosen.targets,
    )
    return replace(chosen, sentences=again.sentences, columns=again.columns, documents=None)


LOOKED_AT_BYTES = 2 * 2**20
"""Of files as they lie on the disk, all together; some 100,000 packed pairs, which take half a second."""


def look_at_data(job: DataRequest, *, unscored: Mapping[Kind, str] | None) -> None:
    """Raises the UserError that reading a job's sets would raise, as far as small files tell.

    unscored  kinds that the model is not evaluated on, and why; None: nobody knows, and evaluation sets are left alone
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
        size = _size(job, config, split)
        is_there = True
        if size is None or size <= room:
            is_there = load_split(job, config, split, required=required) is not None
            room -= size or 0
        is_evaluated |= not required and is_there
    if unscored is not None:
        has_some = is_evaluated or bool(job.evaluation.transfer)
        require_evaluation(job, unscored_reasons(job, unscored), has_some=has_some)


def _size(job: DataRequest, config: DatasetConfig, split: str) -> int | None:
    """Bytes that a split takes up on the disk; None where it is not there, which reading it will say."""
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
    """Queries, documents, and which answers which: of a set of retrieval or reranking, or of pairs or triplets.

    name        of conf/dataset
    data_dir    where sets lie that are not built in
    config_dir  a further folder of dataset/ files; None: there is none
    on_bad_row  error: the first faulty row is a UserError · drop: such rows are left out

    Raises UserError for an unknown set, for one without that split, and for rows that do not say what answers what.
    """
    examples = load_examples(
        configured_set(name, config_dir=None if config_dir is None else Path(config_dir)),
        split,
        source=Source.LOCAL,
        data_dir=data_dir,
        on_bad_row=on_bad_row,
        required=True,
    )
    assert examples is not None  # or it is a UserError
    return as_ranking(examples)
