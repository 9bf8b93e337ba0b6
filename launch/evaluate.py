"""`juzhen evaluate`: scores what finished runs lack, with the encoders they left behind.

Encoders, runs and servers can also be scored side by side, and two-stage retrieval. That changes no result.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from juzhen.cli.options import Columns, LongTexts, Overlap, Sheet, SplitCells, data_folder
from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError, setting
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import (
    MEASURES,
    RANKINGS,
    STANDARD_RANKS,
    Kind,
    main_metric_keys,
    metric_key,
    metric_title,
)
from juzhen.core.lazy_names import offered
from juzhen.core.machine import caches_below, describe_environment
from juzhen.core.paths import CONFIGURATION, DATASETS, files_below, is_table
from juzhen.core.result import RESULT_FILE, WITHOUT_LEAKS, Result, Score, weights_digest
from juzhen.core.text import counted, markdown_table
from juzhen.models.settings import LEXICAL

if TYPE_CHECKING:
    from conf.job import JobConfig
    from juzhen.core.examples import Examples
    from juzhen.data.rankings import RankingSet
    from juzhen.evaluation.backfill import Backfill, Changes
    from juzhen.evaluation.saved_run import Descriptions, SavedRun
    from juzhen.evaluation.settings import EvaluationSettings
    from juzhen.evaluation.two_stage import RerankedScores


TABLES = ("queries", "corpus", "answers")
OTHERS = ("again", "without_leaks", "retrieve", "rerank", "top")
SHOWN = 4
"""Measures of a set that are shown where it is no ranking."""


def _asks_for_encoders(options: SimpleNamespace) -> bool:
    """True if no result is touched: there are tables, or a name that is not a folder of runs."""
    return any(getattr(options, name) for name in TABLES) or any(map(_is_no_run, options.runs))


def _is_no_run(name: str) -> bool:
    if "://" in name or name in LEXICAL or _is_file_of_rows(name):
        return True
    folder = Path(name)
    if folder.is_dir() and files_below(folder, RESULT_FILE):
        return False
    from juzhen.encoders.resolve_path import locate_folder

    found = locate_folder(name)
    return found is not None and any((found / file).is_file() for file in ("modules.json", "config.json"))


def _is_file_of_rows(name: str) -> bool:
    return is_table(name) and not Path(name).is_dir()


def _measure_encoders(options: SimpleNamespace, today: "JobConfig") -> None:
    """Prints a table for each set, a row for each encoder. With --out also writes the numbers.

    Raises UserError without sets, for options of what fills results, and for an encoder that is not there.
    """
    from juzhen.data.tables import require_there

    refuse(options, OTHERS, "encoders are only compared here")
    for name in filter(is_table, options.runs):
        require_there(Path(name))
    sets = _sets(options, today)
    if options.metric and not any(hasattr(one, "relevant") for one in sets):
        raise UserError("--metric: a measure of rankings, and none of these sets is one. Leave it out")
    if not sets:
        raise UserError(
            "nothing to measure on: name a file of rows, sets with --dataset, or --queries, --corpus and --answers"
        )
    encoders = [name for name in options.runs if not _is_file_of_rows(name)]
    if not encoders:
        raise UserError(f"{options.runs[0]}: a file of rows, not an encoder. Type the encoder before it")
    found = {name: _scores(name, sets, options, today) for name in encoders}
    if not any(found.values()):
        raise UserError("nothing was scored. Name another encoder or set")
    from juzhen.core.progress import console_table, for_people

    console = for_people()
    for dataset in sets:
        column = f"{dataset.split}/{dataset.name}"
        measures = _measures(dataset, options)
        head = ["encoder", *map(metric_title, measures), "n"]
        body = [[name, *_cells(scores, column, measures)] for name, scores in found.items()]
        print(f"{column} ×100, with 95 % intervals")
        if console:
            console.print(console_table(head, body, numbers=head[1:]))
        else:
            print(markdown_table(head, body, numbers=range(1, len(head))), end="\n\n")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        numbers = {
            name: {key: score.as_dict() for key, score in scores.items()} for name, scores in found.items()
        }
        write_json(options.out / "encoders.json", numbers)


def refuse(options: SimpleNamespace, names: Iterable[str], reason: str) -> None:
    """Refuse options that have no effect here.

    Args:
        options: Options of the verb by name.
        names: Names of the options without an effect.
        reason: Reason for the message.

    Raises:
        UserError: One of them is given.
    """
    for name in names:
        if getattr(options, name):
            raise UserError(f"--{name.replace('_', '-')}: {reason}. Leave it out")


def _sets(options: SimpleNamespace, today: "JobConfig") -> "list[Examples | RankingSet]":
    """The rows of all sets, and the search of the tables. `limit` cuts the queries of rankings."""
    from juzhen.core.examples import JUDGED
    from juzhen.data.loading import load_job_data
    from juzhen.data.rankings import as_ranking
    from juzhen.data.rows import own_set, set_and_split
    from juzhen.data.tables import TableReading, parse_columns
    from juzhen.evaluation.run import require_names_once
    from juzhen.evaluation.two_stage import some_queries

    search_of_tables = offered("tables", "search_of_tables")
    sets: list[Examples | RankingSet] = []
    if options.dataset or options.benchmark is not None:
        for examples in load_job_data(settings_of_options(options, today), {}).evaluation:
            sets.append(as_ranking(examples) if examples.kind in JUDGED else examples)
    reading = TableReading(
        columns=parse_columns(options.columns),
        sheet=options.sheet,
        split_cells=options.split_cells,
        on_bad_row=options.on_bad_row or "error",
    )
    for file in map(Path, filter(_is_file_of_rows, options.runs)):
        name, split = set_and_split(file)
        sets.append(replace(own_set(file, reading, split)[1], name=name))
    if any(getattr(options, name) for name in TABLES):
        for name in ("queries", "corpus"):
            if getattr(options, name) is None:
                raise UserError(f"--{name}: missing. A search needs the tables --queries and --corpus")
        search = search_of_tables("search", options.queries, options.corpus, options.answers, reading)
        print("\n".join(search.taken), end="\n\n")
        for place, lines in search.left_out.items():
            line, reason = min(lines.items())
            if reading.on_bad_row == "error":
                raise UserError(
                    f"{place}:{line}: {reason}. Fix it, or leave such rows out: --on-bad-row drop"
                )
            print(f"{place}: {counted(len(lines), 'rows')} left out, such as line {line}: {reason}")
        sets.append(search.ranking())
    require_names_once(sets)
    return [
        some_queries(one, options.limit, seed=today.seed) if hasattr(one, "relevant") else one for one in sets
    ]


def settings_of_options(options: SimpleNamespace, today: "JobConfig") -> "EvaluationSettings":
    """Make the settings of an evaluation on the named sets. None of them is learnt from.

    Args:
        options: Options of `juzhen evaluate`. Those of data, batches and long texts are read.
        today: Job of the current configuration, with the named sets.

    Returns:
        The settings.
    """
    from juzhen.evaluation.settings import EvaluationSettings

    settings = EvaluationSettings.of(asdict(today))
    settings.evaluate, settings.dataset = settings.evaluate | settings.dataset, {}
    settings.data_dir = options.data_dir or settings.data_dir
    settings.hardware.eval_batch_tokens = options.batch_tokens or settings.hardware.eval_batch_tokens
    settings.long_texts, settings.chunk_overlap = options.long_texts, options.overlap
    return settings


def _scores(
    name: str, sets: "Sequence[Examples | RankingSet]", options: SimpleNamespace, today: "JobConfig"
) -> dict[str, Score]:
    """Metric key → score, of those sets that the encoder has a measure of."""
    from juzhen.core.examples import Examples
    from juzhen.evaluation.run import EvaluationRun, class_tasks
    from juzhen.families.registry import open_encoder

    encoder = (
        offered("encoders", "server")(name, os.environ.get(options.key_variable))
        if "://" in name
        else open_encoder(name)
    )
    settings = settings_of_options(options, today)
    run = EvaluationRun(encoder, settings, today.cache_dir, progress=os.isatty(2))
    kinds = {id(one): one.kind if isinstance(one, Examples) else Kind.RETRIEVAL for one in sets}
    scored = [one for one in sets if kinds[id(one)] not in run.evaluator.unscored]
    for one in sets:
        if reason := run.evaluator.unscored.get(kinds[id(one)]):
            print(f"{name}: {one.split}/{one.name} is not scored: {reason}", file=sys.stderr)
    return run(scored, class_tasks(scored), seen={})[0].scores if scored else {}


def _measures(dataset: "Examples | RankingSet", options: SimpleNamespace) -> list[str]:
    """Metrics of a set to show, its main metric first."""
    from juzhen.core.examples import Examples

    if not isinstance(dataset, Examples):
        return list(dict.fromkeys([*RANKINGS[:3], *map(metric_key, options.metric or ()), *RANKINGS[3:]]))
    if dataset.kind is Kind.POSITIVE_PAIR:
        return [*STANDARD_RANKS, "ranking_accuracy"]
    return [*MEASURES[dataset.kind][:SHOWN]]


def _cells(scores: Mapping[str, Score], column: str, measures: Sequence[str]) -> list[str]:
    """The scores of a set ×100, the first with its interval, and the rows or queries."""
    found = [scores.get(f"{column}/{measure}") for measure in measures]
    cells = []
    for number, score in enumerate(found):
        text = "–" if score is None or score.value is None else f"{100 * score.value:.1f}"
        if number == 0 and score is not None and score.low is not None and score.high is not None:
            text += f" [{100 * score.low:.1f}, {100 * score.high:.1f}]"
        cells.append(text)
    counts = {score.count for score in found if score is not None and score.count}
    return [*cells, f"{max(counts, default=0):,}"]


TOP = 100
OF_RUNS = ("again", "without_leaks")
OF_STAGES = ("retrieve", "rerank", "top", "limit", "on_bad_row", "out")


def _asks_for_two_stages(options: SimpleNamespace) -> bool:
    """True for options of two stages. Raises UserError if one of them is missing."""
    flags = [name.replace("_", "-") for name in OF_STAGES if getattr(options, name) is not None]
    if not flags:
        return False
    if unread := [
        *options.runs,
        *(f"--{name.replace('_', '-')}" for name in OF_RUNS if getattr(options, name)),
    ]:
        raise UserError(
            f"{unread[0]}: with --{flags[0]} only --retrieve and --rerank name encoders. Leave it out"
        )
    if options.retrieve is None or options.rerank is None:
        raise UserError(f"--{flags[0]}: two stages need --retrieve <run> and --rerank <run>")
    if not options.dataset and options.benchmark is None:
        raise UserError(
            "two stages are measured on a set: --dataset <name>, such as --dataset demo_retrieval"
        )
    return True


def _measure_two_stages(options: SimpleNamespace, today: "JobConfig") -> None:
    """Prints a table for each split of each set, and writes its numbers as JSON."""
    if options.out is None and not (Path(options.rerank) / RESULT_FILE).is_file():
        raise UserError(
            f"--rerank {options.rerank}: not a run, so the results need a folder. Type --out <folder>"
        )
    folder = options.out or Path(options.rerank) / "analysis"
    from juzhen.data.loading import load_job_data
    from juzhen.data.rankings import as_ranking
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.evaluation.two_stage import DEPTHS, check_depths, some_queries, two_stage
    from juzhen.families.registry import open_encoder

    settings = settings_of_options(options, today)
    for name, config in settings.evaluate.items():
        if config.kind != Kind.RETRIEVAL:
            raise UserError(
                f"{name} is of kind {config.kind}. Two stages look through a corpus: expected retrieval"
            )
    sets = load_job_data(settings, {}).evaluation
    rankings = [some_queries(as_ranking(examples), options.limit, seed=settings.seed) for examples in sets]
    top = options.top or TOP
    depths = [*(depth for depth in DEPTHS if depth < top), top]
    for ranking in rankings:
        check_depths(ranking, depths)
    stages = open_encoder(options.retrieve), CrossEncoder.load(options.rerank)
    about: dict[str, Any] = {
        "retrieve": {"encoder": options.retrieve, "weights": _weights(options.retrieve)},
        "rerank": {"encoder": options.rerank, "weights": _weights(options.rerank)},
        "seed": settings.seed,
        "hardware": asdict(settings.hardware),
        "environment": describe_environment(),
    }
    settings_of_stages: dict[str, Any] = {
        "settings": settings,
        "cache_dir": today.cache_dir,
        "progress": sys.stderr.isatty(),
    }
    deciding = [
        about["retrieve"]["weights"] or options.retrieve,
        about["rerank"]["weights"],
        depths,
        options.limit,
        settings.hardware.precision,
        settings.seed,
    ]
    if settings.long_texts != "cut":
        about["long_texts"] = [settings.long_texts, settings.chunk_overlap or 0]
        deciding.append(about["long_texts"])
    paths = []
    for examples in sets:  # other stages, and other rows, have another file
        key = hashlib.sha256(json.dumps([*deciding, examples.fingerprint]).encode()).hexdigest()[:8]
        paths.append(folder / f"two_stage-{examples.name}-{examples.split}-{key}.json")
    check_overwritable(*paths)
    for ranking, path in zip(rankings, paths, strict=True):
        reranked = two_stage(*stages, ranking, depths=depths, **settings_of_stages)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, about | _numbers(ranking, reranked))
        print(_table(ranking, reranked), flush=True)
        print(f"written to {path}", file=sys.stderr)


def _weights(encoder: str) -> str:
    from juzhen.encoders.resolve_path import encoder_source

    return "" if encoder in LEXICAL else weights_digest(encoder_source(encoder))


def _numbers(ranking: "RankingSet", reranked: "list[RerankedScores]") -> dict[str, Any]:
    return {
        "set": ranking.column,
        "queries": len(ranking.queries),
        "documents": len(ranking.corpus),
        "depths": [
            {
                "depth": scores.depth,
                "scores": {metric: score.as_dict() for metric, score in scores.scores.items()},
                "milliseconds": scores.milliseconds.round(3).tolist(),
            }
            for scores in reranked
        ],
    }


def _table(ranking: "RankingSet", reranked: "list[RerankedScores]") -> str:
    import numpy as np

    metrics = [*reranked[0].scores]
    table_rows = []
    for scores in reranked:
        low, middle, high = np.percentile(scores.milliseconds, [10, 50, 90])
        first, *further = (scores.scores[metric] for metric in metrics)
        bounds = "" if first.low is None else f" [{100 * first.low:.1f}, {100 * first.high:.1f}]"
        cells = [f"{100 * first.value:.1f}{bounds}", *(f"{100 * score.value:.1f}" for score in further)]
        table_rows.append([str(scores.depth or "–"), *cells, f"{middle:.1f} ({low:.1f} to {high:.1f})"])
    head = ["reread", *map(metric_title, metrics), "ms per query"]
    about = (
        f"{ranking.column}: {counted(len(ranking.queries), 'queries')}, "
        f"{counted(len(ranking.corpus), 'documents')}; ×100, 95 % interval "
        "over queries; median and 10th to 90th percentile of "
        f"{counted(len(reranked[0].milliseconds), 'queries')}, one at a time"
    )
    return "\n".join([about, "", markdown_table(head, table_rows, numbers=range(len(head))), ""])


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
    dataset: Annotated[
        list[str] | None, Option(help="also this set of conf/dataset. May be repeated")
    ] = None,
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
            help="also score each set without the rows that training has seen",
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
        Option(help="end the work at a faulty row, or leave it out", show_default="error"),
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
    sheet: Sheet = None,
    split_cells: SplitCells = None,
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
            metavar="FOLDER",
            help="for the numbers",
            show_default="analysis/ of the run, or of the second stage",
        ),
    ] = None,
) -> None:
    """Scores finished runs on sets for which they have no score, with their saved encoders.

    These are sets whose files came after the run, and sets that were added to its benchmark. The scores are added to
    the run's result. Nothing is trained. Without --again existing scores stay.

    juzhen evaluate runs                         # files that have come since
    juzhen evaluate runs --dataset mine          # and a set of conf/dataset that the runs did not know
    juzhen evaluate runs --benchmark zh_picture  # and the sets of a benchmark
    juzhen evaluate runs --without-leaks         # scores without the rows that training has seen
    juzhen evaluate runs/some-run --again        # everything once more; says what moved

    --retrieve and --rerank measure both stages together, with quality and time at each depth. No result changes.

    juzhen evaluate --retrieve runs/BI --rerank runs/CE --top 100 --dataset lcqmc_retrieval

    --long-texts chunk scores each run twice: with long texts cut, and with the mean of their chunks. With --retrieve
    only the first stage uses chunks. No result changes.

    juzhen evaluate runs/BI --long-texts chunk --dataset t2_retrieval

    With an encoder, a server, a file of rows, or the tables of a search, everything named is compared in one table. No
    result changes.

    juzhen evaluate builtin/mini_zh pairs.csv
    juzhen evaluate builtin/mini_zh bm25 http://127.0.0.1:8000 --dataset demo_retrieval
    juzhen evaluate runs/NAME --queries queries.csv --corpus documents.csv --answers answers.csv
    """
    runs, dataset = runs or [], dataset or []
    options = SimpleNamespace(**locals())
    if data_dir is not None:
        data_folder(Path(data_dir))
    if overlap is not None and long_texts == "cut":
        raise UserError("--overlap is of --long-texts chunk")
    if not any(getattr(options, name) for name in TABLES) and not any(map(_is_file_of_rows, runs)):
        refuse(
            options,
            ["columns", "sheet", "split_cells"],
            "it is for a file of rows, or for --queries, --corpus and --answers",
        )
    if runs and _asks_for_encoders(options):
        _measure_encoders(options, _today(options))
    elif long_texts == "chunk" and runs:
        offered("long_texts", "compare")(options, lambda: _today(options))
    elif _asks_for_two_stages(options):
        _measure_two_stages(options, _today(options))
    elif runs:
        refuse(options, ["metric"], "a run is filled in with the measures of its own settings")
        _add_all(options)
    else:
        raise UserError("missing: runs, or --retrieve and --rerank. See juzhen evaluate --help")


def _today(options: SimpleNamespace) -> "JobConfig":
    """The configuration of today, with the sets and the hardware that are asked for."""
    from launch.check import checked_job

    for name in options.dataset:
        if is_table(name):
            raise UserError(
                f"--dataset {name}: a file, and not the name of a set. Type it without --dataset, behind the encoder"
            )
    overrides = [setting("dataset", options.dataset), f"benchmark={options.benchmark or 'none'}"]
    overrides += [f"hardware={options.hardware}"] if options.hardware else []
    overrides += [f"on_bad_row={options.on_bad_row}"] if options.on_bad_row else []
    for name in options.metric or ():
        if "@" not in name:
            raise UserError(f"--metric {name}: no cut-off. Type a measure such as nDCG@10, RR@10 or R@1")
    today = checked_job(overrides, conf_dir=CONFIGURATION, extra=options.config_dir)
    today.evaluation.rankings += map(metric_key, options.metric or ())
    caches_below(today.cache_dir)
    return today


def _add_all(options: SimpleNamespace) -> None:
    from juzhen.evaluation.saved_run import saved_runs

    runs, sets = options.runs, options.dataset
    if names := [
        name for name in runs if sets and not Path(name).exists() and (DATASETS / f"{name}.yaml").exists()
    ]:
        raise UserError(f"{names[0]}: is a set, not a run. Type --dataset {sets[0]} --dataset {names[0]}")
    runs = saved_runs([*map(Path, runs)])
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
