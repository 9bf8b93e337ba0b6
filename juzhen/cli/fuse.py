"""`juzhen fuse`: two runs as one score."""

import sys
from functools import partial
from typing import Annotated, Any

from typer import Argument

from juzhen.cli.options import BATCH_TOKENS, SEED, Analysis, BatchTokens, FittedSets, RunDataDir
from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.text import markdown_table


def fuse(
    runs: Annotated[tuple[str, str], Argument(metavar="RUN RUN", help="two finished runs")],
    *,
    sets: FittedSets = None,
    data_dir: RunDataDir = None,
    output: Analysis = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
) -> None:
    """Fuses two runs into one score, for example cross-encoders trained with ce and with cosent.

    The score is α · first + (1 − α) · second. Both scores are standardised on dev, where α is fitted too. Test judges
    the result. The verb writes fusion-<set>.json. For 0/1 pairs it also scales the fused score to a probability.

    juzhen fuse runs/FIRST runs/SECOND
    juzhen score --fuse runs/FIRST runs/SECOND --calibration runs/FIRST/analysis/fusion-lcqmc.json --file pairs.tsv
    """
    from juzhen.calibration.run_scores import (
        FUSED_KINDS,
        ScoredRun,
        fitted_sets,
        fuse_set,
        require_same_weights,
    )

    first, second = (ScoredRun(folder, data_dir=data_dir, batch_tokens=batch_tokens) for folder in runs)
    names, other_names = first.choose(sets, FUSED_KINDS), second.choose(sets, FUSED_KINDS)
    shared = [name for name in names if name in other_names]
    if not shared:
        raise UserError(
            f"{first.folder} was evaluated on {', '.join(names)} and {second.folder} on {', '.join(other_names)}: "
            "no common set. Evaluate one of them on a set of the other"
        )
    folder = output or first.folder / "analysis"
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[list[str]] = []
    notes: list[str] = []
    weights = [first.weights, second.weights]
    require_same_weights([folder / f"fusion-{name}.json" for name in shared], weights)
    for name, report in fitted_sets(shared, partial(fuse_set, (first, second), seed=SEED), notes):
        write_json(folder / f"fusion-{name}.json", report)
        rows += [_row(report, who) for who in ("first", "second", "fused")]
        errors = [f"{100 * row['ece']:.1f} {method}" for method, row in report["calibration"].items()]
        trust = f"; ECE ×100 of the fused score: {', '.join(errors)}" if errors else ""
        notes.append(f"{name}: {report['how']}, {report['rows']:,} rows{trust}")
    head = ("set", "α", "who", "Spearman", "95 %", "accuracy")
    print("\n".join([markdown_table(head, rows, numbers=(1, 3, 5)), "", *notes]))
    print(f"written to {folder}", file=sys.stderr)


def _row(report: dict[str, Any], who: str) -> list[str]:
    spearman, accuracy = report[who]["spearman"], report[who].get("accuracy", {"value": None})
    interval = "" if spearman["low"] is None else f"{100 * spearman['low']:.1f}–{100 * spearman['high']:.1f}"
    weight = f"{report['alpha']:.2f}" if who == "fused" else ""
    values = [
        "–" if score["value"] is None else f"{100 * score['value']:.2f}" for score in (spearman, accuracy)
    ]
    return [report["set"], weight, who, values[0], interval, values[1]]
