"""Rows of a sweep: lists of words for the command line that are no grid, such as the models of a published table."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf

from juzhen.core.errors import require_choice
from launch.words import with_backbone, with_set_words

WAITING = "hydra.sweeper.waiting"


def key_of(word: str) -> str:
    """What a word of the command line sets: `+seed=1` → `seed`."""
    return word.partition("=")[0].lstrip("+~")


def split_rows(rows: Mapping[str, str], only: Sequence[str] | None) -> dict[str, list[str]]:
    """Name → words of each row, or of those that are named. Raises UserError for a name that no row has."""
    for name in only or ():
        require_choice("hydra.sweeper.only", name, rows)
    return {
        name: with_backbone(with_set_words(shlex.split(line)))
        for name, line in rows.items()
        if only is None or name in only
    }


def with_row(overrides: Iterable[str], row: Iterable[str], typed: Iterable[str]) -> list[str]:
    """A cell of the grid and a row as one command line.

    typed  keys that the person at the keyboard set: these count, then the row, then what the sweep's grid says
    """
    row, typed = list(row), set(typed)
    in_row = {key_of(word) for word in row}
    return [word for word in overrides if key_of(word) not in in_row - typed] + [
        word for word in row if key_of(word) not in typed
    ]


def has_key(config: DictConfig, word: str) -> bool:
    """A composition has the key that a word sets, also where it still waits for a value (???)."""
    nothing = object()
    owner, _, name = key_of(word).rpartition(".")
    node = OmegaConf.select(config, owner, default=nothing) if owner else config
    return isinstance(node, DictConfig) and (name in node or OmegaConf.is_missing(node, name))


def num_known_parts(config: DictConfig, word: str) -> int:
    """How many parts of the key that a word sets, from the left, a composition has."""
    parts = key_of(word).split(".")
    starts = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return sum(isinstance(OmegaConf.select(config, start), DictConfig) for start in starts)


def with_waiting(
    overrides: Iterable[str], waiting: Iterable[str], compose: Callable[[list[str]], DictConfig]
) -> list[str]:
    """The words of a cell with those that wait whose keys it has.

    waiting  words for keys that only what some cells choose brings, such as callbacks.mining.depth=50
    """
    overrides, waiting = list(overrides), list(waiting)
    config = compose(overrides) if waiting else None
    return [*overrides, *(word for word in waiting if config is not None and has_key(config, word))]


def handed_over(arguments: Sequence[str], waiting: Sequence[str]) -> list[str]:
    """A command line on which the words that wait are a key of the sweeper: Hydra would look for theirs in vain."""
    if not waiting:
        return list(arguments)
    quoted = ",".join(QuotedString(word, Quote.single).with_quotes() for word in waiting)
    positions = [position for position, word in enumerate(arguments) if word in waiting]
    plain = [word for word in arguments if word not in waiting]
    return [*plain[: positions[0]], f"{WAITING}=[{quoted}]", *plain[positions[0] :]]


def parameters(config: DictConfig) -> dict[str, Any]:
    """What the sweep of a composition varies: key → its choices as one text."""
    return _plain(config, "hydra.sweeper.params")


def rows(config: DictConfig) -> dict[str, list[str]]:
    return split_rows(_plain(config, "hydra.sweeper.rows"), OmegaConf.select(config, "hydra.sweeper.only"))


def is_one_cell(config: DictConfig, typed: Iterable[str]) -> bool:
    """The keys that were typed decide everything that the sweep varies: one run of it is meant."""
    typed = set(typed)
    if not set(map(key_of, parameters(config))) <= typed:
        return False
    all_rows = rows(config)
    return bool(all_rows or parameters(config)) and (
        not all_rows or any({key_of(word) for word in row} <= typed for row in all_rows.values())
    )


def keys_of_sweep(config: DictConfig) -> set[str]:
    """Keys that the sweep of a composition sets for its runs, not all of which need read them."""
    words = [*parameters(config), *(word for row in rows(config).values() for word in row)]
    return {*map(key_of, words)}


def _plain(config: DictConfig, key: str) -> dict[str, Any]:
    node = OmegaConf.select(config, key)
    return {} if node is None else OmegaConf.to_container(node)
