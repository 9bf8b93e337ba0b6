"""All rows a job needs, read and checked before any model is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from datamodules.source import load_examples
from datamodules.views import apply_view
from schema.config import DatasetConfig, JobConfig
from schema.errors import UserError
from schema.examples import SPEARMAN_KINDS, Examples, Kind
from schema.text_table import TextTable

if TYPE_CHECKING:
    from datamodules.leaks import LeakFilter

Known = dict[tuple[str, str], Examples | None]
"""Name of a set and split → rows that have been read before; None: there is no file for it."""


@dataclass(frozen=True)
class JobData:
    """What a job reads.

    train       dataset key → rows to learn from, in the kind its loss takes
    evaluation  every set that is scored, one entry per split
    absent      `split/dataset` of evaluation splits that have no file: nulls in the result
    """

    train: dict[str, Examples]
    evaluation: list[Examples]
    absent: list[str] = field(default_factory=list)

    def selecting(self, trained: tuple[str, ...], monitor: str) -> list[Examples]:
        """The dev sets whose mean Spearman chooses the checkpoint; empty when there is none.

        auto: those of the trained sets, or of all sets when no trained set has one.
        """
        dev = {one.name: one for one in self.evaluation if one.split == "dev"}
        if monitor != "auto":
            name = monitor.split("/")[1] if monitor.count("/") == 2 else monitor
            if name not in dev:
                raise UserError(
                    f"training.monitor={monitor}: no dev split of {name} is evaluated; there is "
                    f"{', '.join(dev) or 'none'}. Type training.monitor=dev/<dataset>/spearman or auto."
                )
            return [dev[name]]
        return [dev[name] for name in trained if name in dev] or list(dev.values())


def load_job_data(
    job: JobConfig,
    kinds: Mapping[str, Kind],
    *,
    scored: tuple[Kind, ...] = SPEARMAN_KINDS,
    known: Known | None = None,
) -> JobData:
    """Reads every training set (as the kind in `kinds`) and every evaluation split of a job.

    scored  kinds of which the model has something to measure; sets of other kinds are not evaluated on
    known   what a first look has read (`datamodules.first_look`)
    """
    known = {} if known is None else known
    read = {
        name: _known_or_read(job, config, "train", known, required=True)
        for name, config in job.dataset.items()
    }
    evaluated = {**job.evaluate, **job.dataset}
    evaluation, absent = [], []
    for config in evaluated.values():
        for split in job.evaluation.splits if Kind(config.kind) in scored else ():
            found = _known_or_read(job, config, split, known)
            if found is None and Kind(config.kind) not in SPEARMAN_KINDS:
                continue  # a text without test file lacks nothing that anybody asked for
            if found is None:
                absent.append(f"{split}/{config.name}")
            else:
                evaluation.append(found)
    require_evaluation(job, bool(evaluation))
    leaks = _leak_filter([*evaluation, *_unscored(job, evaluated, scored)]) if job.filter_leaks else None
    train = {
        name: _training_rows(job, config, kinds[name], read[name], leaks)
        for name, config in job.dataset.items()
    }
    return JobData(train, [_cut(one, job.debug_rows, job.seed) for one in evaluation], absent)


def _leak_filter(evaluation: list[Examples]) -> "LeakFilter":
    from datamodules.leaks import LeakFilter  # scipy comes with it, which takes its time

    return LeakFilter(evaluation)


def require_evaluation(job: JobConfig, has_some: bool) -> None:
    """Raises UserError for a job that was to be evaluated on something, and no set has a file."""
    if has_some or not (job.evaluate or not job.dataset):
        return
    looked_for = ", ".join({**job.evaluate, **job.dataset}) or "nothing (suite=none and dataset=[])"
    raise UserError(
        f"no evaluation set has a file: looked for {looked_for} with source={job.source}, "
        f"data_dir={job.data_dir}. Set data_dir=<folder that holds <set>/dev.tsv.zst>, or suite=demo."
    )


def _unscored(
    job: JobConfig, evaluated: Mapping[str, DatasetConfig], scored: tuple[Kind, ...]
) -> list[Examples]:
    """Evaluation splits that this model has nothing to measure on, but that others are measured on."""
    found = [
        load_split(job, config, split)
        for name, config in evaluated.items()
        for split in job.evaluation.splits
        if Kind(config.kind) not in scored and Kind(config.kind) is not Kind.SENTENCE and name in job.evaluate
    ]
    return [one for one in found if one is not None]


def _known_or_read(
    job: JobConfig, config: DatasetConfig, split: str, known: Known, *, required: bool = False
) -> Examples | None:
    if (config.name, split) in known:
        return known[config.name, split]
    return load_split(job, config, split, required=required)


def load_split(
    job: JobConfig, config: DatasetConfig, split: str, *, required: bool = False
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
    job: JobConfig, config: DatasetConfig, kind: Kind, examples: Examples, leaks: "LeakFilter | None"
) -> Examples:
    # Pairs are looked at before a view makes triplets of them, but sentences one by one if that is what is learnt.
    if leaks and kind is not Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    examples = apply_view(examples, kind)
    if leaks and kind is Kind.SENTENCE:
        examples = leaks.without_leaks(examples)
    limits = [limit for limit in (config.limit, job.debug_rows) if limit is not None]
    return _cut(examples, min(limits, default=None), job.seed)


def _cut(examples: Examples, limit: int | None, seed: int) -> Examples:
    """At most `limit` rows, drawn without replacement and kept in file order; the table keeps what they need."""
    if limit is None or len(examples) <= limit:
        return examples
    rows = np.sort(np.random.default_rng(seed).permutation(len(examples))[:limit])
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
    return replace(chosen, sentences=again.sentences, columns=again.columns)
