"""The rows of a job: each split from the place that was named, verified row by row before any model is loaded.

Small files are read before torch is loaded, too: that first look tells what is wrong with them within a second.
Of large files it is only seen that they are there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import JUDGED, Examples, Kind
from juzhen.core.measures import UNSCORED, first_measure
from juzhen.core.result import Score
from juzhen.core.transfer import too_few
from juzhen.data.configured import configured_set
from juzhen.data.files import BUILTIN_DATA, files_of, has_split, on_disk, present_forms
from juzhen.data.foreign_rows import as_fields
from juzhen.data.hub import read_hub, require_hub
from juzhen.data.judgements import judged, kind_of_rows
from juzhen.data.rankings import RankingSet, as_ranking, as_retrieval
from juzhen.data.readers import FileTable, decompressed, read_table
from juzhen.data.spec import DataRequest, DatasetConfig, Source, SplitRequest
from juzhen.data.text import TextTable, load_text
from juzhen.data.transfer import TransferTask, asked_tasks
from juzhen.data.verify import verified
from juzhen.data.views import apply_view, with_equal_columns, with_negatives

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
            examples, measure = load_split(job, config, split), first_measure(kind, unscored)
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
        examples = apply_view(examples, kind)
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


ROW_POLICIES = ("error", "drop")


def load_examples(
    config: DatasetConfig,
    split: str,
    *,
    source: str,
    data_dir: str | Path,
    on_bad_row: str,
    required: bool = False,
    group: str = "dataset",
) -> Examples | None:
    """The rows of one split, verified; None when there is no file for it.

    source      builtin, local or hub; the dataset's own `source` goes before it; nothing else is tried
    data_dir    folder that the paths of a layout start from, for source=local
    on_bad_row  error: the first faulty row stops the job · drop: faulty rows are left out and counted
    required    a missing split is a UserError that says where it was looked for
    group       dataset or evaluate: where the set stands in the configuration, for what messages say to type

    A promise of rows binds files only: a hub dataset has the rows of its pinned revision.
    """
    return _loaded(
        SplitRequest(config, split, config.source or source, data_dir, on_bad_row, required, group)
    )


def _loaded(request: SplitRequest) -> Examples | None:
    """The verified rows, which know whether their pairs may be turned round; None as in `load_examples`."""
    examples = _rows(request)
    if examples is None:
        return None
    by_kind = False if examples.kind in JUDGED and examples.symmetric is None else examples.symmetric
    return replace(
        examples, symmetric=by_kind if request.config.symmetric is None else request.config.symmetric
    )


def _rows(request: SplitRequest) -> Examples | None:
    config, split, key = request.config, request.split, request.key
    require_choice("source", request.source, [member.value for member in Source])
    require_choice("on_bad_row", request.on_bad_row, ROW_POLICIES)
    if config.kind in JUDGED and (kind := kind_of_rows(_columns(config, request.source))):
        pairs = _loaded(replace(request, config=replace(config, kind=kind)))
        return None if pairs is None else _judged_pairs(pairs, Kind(config.kind))
    if request.source == Source.HUB:
        return _from_hub(request)
    folder = BUILTIN_DATA if request.source == Source.BUILTIN else Path(request.data_dir).expanduser()
    require_choice(f"{key}.layout", config.layout, config.layouts)
    layout = request.layout
    if layout.window is not None:
        return _text_from_file(request, folder)
    if not isinstance(layout.files.get(split), list):
        return _from_file(request, folder)
    if config.kind in JUDGED:
        raise UserError(f"{key}: {split} lists several files; the judgements of a {config.kind} are in one")
    parts = [_loaded(replace(request, config=part, required=False)) for part in parts_of(request)]
    rows = joined(parts, request)
    if rows is None and request.required:
        raise UserError(_absence(request, split, folder))
    return rows


def _columns(config: DatasetConfig, source: str) -> Mapping[str, Any]:
    """Which fields the rows of a set fill; nothing where the layout is not there, which others tell of."""
    if source == Source.HUB:
        return config.on_hub.columns if config.on_hub else {}
    return config.layouts[config.layout].columns if config.layout in config.layouts else {}


def _judged_pairs(pairs: Examples, kind: Kind) -> Examples:
    """Pairs as judgements; where documents are only put in order, each query has those that it is judged with."""
    retrieval = as_retrieval(pairs)
    return retrieval if kind is Kind.RETRIEVAL else replace(retrieval, kind=kind, documents=None)


def parts_of(request: SplitRequest) -> list[DatasetConfig]:
    """The dataset once for each file of a split that lists several; no promise of rows binds a part."""
    config, layout, split = request.config, request.layout, request.split
    return [
        replace(config, rows={}, layouts={config.layout: replace(layout, rows=None, files={split: path})})
        for path in layout.files[split]
    ]


def joined(parts: Sequence[Examples | None], request: SplitRequest) -> Examples | None:
    """The rows of all parts; None when a part has no file: a set with a part missing is another set.

    Line numbers are those of the part that a row is from. Raises UserError for a `required` split of which only some
    files are there.
    """
    split, key, paths = request.split, request.key, request.layout.files[request.split]
    missing = [path for path, part in zip(paths, parts, strict=True) if part is None]
    if missing and request.required and len(missing) < len(parts):
        raise UserError(
            f"{key}: {split} is read from {len(parts)} files, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there; fetch what is missing, or choose another layout: "
            f"{key}.layout=…"
        )
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    first = present[0]
    fingerprints = "".join(part.fingerprint for part in present)
    if first.kind is Kind.TRIPLET:
        present = with_equal_columns(present)
        first = present[0]
    return Examples.from_texts(
        first.name,
        split,
        kind=first.kind,
        texts={column: [text for part in present for text in part.texts(column)] for column in first.columns},
        targets=None if first.targets is None else np.concatenate([part.targets for part in present]),
        fingerprint=hashlib.blake2b(fingerprints.encode(), digest_size=16).hexdigest(),
        num_dropped=sum(part.num_dropped for part in present),
        lines=np.concatenate([part.lines for part in present]),
        num_classes=first.num_classes,
        teacher_scores=None
        if first.teacher_scores is None
        else np.concatenate([part.teacher_scores for part in present]),
        missing=None if first.missing is None else np.concatenate([part.missing for part in present]),
    )


def _from_hub(request: SplitRequest) -> Examples | None:
    config, hub, split = request.config, request.config.on_hub, request.split
    if hub is None or split not in hub.splits:
        if request.required or hub is None:
            reason = f"{hub.id} has only {', '.join(hub.splits)}" if hub else "this set is on no hub"
            raise UserError(
                f"{config.name}/{split}: {reason}; choose {request.key}.source=local, data_dir=<folder>"
            )
        return None
    table = read_hub(config.name, hub, split)
    if config.kind not in JUDGED:
        return verified(table, request, columns=hub.columns)

    def part(name: str) -> FileTable:
        subset = replace(hub, subset=name, splits={name: hub.splits.get(name, hub.splits[split])})
        return read_hub(config.name, subset, name)

    return judged(table, part, request, columns=hub.columns)


def _from_file(request: SplitRequest, folder: Path) -> Examples | None:
    config, layout = request.config, request.layout
    path = _file(request, request.split, folder, required=request.required)
    if path is None:
        return None
    promised = (config.rows if layout.rows is None else layout.rows).get(request.split)
    table, columns = read_table(path, header=layout.header, quoted=layout.quoted), layout.columns
    if layout.format is not None:
        options: Any = {"num_negatives": layout.negatives, "teacher_scores": layout.teacher_scores}
        table = as_fields(table, layout.format, Kind(config.kind), **options)
        columns = {name: name for name in table.names or ()}
    if config.kind not in JUDGED or layout.format is not None:
        return verified(table, request, columns=columns, promised=promised)

    def part(name: str) -> FileTable:
        path = _file(request, name, folder, required=True)
        assert path is not None  # or it is a UserError
        return read_table(path, header=layout.header, quoted=layout.quoted)

    return judged(table, part, request, columns=layout.columns, promised=promised)


def _text_from_file(request: SplitRequest, folder: Path) -> Examples | None:
    """The windows of a plain-text file; dev is held out from the train file where it has no file of its own."""
    layout, split = request.layout, request.split
    dev = _file(request, "dev", folder, required=False)
    holds_out = dev is None and layout.held_out_percent > 0 and split in ("train", "dev")
    path = _file(request, "train" if holds_out else split, folder, required=request.required)
    return None if path is None else load_text(path, request, holds_out=holds_out)


def _file(request: SplitRequest, split: str, folder: Path, *, required: bool) -> Path | None:
    """Where the split lies; None when it has no file and may do without."""
    named = request.layout.files.get(split)
    if not folder.is_dir() and not (named and Path(named).is_absolute()):
        raise UserError(
            f"data_dir={folder}: no such folder; choose data_dir=<folder that holds the data sets>"
        )
    path = on_disk(folder / named) if named else None
    if path is None and required:
        raise UserError(_absence(request, split, folder))
    if path is None:
        return None
    for other in present_forms(path):
        if other != path and decompressed(other) != decompressed(path):
            raise UserError(
                f"{path}: {other.name} lies beside it and holds something else, so it is not clear which is meant; "
                "keep only one"
            )
    return path


def _absence(request: SplitRequest, split: str, folder: Path) -> str:
    """Where a required split was looked for, and what to type."""
    config, layout, key = request.config, request.layout, request.key
    named = layout.files.get(split)
    named = named[0] if isinstance(named, list) else named
    looked_for = (
        f"there is no file {folder / named}"
        if named
        else f"its layout {config.layout} names no such file (only {', '.join(layout.files)})"
    )
    layouts = [name for name in config.layouts if name != config.layout]
    ways = [f"choose data_dir=<folder that holds {named}>"] if named else []
    ways += [f"{key}.layout={name}" for name in layouts]
    ways += [f"{key}.source=hub"] if config.on_hub and split in config.on_hub.splits else []
    ways += [] if named else [f"name it in {key}.layouts.{config.layout}.files.{split}=<path>"]
    return f"{config.name}/{split}: {looked_for}; {', or '.join(ways)}"
