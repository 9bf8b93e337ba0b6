"""`juzhen evaluate`: scores what finished runs lack, with the encoders they left behind."""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from juzhen.cli.options import Columns, LongTexts, Overlap
from juzhen.core.errors import UserError
from juzhen.core.lazy_names import offered
from juzhen.core.paths import CONFIGURATION
from juzhen.core.process import caches_below
from juzhen.core.result import WITHOUT_LEAKS, Result
from launch.evaluate_encoders import (
    TOP,
    asks_for_encoders,
    asks_for_two_stages,
    measure_encoders,
    measure_two_stages,
)

if TYPE_CHECKING:  # it loads torch, and neither --help nor a folder that lacks nothing should wait for that
    from conf.job import JobConfig
    from juzhen.evaluation.backfill import Backfill, Changes
    from juzhen.evaluation.saved_run import Descriptions, SavedRun

ROUNDING = 1e-6
"""Smaller differences are those of sentences that went through the encoder in other company."""


def evaluate(
    runs: Annotated[
        list[str] | None,
        Argument(
            help="run folders, or folders that hold runs at any depth. For a comparison also folders of "
            "encoders, built-in names, bm25, lexical, and addresses of servers (OpenAI's protocol)"
        ),
    ] = None,
    *,
    benchmark: Annotated[
        str | None, Option("--benchmark", "--suite", help="also the sets of conf/benchmark/NAME.yaml")
    ] = None,
    dataset: Annotated[list[str] | None, Option(help="also conf/dataset/NAME.yaml. May be repeated")] = None,
    config_dir: Annotated[
        str | None, Option(metavar="FOLDER", help="a further folder of dataset/ and benchmark/ files")
    ] = None,
    again: Annotated[
        bool,
        Option(
            "--again", help="replace scores that exist, of the named sets or of all, and report the changes"
        ),
    ] = False,
    without_leaks: Annotated[
        bool,
        Option(
            "--without-leaks",
            help="look for rows that training has seen, and score sets that have some without them, too",
        ),
    ] = False,
    data_dir: Annotated[
        str | None,
        Option(
            metavar="FOLDER", help="folder of the data sets", show_default="where each run has read its sets"
        ),
    ] = None,
    hardware: Annotated[
        str | None, Option(help="of conf/hardware", show_default="what each run has used, on one device")
    ] = None,
    batch_tokens: Annotated[
        int | None, Option(min=1, help="tokens at a time", show_default="as the hardware says")
    ] = None,
    retrieve: Annotated[
        str | None, Option(metavar="RUN", help="first stage: a run or folder of an encoder, bm25, or lexical")
    ] = None,
    rerank: Annotated[
        str | None, Option(metavar="RUN", help="second stage: a run or folder of a cross-encoder")
    ] = None,
    top: Annotated[
        int | None,
        Option(
            min=1,
            help="maximum of documents for the second stage. Fewer are measured too",
            show_default=str(TOP),
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Option(min=1, help="maximum of queries of each set, drawn with a seed. The corpus stays whole"),
    ] = None,
    on_bad_row: Annotated[
        Literal["error", "drop"] | None,
        Option(help="what faulty rows do: end the work, or are left out", show_default="error"),
    ] = None,
    queries: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="queries of your search: an id and a text in each row, or texts. See --answers",
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        Option(metavar="TABLE", help="its documents: an id and a text, with a title where there is one"),
    ] = None,
    answers: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="which document answers which query, with a gain for graded answers, by ids or texts",
            show_default="a column of the queries names the documents",
        ),
    ] = None,
    columns: Columns = None,
    metric: Annotated[
        list[str] | None, Option(metavar="NAME…", help="further measures of rankings, such as R@1 nDCG@5")
    ] = None,
    key_variable: Annotated[
        str, Option(metavar="NAME", help="environment variable with the key of the servers")
    ] = "JUZHEN_API_KEY",
    long_texts: LongTexts = "cut",
    overlap: Overlap = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="for the numbers", show_default="analysis/ in the run, or the second one"
        ),
    ] = None,
) -> None:
    """Scores finished runs on sets for which they have no score, with their saved encoders.

    These are sets whose files came after the run, and sets that were added to its suite. The scores are added to the
    run's result; nothing is trained, and existing scores stay as they are.

    juzhen evaluate runs                         # files that have come since
    juzhen evaluate runs --dataset mine          # and a set of conf/dataset that the runs did not know
    juzhen evaluate runs --benchmark zh_picture  # and the sets of a benchmark
    juzhen evaluate runs --without-leaks         # scores without the rows that training has seen
    juzhen evaluate runs/some-run --again        # everything once more; says what moved

    With --retrieve and --rerank no result is touched: both stages are measured together, quality and time at each
    depth.

    juzhen evaluate --retrieve runs/BI --rerank runs/CE --top 100 --dataset lcqmc_retrieval

    With --long-texts chunk no result is touched either: runs are scored with long texts cut and with the mean of their
    chunks, side by side; of two stages the first one reads them so.

    juzhen evaluate runs/BI --long-texts chunk --dataset t2_retrieval

    Encoders, servers and runs are measured side by side, and no result is touched, where what is named is not of runs
    alone, or where the tables of a search are given: queries, documents, and which answers which.

    juzhen evaluate builtin/mini_zh bm25 http://127.0.0.1:8000 --dataset demo_retrieval
    juzhen evaluate runs/NAME --queries queries.csv --corpus documents.csv --answers answers.csv
    """
    runs, dataset = runs or [], dataset or []
    options = SimpleNamespace(**locals())
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise UserError(f"--data-dir {data_dir}: no such folder. Give the folder of the data sets")
    if overlap is not None and long_texts == "cut":
        raise UserError("--overlap is of --long-texts chunk")
    if runs and asks_for_encoders(options):
        measure_encoders(options, _today(options))
    elif long_texts == "chunk" and runs:
        offered("long_texts", "compare")(options, lambda: _today(options))
    elif asks_for_two_stages(options):
        measure_two_stages(options, _today(options))
    elif runs:
        _add_all(options)
    else:
        raise UserError("missing: runs, or --retrieve and --rerank. See juzhen evaluate --help")


