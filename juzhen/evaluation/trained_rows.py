"""What a finished stage has learnt from: the same rows, or the same running text, read again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.loading import load_job_data
from juzhen.evaluation.settings import EvaluationSettings


def trained_rows(
    settings: EvaluationSettings, result: Result, unscored: Mapping[Kind, str]
) -> dict[str, Examples]:
    """What the stage of a result has learnt from: dataset key → rows, after their view and their limit.

    settings  what it evaluates on decides what `filter_leaks` leaves out

    Raises UserError when these are not the rows that were learnt from.
    """
    kinds, scored = {}, set()
    for key, about in result.data.items():
        split, name = key.split("/")
        if split == "train":
            kinds[name] = Kind(about["kind"])
        else:
            scored.add(about["kind"])
    all_sets = {**settings.evaluate, **settings.dataset}
    job = replace(settings, dataset={name: settings.dataset[name] for name in kinds}, evaluate=all_sets)
    # A model that hides words has a measure of texts too: which kinds were scored, the result says itself.
    unscored = {kind: reason for kind, reason in unscored.items() if kind not in scored}
    read = load_job_data(job, kinds, unscored=unscored).train
    for name, examples in read.items():
        _require_same(examples, result.data[f"train/{name}"], data_dir=settings.data_dir)
    return read


def _require_same(examples: Examples, then: Mapping[str, Any], *, data_dir: str) -> None:
    name = examples.name
    if examples.fingerprint != then["fingerprint"]:
        raise UserError(
            f"{name}/train below {data_dir} holds other rows than the run has learnt from; point --data-dir at the "
            "same files"
        )
    if (examples.num_leaky, len(examples)) != (then.get("leaky"), then["rows"]):
        raise UserError(
            f"filter_leaks=true: with these sets in its evaluation the run would have left {examples.num_leaky:,} "
            f"rows of {name}/train out, and not {then.get('leaky') or 0:,}: it has seen pairs of theirs. Train it "
            "again with the whole suite"
        )


def texts_of_run(run: str | Path, *, data_dir: Path | None) -> dict[str, list[str]]:
    """Set → the texts that a finished run that learns from text alone has learnt from, its filter applied again.

    data_dir  where the sets lie; None: where the run read them

    Raises UserError where the run has learnt from pairs, and where the files hold other rows than they did.
    """
    result = Result.read(run)
    kinds = {rows["kind"] for key, rows in result.data.items() if key.startswith("train/")}
    if kinds != {Kind.SENTENCE}:
        raise UserError(f"--run {run}: has learnt from no running text; for sets of pairs type --train <set>")
    job = EvaluationSettings.of(result.config)
    job.data_dir = str(data_dir or job.data_dir)
    job.evaluation.transfer = []
    read = trained_rows(job, result, dict.fromkeys(Kind, ""))
    return {name: examples.texts("text") for name, examples in read.items()}
