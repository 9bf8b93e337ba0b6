"""`juzhen evaluate --retrieve … --rerank …`: what two stages reach together, and how long they take for a query."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import metric_title
from juzhen.core.machine import describe_environment
from juzhen.core.result import RESULT_FILE, weights_digest
from juzhen.core.text import markdown_table
from juzhen.models.settings import LEXICAL

if TYPE_CHECKING:
    from conf.job import JobConfig  # they load torch, and --help should not wait for that
    from juzhen.core.examples import Examples
    from juzhen.data.rankings import RankingSet
    from juzhen.evaluation.settings import EvaluationSettings
    from juzhen.evaluation.two_stage import RerankedScores

TOP = 100
OF_RUNS = ("again", "without_leaks")
OF_STAGES = ("retrieve", "rerank", "top", "limit", "on_bad_row", "out")


def asks_for_two_stages(options: SimpleNamespace) -> bool:
    """Raises UserError for options of two stages without all that they need."""
    flags = [name.replace("_", "-") for name in OF_STAGES if getattr(options, name) is not None]
    if not flags:
        return False
    if unread := [
        *options.runs,
        *(f"--{name.replace('_', '-')}" for name in OF_RUNS if getattr(options, name)),
    ]:
        raise UserError(f"{unread[0]}: is for runs that are filled in; with --{flags[0]} leave it out")
    if options.retrieve is None or options.rerank is None:
        raise UserError(f"--{flags[0]}: two stages need --retrieve <run> and --rerank <run>")
    if not options.dataset and options.benchmark is None:
        raise UserError(
            "two stages are measured on a set: --dataset <name>, such as --dataset demo_retrieval"
        )
    return True


def measure_two_stages(options: SimpleNamespace, today: "JobConfig") -> None:
    """Prints a table for each split of each set, and writes its numbers as JSON."""
    if options.out is None and not (Path(options.rerank) / RESULT_FILE).is_file():
        raise UserError(f"--rerank {options.rerank}: is no run, so say where the numbers go: --out <folder>")
    folder = options.out or Path(options.rerank) / "analysis"
    from juzhen.data.loading import load_job_data
    from juzhen.data.rankings import as_ranking
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.evaluation.two_stage import DEPTHS, check_depths, some_queries, two_stage
    from juzhen.families.registry import open_encoder

    settings = _settings(options, today)
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
    paths = [folder / _file_name(examples, deciding) for examples in sets]
    check_overwritable(*paths)
    for ranking, path in zip(rankings, paths, strict=True):
        reranked = two_stage(*stages, ranking, depths=depths, **settings_of_stages)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, about | _numbers(ranking, reranked))
        print(_table(ranking, reranked), flush=True)
        print(f"written to {path}", file=sys.stderr)


def _settings(options: SimpleNamespace, today: "JobConfig") -> "EvaluationSettings":
    """Those of an evaluation on the sets that were named. Raises UserError for a set that nothing is looked for in."""
    from juzhen.core.examples import Kind
    from juzhen.evaluation.settings import EvaluationSettings

    settings = EvaluationSettings.of(asdict(today))
    settings.evaluate, settings.dataset = settings.evaluate | settings.dataset, {}
    for name, config in settings.evaluate.items():
        if config.kind != Kind.RETRIEVAL:
            raise UserError(
                f"{name} is of kind {config.kind}; two stages look through a corpus: expected retrieval"
            )
    settings.long_texts, settings.chunk_overlap = options.long_texts, options.overlap
    settings.data_dir = options.data_dir or settings.data_dir
    settings.hardware.eval_batch_tokens = options.batch_tokens or settings.hardware.eval_batch_tokens
    return settings


def _weights(encoder: str) -> str:
    from juzhen.encoders.resolve_path import encoder_source

    return "" if encoder in LEXICAL else weights_digest(encoder_source(encoder))


def _file_name(examples: "Examples", deciding: Sequence[Any]) -> str:
    """Other stages, and other rows, have another file: a measurement replaces itself and no other."""
    key = hashlib.sha256(json.dumps([*deciding, examples.fingerprint]).encode()).hexdigest()[:8]
    return f"two_stage-{examples.name}-{examples.split}-{key}.json"


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
    """Quality and time by depth, as Markdown."""
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
        f"{ranking.column}: {len(ranking.queries):,} queries, {len(ranking.corpus):,} documents; ×100, 95 % interval "
        f"over queries; median and 10th to 90th percentile of {len(reranked[0].milliseconds)} queries, one at a time"
    )
    return "\n".join([about, "", markdown_table(head, table_rows, numbers=range(len(head))), ""])
