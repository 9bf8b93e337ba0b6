"""What the page's script draws, as plain data: the cells of the matrix, costs, and differences to the best row."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from juzhen.core.kinds import metric_title
from juzhen.report.build import Report
from juzhen.report.heat import palettes
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.profiles import clustered
from juzhen.report.questions import Transfer, duration, without_leaks
from juzhen.report.significance import difference_interval
from juzhen.report.sizes import WHOLE, Curve, all_sizes, curves
from juzhen.report.table import MISSING, heading, mean_and_deviation, percent, signed
from juzhen.report.training import stand_ins

Plain = dict[str, Any]
DECIMALS = 2
"""Of points that are drawn; texts come ready from here."""


def page_data(report: Report) -> Plain:
    """Rows and columns are named by their number in the matrix; scores and differences are in points, ×100.

    columns   name, and the same without its split where all columns share one; its metric where that is its own
    rows      label, setup and costs, what stands in for more rows, and a cell for each column that has one
    orders    numbers of rows and of columns with alike ones side by side
    sizes     sizes that embeddings were cut to, and for each row and column that has some the points of a curve
    undecided  column → best row and the others beside it, with the interval of the difference
    heat      the colours of the matrix on paper
    """
    matrix, columns = report.matrix, drawn_columns(report.matrix)
    transfer = Transfer(matrix, columns)
    drawn = curves(matrix)
    number = {row.label: index for index, row in enumerate(matrix.rows)}
    alike_rows, alike_columns = clustered(matrix, columns)
    return {
        "heat": {name: themes["light"] for name, themes in palettes().items()},
        "metric": metric_title(matrix.metric),
        "columns": column_names(matrix, columns),
        "rows": [
            _row(
                report,
                row,
                {
                    column: number[transfer.before[row.label, column]]
                    for column in columns
                    if (row.label, column) in transfer.before
                },
                transfer.gains,
                columns,
            )
            for row in matrix.rows
        ],
        "orders": {
            "rows": [number[row.label] for row in alike_rows],
            "columns": [columns.index(column) for column in alike_columns],
        },
        "sizes": {
            "names": [WHOLE if dim is None else str(dim) for dim in all_sizes(drawn)],
            "curves": [
                _curve(curve, number[curve.row.label], columns.index(curve.column)) for curve in drawn
            ],
        },
        "undecided": [
            against for place in range(len(columns)) if (against := _against_best(matrix, columns, place))
        ],
    }


def _curve(curve: Curve, row: int, column: int) -> Plain:
    ends = {dim: (cell.low, cell.high) for dim, cell in curve.cells.items()}
    points_of = {
        str(dim or WHOLE): [points(cell.mean), *(None if end is None else points(end) for end in ends[dim])]
        for dim, cell in curve.cells.items()
    }
    return {"row": row, "column": column, "points": points_of}


def drawn_columns(matrix: Matrix) -> list[str]:
    """Columns in which some row has a score."""
    return [column for column in matrix.columns if any(column in row.cells for row in matrix.rows)]


def column_names(matrix: Matrix, columns: Sequence[str]) -> list[Plain]:
    splits = {column.split("/")[0] for column in columns}
    own = {column for column in columns if matrix.measures[column] != matrix.metric}
    return [
        {
            "name": heading(column, matrix),
            "short": column.split("/")[1]
            if len(splits) == 1 and column not in own
            else heading(column, matrix),
        }
        | ({"measure": metric_title(matrix.measures[column])} if column in own else {})
        for column in columns
    ]


def _row(
    report: Report, row: Row, before: Mapping[str, int], gains: pd.DataFrame, columns: Sequence[str]
) -> Plain:
    commands = list(dict.fromkeys(cell.command for cell in row.cells.values() if cell.command))
    return _without_nothing(
        {
            "label": row.label,
            "kind": {"": "untrained", "lexical": "lexical"}.get(row.trained_on, "trained"),
            "setup": row.setup,
            "seeds": [int(seed) for seed in row.results],
            "starts": list(dict.fromkeys(before.values())),
            "less": stand_ins(row.latest) if row.is_trained else [],
            "cost": _cost(report.costs.loc[row.label]) if row.is_trained else None,
            "commands": commands,
            "cells": {
                place: _cell(row.cells[column], gains.loc[row.label, column], before.get(column), commands)
                for place, column in enumerate(columns)
                if column in row.cells
            },
            "reasons": {
                place: row.reasons[column] for place, column in enumerate(columns) if column in row.reasons
            },
        }
    )


def _cost(cost: pd.Series) -> Plain:
    seconds, rows_seen = (
        None if pd.isna(cost[name]) else float(cost[name]) for name in ("train_seconds", "rows_seen")
    )
    return _without_nothing(
        {
            "seconds": seconds,
            "rows": rows_seen,
            "device": "" if cost["device"] == "unknown" else cost["device"],
            "time": "" if seconds is None else duration(seconds),
            "stages": int(cost["stages"]),
        }
    )


def _cell(cell: Cell, gain: float, before: int | None, commands: Sequence[str]) -> Plain:
    low, high = (None if end is None else points(end) for end in (cell.low, cell.high))
    ends = [] if cell.low is None or cell.high is None else [percent(cell.low), percent(cell.high)]
    gained = not math.isnan(gain)
    return _without_nothing(
        {
            "mean": points(cell.mean),
            "text": mean_and_deviation(cell),
            "low": low,
            "high": high,
            "ends": ends,
            "seeds": ", ".join(f"{seed}: {percent(value)}" for seed, value in cell.values.items()),
            "count": cell.count,
            "gain": round(gain, DECIMALS) if gained else None,
            "gained": signed(gain) if gained else "",
            "before": before,
            "trained": cell.in_domain,
            "leaky": cell.is_leaky,
            "below": cell.below_lexical,
            "best": cell.is_best,
            "leak": leak_text(cell),
            "unseen": unseen_text(cell),
            "command": commands.index(cell.command) if cell.command else None,
            "commit": cell.commit,
        }
    )


def leak_text(cell: Cell) -> str:
    if cell.leak is None:
        return "not audited"
    if not cell.leak.rows:
        return ""
    counted = ", counted by the run" if cell.leak.is_counted else ""
    return f"{cell.leak.rows:,} rows, {100 * cell.leak.share:.1f} %, from {cell.leak.source}{counted}"


def unseen_text(cell: Cell) -> str:
    """The score without leaks beside that with them; "" where the run has none."""
    leak = cell.leak
    if leak is None or leak.unseen is None:
        return ""
    score = MISSING if leak.score is None else percent(leak.score)
    return f"{without_leaks(leak)} on {leak.unseen.count:,} rows; with them {score}"


def _against_best(matrix: Matrix, columns: Sequence[str], place: int) -> Plain | None:
    """The best row of a column and the others beside it, in the order of their scores; leaks of other sets left out.

    None where no difference has an interval.
    """
    column = columns[place]
    scored = [
        (number, row.cells[column])
        for number, row in enumerate(matrix.rows)
        if column in row.cells and not row.cells[column].flatters
    ]
    scored.sort(key=lambda entry: -entry[1].mean)
    others = []
    for number, cell in scored[1:]:
        if (ends := difference_interval(matrix, column, cell, scored[0][1])) is not None:
            gap = 100 * (cell.mean - scored[0][1].mean)
            others.append(
                {
                    "row": number,
                    "points": round(gap, DECIMALS),
                    "low": round(ends[0], DECIMALS),
                    "high": round(ends[1], DECIMALS),
                    "text": signed(gap),
                    "ends": [signed(ends[0]), signed(ends[1])],
                    "open": ends[0] <= 0 <= ends[1],
                    "by": ends[2],
                }
            )
    return {"column": place, "best": scored[0][0], "others": others} if others else None


def points(fraction: float) -> float:
    return round(100 * fraction, DECIMALS)


def _without_nothing(values: Plain) -> Plain:
    """Without what is None, False or empty: of most marks a cell has none."""
    return {key: value for key, value in values.items() if value is not False and (value or value == 0)}
