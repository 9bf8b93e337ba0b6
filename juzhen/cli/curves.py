"""`juzhen curves`: learning curves of runs side by side."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.cli.options import require_matplotlib
from juzhen.core.errors import UserError
from juzhen.core.numerals import number_or_nan
from juzhen.core.owned import require_ours


def curves(
    folders: Annotated[list[str], Argument(help="run folders, or folders with a metrics.csv")],
    *,
    of: Annotated[
        list[str] | None,
        Option(
            metavar="QUANTITY…",
            help="such as dev/csts/spearman train/loss",
            show_default="dev scores and loss",
        ),
    ] = None,
    names: Annotated[
        list[str] | None, Option(metavar="NAME…", help="one for each run, for the legend")
    ] = None,
    line: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="a level to compare scores with; repeatable")
    ] = None,
    output: Annotated[Path, Option(metavar="FOLDER", help="where to write")] = Path(),
) -> None:
    """Draws what runs logged while they trained, as curves.svg and curves.csv.

    Every dev correlation and the loss have a panel each, every run a line. Mixtures also have the loss of each set, and
    how often each was drawn. Runs that are still training can be looked at as well.

    juzhen curves runs/csts-* --of dev/csts/spearman --line "TF-IDF=0.731"
    """
    from juzhen.report.curves import choose_quantities, distinct_labels, read_curves
    from juzhen.report.drawn_curves import draw_curves, write_curves

    require_matplotlib()
    require_ours(output / "curves.csv", output / "curves.svg")
    levels = {}
    for word in line or ():
        name, _, value = word.rpartition("=")
        levels[name] = number_or_nan(value)
        if math.isnan(levels[name]):
            raise UserError(f'--line {word}: expected a name and a number, as in --line "TF-IDF=0.731"')
    runs = distinct_labels([read_curves(folder) for folder in folders], folders)
    if names:
        if len(names) != len(runs):
            raise UserError(f"--names: {len(names)} names for {len(runs)} runs; give one for each")
        runs = [replace(run, name=name) for name, run in zip(names, runs, strict=True)]
    quantities = choose_quantities(runs, of)
    output.mkdir(parents=True, exist_ok=True)
    write_curves(runs, quantities, output / "curves.csv")
    draw_curves(runs, quantities, output / "curves.svg", levels=levels)
    print(f"written: {output / 'curves.svg'}, {output / 'curves.csv'}", file=sys.stderr)
