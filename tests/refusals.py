"""Tables of refusals: subject → rows of a call, and of the key and the way out that its message names."""

from collections.abc import Callable, Mapping, Sequence

import pytest


class Fixtures:
    """Fixtures by their names: a row of a table asks for those that it needs, as in `f.tmp_path`."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def __getattr__(self, name: str) -> object:
        return self._request.getfixturevalue(name)


def rows(
    table: Mapping[str, Sequence[tuple[Callable[[Fixtures], object], str]]], *, slow: Sequence[str] = ()
) -> list:
    """The rows of a table as parameters; those of subjects in `slow` are slow."""
    return [
        pytest.param(*row, id=f"{subject} {number}", marks=[pytest.mark.slow] if subject in slow else [])
        for subject, cases in table.items()
        for number, row in enumerate(cases)
    ]
