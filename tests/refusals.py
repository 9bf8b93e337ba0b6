"""Tables of refusals: subject → rows of a call, and of the key and the way out that its message names."""

import re
from collections.abc import Callable, Mapping, Sequence

import pytest


class Fixtures:
    """Fixtures by their names: a row of a table asks for those that it needs, as in `f.tmp_path`."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def __getattr__(self, name: str) -> object:
        return self._request.getfixturevalue(name)


def rows(
    table: Mapping[str, Sequence[tuple[Callable[[Fixtures], object], str]]],
    *,
    slow: Sequence[str] = (),
    sampled: Mapping[str, int] | None = None,
) -> list:
    """The rows of a table as parameters.

    Args:
        table: Subject → its rows.
        slow: Subjects whose rows are slow.
        sampled: Subject → n: each n-th row runs by default, and the others are slow.

    Returns:
        One `pytest.param` a row.
    """
    every = dict.fromkeys(table, 1) | (sampled or {})
    return [
        pytest.param(
            *row,
            id=f"{subject} {number}",
            marks=[pytest.mark.slow] if subject in slow or number % every[subject] else [],
        )
        for subject, cases in table.items()
        for number, row in enumerate(cases)
    ]


def each(call: Callable[..., object], cases: Sequence[tuple[object, str]]) -> list:
    """A row for each case: what is given, and what is told."""
    return [(lambda f, given=given: call(f, given), words) for given, words in cases]


def typed(f: Fixtures, *words: object) -> None:
    """Run a verb as it is typed, and raise what it prints where its status is that of a mistake."""
    from juzhen.cli.main import main

    refused_by_status(f, lambda: main([str(word) for word in words]))


def refused_by_status(f: Fixtures, program: Callable[[], int]) -> None:
    """Raise what a program prints on stderr where its status is that of a mistake."""
    from juzhen.core.errors import UserError

    f.capsys.readouterr()
    if program() == 2:
        printed = f.capsys.readouterr().err
        assert "Traceback" not in printed
        raise UserError(printed.removesuffix("\n"))


def counts_told(warnings: pytest.WarningsRecorder) -> list[int]:
    """How many rows warnings of left out rows count."""
    told = [re.search(r"(\d+) faulty", str(one.message)) for one in warnings]
    return [int(found[1]) for found in told if found]
