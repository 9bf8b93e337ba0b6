"""The cells of a sweep: a grid of what varies, once for each row of words that is no grid, composed once a cell."""

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf

from conf.job import JobConfig
from juzhen.core.errors import UserError, require_choice
from juzhen.identity import why_unread
from launch.job import read_job
from launch.overrides import (
    COMPOSITION_ERRORS,
    Groups,
    UnknownKeyError,
    explain_composition,
    with_backbone,
    with_current_names,
    with_set_words,
)

GRIDS = ("BasicSweeper", "RowSweeper")
"""Sweepers that run every combination of the values that vary. Others draw values, so that each is looked at once."""

ROW, GROUP = "sweep_row", "logger.group"


@dataclass(frozen=True)
class CheckedCell:
    """One run of a sweep.

    words   that it reads, as on a command line
    config  what they compose to
    job     what that means
    unread  word → why this cell does without it
    """

    words: tuple[str, ...]
    config: DictConfig
    job: JobConfig
    unread: Mapping[str, UserError]


def read_cell(loader: ConfigLoader, sweep: DictConfig, words: Sequence[str], groups: Groups) -> CheckedCell:
    """Compose one cell of a sweep and leave out what it does not read.

    Composed is once, and once more for a cell that leaves words out: what then stands in their place is part of its
    run key. Words of a named sweep stay, since by them it is known which of its runs is meant.

    Args:
        loader: Hydra's.
        sweep: The composition of the whole sweep.
        words: The words of the cell, each with one value.
        groups: The groups of the configuration tree.

    Raises:
        ConfigError: The cell cannot be composed, or is no job.
    """
    try:
        config = loader.load_sweep_config(sweep, list(words))
    except COMPOSITION_ERRORS as error:
        mistake = explain_composition(error, groups, words)
        unread: dict[str, UserError] = dict.fromkeys(words_of_key(mistake, words), mistake)
        left_out = {*unread}
        if not left_out:
            raise mistake from error
    else:
        job = read_job(config)
        unread = unread_words(job, words, groups)
        of_sweep = keys_of_sweep(config) if config.hydra.runtime.choices.get("sweep") else ()
        left_out = {word for word in unread if key_of(word) not in of_sweep}
    if left_out:
        cell = read_cell(loader, sweep, [word for word in words if word not in left_out], groups)
        return replace(cell, unread={**unread, **cell.unread})
    return CheckedCell(tuple(words), config, job, unread)


def words_of_key(mistake: UserError, words: Sequence[str]) -> list[str]:
    """The words whose key a composition lacks, by what is wrong with it."""
    if not isinstance(mistake, UnknownKeyError):
        return []
    return [word for word in words if f"{key_of(word)}.".startswith(f"{mistake.key}.")]


def unread_words(job: JobConfig, words: Iterable[str], groups: Groups) -> dict[str, UserError]:
    """Word → why the job does not read what it sets, for those that it does not read."""
    plain = asdict(job)
    reasons = {
        word: next(filter(None, (why_unread(key, plain) for key in groups.keys_set(word))), None)
        for word in words
    }
    return {word: UserError(f"{word}: not read by this job: {why}") for word, why in reasons.items() if why}


def cells_of(sweep: DictConfig, words: Sequence[str], groups: Groups) -> list[list[str]]:
    """The words of each cell of a sweep. What is typed counts before a row, and a row before the sweep's own grid.

    Args:
        sweep: The composition of the whole sweep.
        words: What is typed, without the keys of Hydra.
        groups: The groups of the configuration tree.

    Raises:
        UserError: A value that a grid cannot take, or a row that there is not.
    """
    varied = {key_of(word): word for word in [*parameters(sweep), *words]}
    is_grid = sweep.hydra.sweeper._target_.rpartition(".")[2] in GRIDS
    choices = [groups.alternatives(word, is_grid=is_grid) for word in varied.values()]
    if not is_grid:
        first = [each[0] for each in choices]
        return [first] + [
            [*first[:place], choice, *first[place + 1 :]]
            for place, each in enumerate(choices)
            for choice in each[1:]
        ]
    typed = {key_of(word) for word in words}
    group = [] if GROUP in typed else [f"{GROUP}={_group(sweep, words)}"]
    return [
        [*with_row(cell, row, typed), *([] if name is None or ROW in typed else [_row_word(name)]), *group]
        for name, row in (rows(sweep) or {None: []}).items()
        for cell in product(*choices)
    ]


def _row_word(row: str) -> str:
    """The word by which a run learns which row it is. Its tables call it so."""
    return f"{ROW}={QuotedString(row, Quote.double).with_quotes()}"


def _group(sweep: DictConfig, words: Sequence[str]) -> str:
    """The group that the runs of a sweep share on W&B: its name. Without one, the same for the same words."""
    name = sweep.hydra.runtime.choices.get("sweep")
    return name or f"multirun-{hashlib.sha256(' '.join(sorted(words)).encode()).hexdigest()[:8]}"


def key_of(word: str) -> str:
    """What a word of the command line sets: `+seed=1` → `seed`."""
    return word.partition("=")[0].lstrip("+~")


def split_rows(rows: Mapping[str, str], only: Sequence[str] | None) -> dict[str, list[str]]:
    """Name → words of each row, or of those that are named. Raises UserError for a name that no row has."""
    for name in only or ():
        require_choice("hydra.sweeper.only", name, rows)
    return {
        name: with_backbone(with_set_words(with_current_names(shlex.split(line))))
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


def parameters(config: DictConfig) -> list[str]:
    """The words of what the sweep of a composition varies."""
    words = [f"{key}={value}" for key, value in _plain(config, "hydra.sweeper.params").items()]
    return with_current_names(words)


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


def give_to_launcher(config: DictConfig) -> None:
    """Hands on what a sweep says of its launcher, `hydra.sweeper.launcher`, as far as the chosen one has such keys.

    What was typed for it stays. In a file the keys of one launcher cannot stand below `hydra.launcher`, since Hydra
    composes no other one with them.
    """
    typed = [word.lstrip("+~").partition("=")[0] for word in config.hydra.overrides.hydra]
    for key, value in (config.hydra.sweeper.get("launcher") or {}).items():
        if key in config.hydra.launcher and f"hydra.launcher.{key}" not in typed:
            config.hydra.launcher[key] = value


def _plain(config: DictConfig, key: str) -> dict[str, Any]:
    node = OmegaConf.select(config, key)
    return {} if node is None else OmegaConf.to_container(node)
