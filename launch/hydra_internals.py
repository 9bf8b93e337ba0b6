"""All that is used of what Hydra and OmegaConf keep to themselves, in one place, with the reason for each."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# `hydra.compose` makes no difference between what a file says and what was typed, and tells no search path.
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.plugins.sweeper import Sweeper
from omegaconf import Container, DictConfig

from juzhen.core.errors import UserError

__all__ = ["Hydra", "basic_sweeper", "flag_parser", "known_flags", "opened", "root_of"]


def basic_sweeper() -> type[Sweeper]:
    """Hydra's own sweeper: a grid with rows is that one with other cells, and it has no base class that is public.

    Imported late: Hydra loads its plugins anew when it looks for them, and a class from before would be another one.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    return BasicSweeper


flag_parser = get_args_parser
"""Makes the parser of Hydra's own flags: they are checked before Hydra reads them, so that mistakes get a hint."""


def known_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Every spelling of every flag, for hints; argparse tells them in no other way."""
    return [flag for action in parser._actions for flag in action.option_strings]


def root_of(node: Container | None) -> DictConfig | None:
    """The whole configuration that a node is part of, in which a misspelt key is looked for."""
    return None if node is None else node._get_root()


@contextmanager
def opened(folder: Path, extra: str | None) -> Iterator[Hydra]:
    """Hydra over a configuration tree, `extra` in front of it; its global state is then as before.

    So `@hydra.main` can follow, which composes the job once more.
    """
    search_path = create_config_search_path(str(folder.resolve()))
    if extra is not None:
        if not Path(extra).is_dir():
            raise UserError(f"--config-dir {extra}: there is no such folder")
        search_path.prepend(
            "command-line", f"file://{Path(extra).resolve()}", SearchPathQuery(provider="schema")
        )
    instance = GlobalHydra.instance()
    before = instance.hydra
    instance.clear()
    try:
        yield Hydra.create_main_hydra2(task_name="train", config_search_path=search_path)
    finally:
        instance.clear()
        instance.hydra = before
