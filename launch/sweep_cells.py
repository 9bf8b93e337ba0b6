"""The cells of a sweep: a grid of values, repeated for each row of fixed overrides."""

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

    Args:
        words: Overrides that it reads, as on a command line.
        config: Their composition.
        job: The job of the composition.
        unread: Unread word → reason.
    """

    words: tuple[str, ...]
    config: DictConfig
    job: JobConfig
    unread: Mapping[str, UserError]


def read_cell(loader: ConfigLoader, sweep: DictConfig, words: Sequence[str], groups: Groups) -> CheckedCell:
    """Compose one cell of a sweep and leave out the words that it does not read.

    A cell that leaves words out is composed twice, because the values that replace them are part of its run
    key. Words of a named sweep stay, since they identify its runs.

    Args:
        loader: Hydra's.
        sweep: The composition of the whole sweep.
        words: The words of the cell, each with one value.
        groups: The groups of the configuration tree.

    Returns:
        The cell, with its composition and job.

    Raises:
        ConfigError: The cell cannot be composed, or is not a job.
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
    """Find the words whose key a composition lacks.

    Args:
        mistake: Error of the composition. Only an UnknownKeyError names a key.
        words: Overrides of the cell.

    Returns:
        Some of `words`. [] for another mistake.
    """
    if not isinstance(mistake, UnknownKeyError):
        return []
    return [word for word in words if f"{key_of(word)}.".startswith(f"{mistake.key}.")]


def unread_words(job: JobConfig, words: Iterable[str], groups: Groups) -> dict[str, UserError]:
    """Return unread word → the reason why the job does not read its key.

    Args:
        job: A typed job.
        words: Overrides of its command line.
        groups: Groups of the configuration tree.

    Returns:
        {} if all words are read.
    """
    plain = asdict(job)
    reasons = {
        word: next(filter(None, (why_unread(key, plain) for key in groups.keys_set(word))), None)
        for word in words
    }
    return {word: UserError(f"{word}: not read by this job: {why}") for word, why in reasons.items() if why}


def cells_of(sweep: DictConfig, words: Sequence[str], groups: Groups) -> list[list[str]]:
    """Return the words of each cell of a sweep. The command line overrides rows, and rows override the grid.

    Args:
        sweep: The composition of the whole sweep.
        words: Overrides of the command line, without the keys of Hydra.
        groups: The groups of the configuration tree.

    Returns:
        Words of each cell. For a search, one cell for each value, with the first values of the other words.

    Raises:
        UserError: A value that a grid cannot take, or an unknown row.
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
    of_words = hashlib.sha256(" ".join(sorted(words)).encode()).hexdigest()[:8]
    group = sweep.hydra.runtime.choices.get("sweep") or f"multirun-{of_words}"  # which the runs share on W&B
    in_group = [] if GROUP in typed else [f"{GROUP}={group}"]
    # By ROW a run learns which row it is, and its tables call it so.
    return [
        [
            *with_row(cell, row, typed),
            *(
                []
                if name is None or ROW in typed
                else [f"{ROW}={QuotedString(name, Quote.double).with_quotes()}"]
            ),
            *in_group,
        ]
        for name, row in (rows(sweep) or {None: []}).items()
        for cell in product(*choices)
    ]


def key_of(word: str) -> str:
    """Return the key that a word of the command line sets: `+seed=1` → `seed`.

    Args:
        word: An override.

    Returns:
        Dotted key.
    """
    return word.partition("=")[0].lstrip("+~")


def _split_rows(rows: Mapping[str, str], only: Sequence[str] | None) -> dict[str, list[str]]:
    """Return name → words of each row, or of the named rows. Raises UserError for an unknown name."""
    for name in only or ():
        require_choice("hydra.sweeper.only", name, rows)
    return {
        name: with_backbone(with_set_words(with_current_names(shlex.split(line))))
        for name, line in rows.items()
        if only is None or name in only
    }


def with_row(overrides: Iterable[str], row: Iterable[str], typed: Iterable[str]) -> list[str]:
    """Merge a cell of the grid and a row into one command line.

    Args:
        overrides: The cell.
        row: The row.
        typed: Keys of the user's command line. These override the row, and the row overrides the grid.

    Returns:
        The words.
    """
    row, typed = list(row), set(typed)
    in_row = {key_of(word) for word in row}
    return [word for word in overrides if key_of(word) not in in_row - typed] + [
        word for word in row if key_of(word) not in typed
    ]


def parameters(config: DictConfig) -> list[str]:
    """Return the words of `hydra.sweeper.params`, by current names.

    Args:
        config: Composition of the sweep.

    Returns:
        Words such as `seed=1,2`.
    """
    words = [f"{key}={value}" for key, value in _plain(config, "hydra.sweeper.params").items()]
    return with_current_names(words)


def rows(config: DictConfig) -> dict[str, list[str]]:
    """Return the named rows of a sweep. {} for a grid alone.

    Args:
        config: Composition of the sweep.

    Returns:
        Name → words of the row, of all rows or of `hydra.sweeper.only`.

    Raises:
        UserError: An unknown name in `hydra.sweeper.only`.
    """
    return _split_rows(_plain(config, "hydra.sweeper.rows"), OmegaConf.select(config, "hydra.sweeper.only"))


def is_one_cell(config: DictConfig, typed: Iterable[str]) -> bool:
    """Check that the typed keys decide everything that a sweep varies, so that one run of it is meant.

    Args:
        config: Composition with the sweep.
        typed: Keys of the command line.

    Returns:
        False if the sweep varies a key that is not typed.
    """
    typed = set(typed)
    if not set(map(key_of, parameters(config))) <= typed:
        return False
    all_rows = rows(config)
    return bool(all_rows or parameters(config)) and (
        not all_rows or any({key_of(word) for word in row} <= typed for row in all_rows.values())
    )


def keys_of_sweep(config: DictConfig) -> set[str]:
    """Return the keys that a sweep sets for its runs. Not every run needs to read all of them.

    Args:
        config: Composition of the sweep.

    Returns:
        Dotted keys.
    """
    words = [*parameters(config), *(word for row in rows(config).values() for word in row)]
    return {*map(key_of, words)}


def give_to_launcher(config: DictConfig) -> None:
    """Copy the keys of `hydra.sweeper.launcher` that the chosen launcher has to `hydra.launcher`.

    Keys from the command line are kept. A file cannot set the keys of one launcher below `hydra.launcher`,
    since Hydra could not compose another launcher with them.

    Args:
        config: Composition of the sweep. It is changed in place.
    """
    typed = [word.lstrip("+~").partition("=")[0] for word in config.hydra.overrides.hydra]
    for key, value in (config.hydra.sweeper.get("launcher") or {}).items():
        if key in config.hydra.launcher and f"hydra.launcher.{key}" not in typed:
            config.hydra.launcher[key] = value


def _plain(config: DictConfig, key: str) -> dict[str, Any]:
    node = OmegaConf.select(config, key)
    return {} if node is None else OmegaConf.to_container(node)
