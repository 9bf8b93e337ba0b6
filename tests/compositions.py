"""Compositions of the tests share what Hydra reads: the files that the same choices lead to are merged once.

What a composition is made of is unchanged: the choices of groups give a list of files, the files are merged, and values
are put over a copy of that. A list is kept with the choices, the folders and what these hold, by sizes and times.
"""

import os
import pickle
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import DefaultsList

ROOT = Path(__file__).resolve().parents[1]
list_files, merge_files = (
    config_loader_impl.create_defaults_list,
    ConfigLoaderImpl._compose_config_from_defaults_list,
)
load_file = ConfigRepository.load_config
KEPT: dict[str, bytes] = {}


def kept(key: str, make: Callable[[], Any]) -> Any:
    """A copy of what was made once. A pickle of a DictConfig is read in a fifth of the time of a deep copy."""
    if key not in KEPT:
        KEPT[key] = pickle.dumps(make(), pickle.HIGHEST_PROTOCOL)
    return pickle.loads(KEPT[key])


def trees(repo) -> str:
    """The folders and, where they are not the project's own, which no test changes, the state of their files."""
    found = []
    for source in repo.get_sources():
        found.append((source.scheme(), source.path))
        if source.scheme() == "file" and Path(source.path) != ROOT / "conf":
            states = (
                (file, os.stat(file)) for file in sorted(glob(f"{source.path}/**/*.yaml", recursive=True))
            )
            found += [(file, state.st_mtime_ns, state.st_size, state.st_ino) for file, state in states]
    return repr(found)


def loaded(self, config_path: str):
    places = {source.path for source in self.get_sources() if source.scheme() == "file"}
    if places != {str(ROOT / "conf")}:
        return load_file(self, config_path)
    return kept(f"file {config_path}", lambda: load_file(self, config_path))


def listed(repo, config_name, overrides_list, prepend_hydra, skip_missing) -> DefaultsList:
    def is_value(override) -> bool:
        return not override.is_sweep_override() and (
            isinstance(override.value(), dict) or not repo.group_exists(override.key_or_group)
        )

    values = [one for one in overrides_list if is_value(one)]
    choices = [one for one in overrides_list if not is_value(one)]
    key = repr((trees(repo), config_name, [one.input_line for one in choices], prepend_hydra, skip_missing))
    one = kept(key, lambda: list_files(repo, config_name, choices, prepend_hydra, skip_missing))
    return DefaultsList(one.defaults, one.defaults_tree, values, one.overrides)


def merged(self, defaults, repo):
    return kept(repr((trees(repo), defaults)), lambda: merge_files(self, defaults, repo))


def share_compositions() -> None:
    config_loader_impl.create_defaults_list = listed
    ConfigLoaderImpl._compose_config_from_defaults_list = merged
    ConfigRepository.load_config = loaded
