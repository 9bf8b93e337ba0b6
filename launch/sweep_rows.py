"""Rows of a sweep: lists of words for the command line that are no grid, such as the models of a published table."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from juzhen.core.errors import UserError, nearest

PARAMETERS = "hydra.sweeper.params"
ROWS = "hydra.sweeper.rows"


def key_of(word: str) -> str:
    """What a word of the command line sets: `+seed=1` → `seed`."""
    return word.partition("=")[0].lstrip("+~")


def split_rows(rows: Mapping[str, str], only: Sequence[str] | None) -> dict[str, list[str]]:
    """Name → words of each row, or of those that are named. Raises UserError for a name that no row has."""
    for name in only or ():
        if name not in rows:
            raise UserError(f"hydra.sweeper.only=[{name}]: there is no such row; {nearest(str(name), rows)}")
    return {name: shlex.split(words) for name, words in rows.items() if only is None or name in only}


def with_row(words: Iterable[str], row: Iterable[str], typed: Iterable[str]) -> list[str]:
    """A cell of the grid and a row as one command line.

    typed  keys that the person at the keyboard set: these count, then the row, then what the sweep's grid says
    """
    row, typed = list(row), set(typed)
    in_row = {key_of(word) for word in row}
    return [word for word in words if key_of(word) not in in_row - typed] + [
        word for word in row if key_of(word) not in typed
    ]


def parameters(config: DictConfig) -> dict[str, Any]:
    """What the sweep of a composition varies: key → its choices as one text."""
    return _plain(config, PARAMETERS)


def rows(config: DictConfig) -> dict[str, list[str]]:
    return split_rows(_plain(config, ROWS), OmegaConf.select(config, "hydra.sweeper.only"))


def is_one_cell(config: DictConfig, typed: Iterable[str]) -> bool:
    """The keys that were typed decide everything that the sweep varies: one run of it is meant."""
    typed = set(typed)
    if not set(map(key_of, parameters(config))) <= typed:
        return False
    every = rows(config)
    return bool(every or parameters(config)) and (
        not every or any({key_of(word) for word in row} <= typed for row in every.values())
    )


def _plain(config: DictConfig, key: str) -> dict[str, Any]:
    node = OmegaConf.select(config, key)
    return {} if node is None else OmegaConf.to_container(node)
