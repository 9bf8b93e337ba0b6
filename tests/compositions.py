"""Compositions of the tests share what Hydra reads: the files that the same choices lead to are merged once.

What a composition is made of is unchanged: the choices of groups give a list of files, the files are merged, and values
are put over a copy of that. A list is kept with the choices, the folders and what these hold, by sizes and times.
"""

import copy
import os
import pickle
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf.base import Container

ROOT = Path(__file__).resolve().parents[1]
list_files, merge_files = (
    config_loader_impl.create_defaults_list,
    ConfigLoaderImpl._compose_config_from_defaults_list,
)
load_file, place_file = ConfigRepository.load_config, ConfigLoaderImpl._load_single_config
copy_repository = CachingConfigRepository.__init__
parse_word, map_choices = OverridesParser.parse_rule, defaults_list._create_interpolation_map
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


def is_of_the_project(repo) -> bool:
    return {source.path for source in repo.get_sources() if source.scheme() == "file"} == {str(ROOT / "conf")}


def loaded(self, config_path: str):
    if not is_of_the_project(self):
        return load_file(self, config_path)
    return kept(f"file {config_path}", lambda: load_file(self, config_path))


def placed(self, default, repo):
    if not is_of_the_project(repo):
        return place_file(self, default, repo)
    key = f"placed {default.config_path} {default.package} {default.primary}"
    return kept(key, lambda: place_file(self, default, repo))


def parsed(self, word: str, rule: str):
    return kept(f"{rule} {word}", lambda: parse_word(self, word, rule))


def mapped(overrides, defaults, self_added):
    """The choices, for a file of the list that is named by one of them: `${…}`."""
    needs_them = any(not one.is_self() and one.is_interpolation() for one in defaults)
    return map_choices(overrides, defaults, self_added) if needs_them else None


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
    return kept(repr((trees(repo), defaults)), lambda: merge_in_one_go(self, defaults, repo))


def merge_in_one_go(self, defaults, repo):
    """Each file that is merged tells all nodes of their parents again, half of the time: once will do."""
    tell_parents = Container._re_parent
    Container._re_parent = lambda self: None
    try:
        config = merge_files(self, defaults, repo)
    finally:
        Container._re_parent = tell_parents
    config._re_parent()
    return config


def copied(self, delegate) -> None:
    """A repository of its own: the folders, which are set anew, are not looked into for that."""
    self.delegate, self.cache = copy.copy(delegate), {}


def share_compositions() -> None:
    config_loader_impl.create_defaults_list = listed
    ConfigLoaderImpl._compose_config_from_defaults_list = merged
    ConfigRepository.load_config = loaded
    ConfigLoaderImpl._load_single_config = placed
    OverridesParser.parse_rule = parsed
    CachingConfigRepository.__init__ = copied
    defaults_list._create_interpolation_map = mapped


def share_nothing(patch) -> None:
    """Undo `share_compositions` while a test's `monkeypatch` lasts."""
    patch.setattr(config_loader_impl, "create_defaults_list", list_files)
    patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge_files)
    patch.setattr(ConfigRepository, "load_config", load_file)
    patch.setattr(ConfigLoaderImpl, "_load_single_config", place_file)
    patch.setattr(OverridesParser, "parse_rule", parse_word)
    patch.setattr(CachingConfigRepository, "__init__", copy_repository)
    patch.setattr(defaults_list, "_create_interpolation_map", map_choices)