def _today(options: SimpleNamespace) -> "JobConfig":
    """The configuration of today, with the sets and the hardware that are asked for."""
    from juzhen.data.tables import is_table
    from launch.check import checked_job

    for name in options.dataset:
        if is_table(name):
            raise UserError(
                f"--dataset {name}: a file, and not the name of a set. Make a set of it first: juzhen dataset {name}."
            )
    overrides = [f"dataset=[{','.join(options.dataset)}]", f"benchmark={options.benchmark or 'none'}"]
    overrides += [f"hardware={options.hardware}"] if options.hardware else []
    overrides += [f"on_bad_row={options.on_bad_row}"] if options.on_bad_row else []
    today = checked_job(overrides, conf_dir=CONFIGURATION, extra=options.config_dir)
    caches_below(today.cache_dir)
    return today


def _add_all(options: SimpleNamespace) -> None:
    from juzhen.evaluation.saved_run import saved_runs

    runs = saved_runs([*map(Path, options.runs)])
    today = _today(options)
    plain = asdict(today)
    columns = cache(partial(_columns, options, today))  # loads torch, for the first run that lacks something
    named, failed = {**plain["evaluate"], **plain["dataset"]}, []
    for number, run in enumerate(runs, start=1):
        start = f"[{number}/{len(runs)}] {run.folder}:"
        try:
            print(f"{start} {_add(run, options, named, columns)}", flush=True)
        except UserError as error:
            failed.append(str(run.folder))
            print(f"{start} failed: {error}", file=sys.stderr, flush=True)
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} failed: {', '.join(failed)}")


def _add(run: "SavedRun", options: SimpleNamespace, named: "Descriptions", columns: Callable) -> str:
    """Add scores to one result, and return a line about it."""
    from juzhen.evaluation.saved_run import missing_sets, unchecked_sets

    def wanted() -> "Descriptions":
        result, where = Result.read(run.folder), {"data_dir": options.data_dir}
        missing = missing_sets(result, named, again=options.again, **where)
        return missing | (unchecked_sets(result, **where) if options.without_leaks else {})

    if not wanted():
        return f"nothing to do{_without_file(Result.read(run.folder), options)}"
    from launch.run_folder import RunFolder

    with RunFolder(run.run, resume="auto", fills=True):
        sets = wanted()  # another process may have been here before the lock was ours
        if not sets:
            return "nothing to do"
        since = time.monotonic()
        changes = columns().add(run, sets)
        return _spoken(changes, Result.read(run.folder), time.monotonic() - since)


def _without_file(result: Result, options: SimpleNamespace) -> str:
    """The sets that were asked for by name and are neither scored nor to be read anywhere."""
    read = {key.split("/")[1] for key in result.data if not key.startswith("train/")}
    lost = [name for name in options.dataset if name not in read]
    folder = options.data_dir or result.config["data_dir"]
    return f" ({', '.join(lost)}: no dev or test file below {folder})" if lost else ""


def _columns(options: SimpleNamespace, today: "JobConfig") -> "Backfill":
    from juzhen.evaluation.backfill import Backfill  # loads torch
    from launch.job import starting_encoder

    return Backfill(
        start=partial(starting_encoder, defaults=today),
        hardware=today.hardware if options.hardware else None,
        data_dir=options.data_dir,
        cache_dir=today.cache_dir,
        batch_tokens=options.batch_tokens,
        again=options.again,
        without_leaks=options.without_leaks,
        progress=sys.stderr.isatty(),
    )


def _spoken(changes: "Changes", result: Result, seconds: float) -> str:
    """Format the new scores ×100 of each split, by the main metric of each set, with changes and failures."""
    from juzhen.core.kinds import main_metric_keys, metric_title

    scores, spoken = [], {*main_metric_keys(key.removesuffix(WITHOUT_LEAKS) for key in changes.added)}
    for key in changes.added:
        column, _, metric = key.rpartition("/")
        measure = metric.removesuffix(WITHOUT_LEAKS)
        if f"{column}/{measure}" not in spoken or key not in result.scores:
            continue
        measures = [] if measure == "spearman" else [metric_title(measure)]
        measures += ["without them"] if metric.endswith(WITHOUT_LEAKS) else []
        scores.append(" ".join([column, *measures, f"{100 * result.scores[key].value:.2f}"]))
    parts = [*changes.notes]
    parts += [f"added {', '.join(scores) or len(changes.added)}"] if changes.added else []
    far = [
        f"{key} {_percent(old)} → {_percent(new)}"
        for key, (old, new) in changes.moved.items()
        if None in (old, new) or abs(old - new) >= ROUNDING
    ]
    near = len(changes.moved) - len(far)
    parts += [f"moved {', '.join(far)}"] if far else []
    parts += [f"{near} others moved by less than {ROUNDING:g}"] if near else []
    return f"{'; '.join(parts) or 'all scores are as they were'} ({seconds:.1f} s)"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.4f}"
