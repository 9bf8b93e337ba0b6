"""Words of a command line: what one sets, whether it changes the composition, what its commas may mean."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from juzhen.core.commands import command, setting
from juzhen.core.errors import UserError
from juzhen.core.opened import read_text
from launch.explain import leaves
from launch.overrides import Groups

PLACES = {"mining": "callbacks.mining"}
"""Group → where its choice stands, of those that stand elsewhere than their name says."""


def keys_set(groups: Groups, word: str) -> list[str]:
    """Dotted keys that a word sets; none where it only takes something away."""
    override = groups.parse(word)
    if override.is_delete() or override.is_hydra_override() or override.value() == []:
        return []
    group = PLACES.get(override.key_or_group, override.key_or_group.replace("/", "."))
    key, value = override.package or group, override.value()
    return [f"{key}.{name}" for name, _ in leaves(value)] if isinstance(value, dict) else [key]


def stands_anyway(compose: Callable[[Sequence[str]], DictConfig], word: str, words: Sequence[str]) -> bool:
    """Whether the composition is the same without the word."""
    try:
        with_it, without = (
            OmegaConf.to_container(OmegaConf.masked_copy(one, [key for key in one if key != "hydra"]))
            for one in (compose(words), compose([one for one in words if one != word]))
        )
    except UserError:
        return False
    return with_it == without


def lists_in_defaults(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Group and options of every list choice in a file's defaults list."""
    try:
        content = yaml.safe_load(read_text(file))
    except (yaml.YAMLError, UnicodeDecodeError):
        return  # the composition names what is wrong with the file
    defaults = content.get("defaults") if isinstance(content, dict) else None
    for entry in defaults or []:
        for key, value in entry.items() if isinstance(entry, dict) else ():
            if isinstance(value, list):
                group = str(key).removeprefix("override ").strip().lstrip("/")
                yield group, [str(option) for option in value]


def several_values(line: str) -> str:
    """What a comma in a word may have meant, and how each is typed."""
    key, _, value = line.partition("=")
    words = (
        f"{line}: several values; for one run each add -m ({command('train.py', '-m', line)}), for one run with all of "
        f"them write {command(f'{key}=[{value}]')}"
    )
    if all(part.replace(".", "").isdigit() for part in value.split(",")):
        return words
    return f"{words}, for a text that has a comma in it {command(setting(key, value))}"


@contextmanager
def progress_of_check(total: int) -> Iterator[Callable[[], None]]:
    """A bar where a person looks on: every row and choice of a sweep is composed, and ten of them take seconds."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking the runs of the sweep", total=total)
        yield lambda: bar.advance(task)
