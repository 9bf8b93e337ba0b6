"""All that is used of what Hydra and OmegaConf keep to themselves, in one place, with the reason for each."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import version

# `hydra.main` would compose the job again, and tells of errors in its own way.
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus, configure_log, run_job
from hydra.types import HydraContext, RunMode
from omegaconf import Container, DictConfig

from juzhen.core.errors import UserError

__all__ = [
    "CellLoader",
    "Hydra",
    "flag_parser",
    "known_flags",
    "opened",
    "root_of",
    "run_composed",
    "run_sweep",
    "show",
    "words_of_job",
]


class CellLoader(ConfigLoaderImpl):
    """Hydra's loader, which composes a cell of a sweep only once, for the check and for the launcher.

    Args:
        search_path: Configuration trees.

    Attributes:
        cells: Words → composition of the cells that were checked and not yet launched.
    """

    def __init__(self, search_path: ConfigSearchPath) -> None:
        super().__init__(search_path)
        self.cells: dict[tuple[str, ...], DictConfig] = {}

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        checked = self.cells.pop(tuple(sweep_overrides), None)
        return super().load_sweep_config(master_config, sweep_overrides) if checked is None else checked

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"cells": {}}  # some launchers send it to every cell


flag_parser = get_args_parser
"""Makes the parser of Hydra's own flags: they are checked before Hydra reads them, so that mistakes get a hint."""


def known_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return all spellings of all flags, for hints. Argparse has no public list.

    Args:
        parser: Result of `flag_parser`.

    Returns:
        Flags with their dashes.
    """
    return [flag for action in parser._actions for flag in action.option_strings]


def root_of(node: Container | None) -> DictConfig | None:
    """Return the root configuration of a node, to search for a misspelt key.

    Args:
        node: Node of a configuration. None has no root.

    Returns:
        The root, or None.
    """
    return None if node is None else node._get_root()


@contextmanager
def opened(folder: Path, extra: str | None) -> Iterator[Hydra]:
    """Open Hydra on a configuration tree. Its global state is restored at the end.

    Args:
        folder: Root of the tree.
        extra: Folder that is searched before it, --config-dir. None: none.

    Yields:
        Hydra, which composes configurations of the tree.

    Raises:
        UserError: One of the folders is missing.
    """
    for flag, path in (("--config-path", folder), ("--config-dir", Path(extra or folder))):
        if not path.is_dir():  # which Hydra passes over
            raise UserError(f"{flag} {path}: no such folder")
    search_path = create_config_search_path(str(folder.resolve()))
    if extra is not None:
        search_path.prepend(
            "command-line", f"file://{Path(extra).resolve()}", SearchPathQuery(provider="schema")
        )
    version.setbase("1.3")
    instance = GlobalHydra.instance()
    before = instance.hydra
    instance.clear()
    try:
        hydra = Hydra(task_name="train", config_loader=CellLoader(search_path))
        GlobalHydra.instance().initialize(hydra)
        yield hydra
    finally:
        instance.clear()
        instance.hydra = before


Task = Callable[[DictConfig], Any]


def run_composed(hydra: Hydra, config: DictConfig, task: Task) -> None:
    """Run a task with a composed configuration. Log and folder are made as by `Hydra.run`.

    Args:
        hydra: An open Hydra, see `opened`.
        config: Composition of the job, with the node `hydra`.
        task: Function of the composition. Its exception is raised again.
    """
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    config.hydra.mode = RunMode.RUN
    callbacks = Callbacks(config)
    callbacks.on_run_start(config=config, config_name=config.hydra.job.config_name)
    ended = run_job(
        hydra_context=HydraContext(config_loader=hydra.config_loader, callbacks=callbacks),
        task_function=task,
        config=config,
        job_dir_key="hydra.run.dir",
        job_subdir_key=None,
    )
    callbacks.on_run_end(config=config, config_name=config.hydra.job.config_name, job_return=ended)
    if ended.status is JobStatus.FAILED:
        raise ended._return_value  # `return_value` would print what the one handler says


def run_sweep(hydra: Hydra, config: DictConfig, task: Task, words: Sequence[str]) -> None:
    """Run a sweep with a composed configuration, as `Hydra.multirun` does.

    Args:
        hydra: An open Hydra, see `opened`.
        config: Composition of the whole sweep, with the node `hydra`.
        task: Function of the composition of a cell.
        words: Overrides of the command line, without those of Hydra. The sweeper receives them.
    """
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    callbacks = Callbacks(config)
    context = HydraContext(config_loader=hydra.config_loader, callbacks=callbacks)
    callbacks.on_multirun_start(config=config, config_name=config.hydra.job.config_name)
    sweeper = Plugins.instance().instantiate_sweeper(config=config, hydra_context=context, task_function=task)
    sweeper.sweep(arguments=list(words))
    callbacks.on_multirun_end(config=config, config_name=config.hydra.job.config_name)


def words_of_job() -> dict[str, list[str]]:
    """Return `command` → the command line of the current cell of a sweep. {} for a single run.

    Returns:
        `command` → words, or {}.
    """
    config = HydraConfig.get() if HydraConfig.initialized() else None
    if config is None or config.mode is not RunMode.MULTIRUN:
        return {}
    return {"command": ["train.py", *config.overrides.task]}


def show(hydra: Hydra, flags: argparse.Namespace, name: str) -> None:
    """Print the answer to --help, --hydra-help, --cfg, --info or --shell-completion.

    Args:
        hydra: An open Hydra, see `opened`.
        flags: Parsed command line, with one of these flags.
        name: Name of the configuration, such as train.
    """
    options = {"config_name": name, "args_parser": flag_parser(), "args": flags}
    if flags.help:
        hydra.app_help(**options)
    elif flags.hydra_help:
        hydra.hydra_help(**options)
    elif flags.cfg:
        format_options = {"cfg_type": flags.cfg, "package": flags.package, "resolve": flags.resolve}
        hydra.show_cfg(config_name=name, overrides=flags.overrides, **format_options)
    elif flags.shell_completion:
        hydra.shell_completion(config_name=name, overrides=flags.overrides)
    else:
        hydra.show_info(flags.info, config_name=name, overrides=flags.overrides)
