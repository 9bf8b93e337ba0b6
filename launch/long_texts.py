"""`juzhen evaluate --long-texts chunk`: the mean over chunks of long texts, compared with truncation."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import main_metric_keys, metric_title
from juzhen.core.machine import describe_environment
from juzhen.core.text import markdown_table
from launch.evaluate import refuse, settings_of_options

if TYPE_CHECKING:
    from conf.job import JobConfig  # they load torch, and --help should not wait for that
    from juzhen.encoders.chunks import LongTexts


OTHERS = ("again", "without_leaks", "retrieve", "rerank", "top", "limit")
"""Options of what fills results, or of two stages."""


def compare_long_texts(options: SimpleNamespace, compose: Callable[[], "JobConfig"]) -> None:
    """Print a table for each run, and write its numbers as JSON.

    No result is touched, since a result is of truncated texts.

    Args:
        options: Options of `juzhen evaluate`.
        compose: Makes the job of the current configuration, with the named sets.

    Raises:
        UserError: Sets are missing, an option has no effect here, or an encoder gives no vectors.
    """
    refuse(options, OTHERS, "runs are only compared with --long-texts chunk")
    today = compose()
    if not options.dataset and options.benchmark is None:
        raise UserError(
            "--long-texts chunk is measured on a set: --dataset <name>, such as --dataset demo_retrieval"
        )
    from juzhen.data.loading import load_job_data
    from juzhen.evaluation.run import EvaluationRun
    from juzhen.families.registry import open_weights

    settings = settings_of_options(options, today)
    data = load_job_data(settings, {})
    for run in options.runs:
        folder = options.out or Path(run) / "analysis"
        encoder = open_weights(run)
        ways: tuple[tuple[LongTexts, int | None], ...] = (("chunk", options.overlap), ("cut", None))
        passes = {
            name: EvaluationRun(
                encoder, replace(settings, long_texts=name, chunk_overlap=overlap), today.cache_dir
            )
            for name, overlap in ways
        }
        scored = {name: each(data.evaluation, data.tasks, seen={}) for name, each in passes.items()}
        cut = {key: rows["cut"] for key, rows in scored["cut"][1].items() if "cut" in rows}
        scores = {name: evaluation.scores for name, (evaluation, _) in scored.items()}
        prints = [examples.fingerprint for examples in data.evaluation]
        key = hashlib.sha256(json.dumps([options.overlap or 0, prints]).encode()).hexdigest()[:8]
        path = folder / f"long_texts-{key}.json"
        check_overwritable(path)
        folder.mkdir(parents=True, exist_ok=True)
        about = {"overlap": options.overlap or 0, "longer": cut, "environment": describe_environment()}
        numbers = {
            name: {metric: score.as_dict() for metric, score in of_way.items()}
            for name, of_way in scores.items()
        }
        write_json(path, about | numbers)
        print(f"{run}\n\n{_table(scores, cut)}\n", flush=True)
        print(f"written to {path}", file=sys.stderr)


def _table(scores: Mapping[Any, Mapping[str, Any]], cut: dict[str, dict[str, Any]]) -> str:
    """The first measure of each set, ×100, by both ways, as Markdown."""
    rows = []
    for key in main_metric_keys(scores["chunk"]):
        column, _, metric = key.rpartition("/")
        if scores["chunk"][key].value is None:
            continue
        counted = cut.get(column, {"cut": 0, "looked_at": 0})
        values = [f"{100 * scores[way][key].value:.2f}" for way in ("cut", "chunk")]
        longer = f"{counted['cut']:,} of {counted['looked_at']:,}" if counted["looked_at"] else "0"
        rows.append([column, metric_title(metric), *values, longer])
    return markdown_table(["set", "measure", "cut", "chunk", "longer texts"], rows, numbers=(2, 3, 4))
