"""Results of a small picture with everything that a report shows: baselines, seeds, a curriculum, a null, a leak."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from juzhen.core.result import Result, Score
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.data.source import load_examples
from juzhen.data.spec import configured_set
from juzhen.report.build import Report, build_report
from juzhen.report.compare import Reference
from juzhen.report.matrix import Matrix, build_matrix
from juzhen.report.training import Audit

AUDIT = {
    "format_version": 1,
    "train": ["csts/train", "lcqmc/train"],
    "evaluation": ["csts/dev", "lcqmc/dev", "bq/dev"],
    "sets": {
        "csts/dev": {"rows": 1458, "fingerprint": "of csts"},
        "lcqmc/dev": {"rows": 8802, "fingerprint": "of lcqmc"},
        "bq/dev": {"rows": 10000, "fingerprint": "of bq"},
    },
    "cells": [
        {"train": "csts/train", "evaluation": "csts/dev", "rows": 1458, "exact_pairs": 5, "near_pairs": 2},
        {
            "train": "lcqmc/train",
            "evaluation": "bq/dev",
            "rows": 10000,
            "exact_pairs": 300,
            "near_pairs": 100,
        },
        {
            "train": "lcqmc/train",
            "evaluation": "lcqmc/dev",
            "rows": 8802,
            "exact_pairs": None,
            "near_pairs": None,
        },
    ],
}
NOTHING_PUBLISHED = Reference([], [])
COUNTS = {"dev/csts": 1458, "dev/lcqmc": 8802, "dev/bq": 10000, "dev/pawsx_zh": 2000}


def scored(*percents: float | None) -> dict[str, Score]:
    """Scores of csts, lcqmc, bq and pawsx_zh with an interval two points wide on either side."""
    scores = {}
    for (column, count), percent in zip(COUNTS.items(), percents, strict=True):
        value = None if percent is None else percent / 100
        low, high = (None, None) if value is None else (value - 0.02, value + 0.02)
        scores[f"{column}/spearman"] = Score(value, low, high, count)
    return scores


def counted(result: Result, column: str, by_set: dict[str, int], rest: Score | None) -> Result:
    """Writes into a result what `evaluation.without_leaks` leaves there."""
    rows = sum(by_set.values())
    result.data[column]["leaked"] = {"rows": rows, "share": rows / COUNTS[column], "by_set": by_set}
    if rest is not None:
        result.scores[f"{column}/spearman_without_leaks"] = rest
    return result


KINDS = {"csts": "scored_pair", "lcqmc": "labelled_pair"}
BY_KIND = {
    "scored_pair": {"_target_": "juzhen.losses.regression.CosineSimilarity", "name": "cosine"},
    "labelled_pair": {"_target_": "juzhen.losses.pairs.OnlineContrastive", "name": "online_contrastive"},
}
PROMISED = {"csts": 5231, "lcqmc": 238766}


def described(name: str) -> dict[str, object]:
    """A set as a configuration holds it; of lcqmc 15,000 rows are learnt from."""
    return {
        "name": name,
        "kind": KINDS[name],
        "rows": {"train": PROMISED[name]},
        "limit": 15000 if name == "lcqmc" else None,
    }


def matrix_of(results: Sequence[Result], audit: Audit | None = None) -> Matrix:
    return build_matrix(results, metric="spearman", audit=audit)


def report_of(
    results: Sequence[Result], *, reference: Reference = NOTHING_PUBLISHED, audit: Audit | None = None
) -> Report:
    return build_report(results, metric="spearman", reference=reference, audit=audit)


def small_picture(make_result: Callable[..., Result]) -> list[Result]:
    def made(trained_on: list[str], *percents: float | None, **more: object) -> Result:
        sets = {name: described(name) for name in trained_on}
        result = make_result(
            trained_on, scored(*percents), schedule="serial", loss=BY_KIND, dataset=sets, **more
        )
        words = f"dataset=[{','.join(trained_on)}]"
        return replace(
            result,
            key=f"{'-'.join(trained_on)}-{result.seed}",
            data={column: {"fingerprint": f"of {column.split('/')[1]}"} for column in COUNTS},
            training={"train_seconds": 40.0, "rows_seen": 16000} if trained_on else {},
            environment={
                "command": ["train.py", words, f"seed={result.seed}"],
                "git_commit": "0123456789abcdef",
                "git_dirty": False,
                "device": "cpu",
            },
        )

    curriculum = made(["lcqmc", "csts"], 84.0, 74.0, 50.0, 9.0, stage=1)
    counted(curriculum, "dev/bq", {"lcqmc": 300, "csts": 2}, Score(0.479, 0.459, 0.499, 9698))
    first = made(["lcqmc"], 75.0, 78.0, 52.0, 8.0, seed=1)
    return [
        made([], 60.0, 52.0, 37.0, 2.0, model="lightning_modules.lexical.Lexical"),
        made([], 50.0, 45.0, 33.0, 6.0),
        first,
        made(["lcqmc"], 76.0, 79.0, 53.0, 9.0, seed=2),
        made(["lcqmc"], 74.0, 77.0, 51.0, 7.0, seed=3),
        made(["csts"], 81.0, 58.0, 39.0, None),
        replace(first, key=curriculum.key),
        curriculum,
    ]


def write_results(folder: Path, results: list[Result]) -> Path:
    for number, result in enumerate(results):
        place = folder / str(number)
        place.mkdir(parents=True)
        result.write(place)
    return folder


def write_audit(folder: Path) -> Path:
    path = folder / "pairs.json"
    path.write_text(json.dumps(AUDIT), encoding="utf-8")
    return path


def write_reference(folder: Path) -> Path:
    """One source in its own names, two of them unknown here."""
    folder.mkdir()
    lines = [
        "table,model,eval_set,metric,percent",
        "qmc_domain,qmc-base,csts_dev,spearman,78.42",
        "qmc_domain,qmc-base,lcqmc,spearman,78.90",
        "qmc_domain,csts-lcqmc,bqcorpus,spearman,50.10",
        "qmc_domain,csts-base,lcqmc,spearman,58.18",
        "qmc_domain,csts-base,bqcorpus,spearman,39.73",
        "qmc_domain,mystery,lcqmc,spearman,1.00",
        "qmc_domain,qmc-base,somewhere,spearman,2.00",
    ]
    (folder / "somebody.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_run_with_rows(folder: Path, made: Result) -> Path:
    """A run as training leaves it: the result, the curves of a few steps, and the scores of single rows of demo_qmc,
    whose texts lie in the package; every tenth pair has the score of the other label."""
    config = configured_set("demo_qmc")
    examples = load_examples(config, "dev", source="builtin", data_dir="data", on_bad_row="error")
    assert examples is not None
    gold = examples.targets
    wrong = np.arange(len(gold)) % 10 == 3
    scores = np.where(wrong, 1 - gold, gold) * 0.5 + 0.2 + np.linspace(0, 0.2, len(gold))
    columns = {
        "row": np.arange(len(gold), dtype=np.int32),
        "line": examples.lines.astype(np.int32),
        "gold": gold.astype(np.float32),
        "score": scores.astype(np.float32),
    }
    made.config |= {
        "source": "builtin",
        "data_dir": "data",
        "on_bad_row": "error",
        "dataset": {"demo_qmc": asdict(config)},
    }
    about = {"fingerprint": examples.fingerprint, "kind": "labelled_pair", "rows": len(gold)}
    result = replace(made, data={"dev/demo_qmc": about}, weights="of the run")
    folder.mkdir(parents=True)
    result.write(folder)
    rows = SetRows("labelled_pair", examples.fingerprint, columns)
    RowScores("of the run", {"dev/demo_qmc": rows}).write(folder / ROWS_FILE)
    lines = ["epoch,step,dev/demo_qmc/spearman,train/loss"]
    lines += [f"0,{step},{'' if step % 5 else 0.5 + step / 100},{3 - step / 20}" for step in range(30)]
    (folder / "metrics" / "version_0").mkdir(parents=True)
    (folder / "metrics" / "version_0" / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
