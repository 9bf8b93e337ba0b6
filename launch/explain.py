"""Mistakes in the words of the command line: the key, the nearest word, and where it was written.

What Hydra, OmegaConf and YAML say becomes one line, and a parameter of the library gets the key that sets it.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from conf.job import JobConfig
from juzhen.core.aliases import RENAMED_GROUPS, option_meant, setting_meant
from juzhen.core.errors import UserError, command, nearest, setting
from juzhen.core.safe_open import read_text
from juzhen.core.schema import ConfigError, keys_beside
from launch.hydra_internals import root_of
from launch.words import Groups, first_line, leaves

MOST_OPTIONS = 12
"""More options than these are not listed where one is mistyped."""


def option_hint(group: str, option: str, options: Iterable[str]) -> str:
    """One line for an option that does not exist: what it is called here, or the nearest, then all, or where all are
    shown.
    """
    options = sorted(options)
    if group in ("model", "loss") and "/" in option:
        hint = f"an encoder is {command(setting('backbone', option))}"
    elif group == "dataset" and _is_table(option):
        hint = f"a file becomes a set by {command(setting('data', option))} alone, or by juzhen dataset"
    elif group == "hydra/launcher" and option.startswith(("joblib", "submitit")):
        hint = "it comes with an extra: pip install -e '.[launchers]'"
    elif meant := option_meant(group, option, options):
        hint = f"type {meant}"
    elif len(options) > MOST_OPTIONS:
        close = difflib.get_close_matches(option.lower(), options, n=3, cutoff=0.0)
        close.sort(key=lambda name: sorted(name) != sorted(option.lower()))  # the likeliest slip
        hint = (
            f"did you mean {close[0]}, {close[1]} or {close[2]}? All {len(options)}: python train.py --help"
        )
    else:
        hint = nearest(option.lower(), options)
        hint += "" if hint.startswith("known") else f" Options of {group}: {', '.join(options)}"
    return f"{group}={option}: there is no such option; {hint}"


def _is_table(option: str) -> bool:
    from juzhen.data.tables import is_table  # with numpy, which most starts need not wait for

    return is_table(option)


class UnknownKeyError(ConfigError):
    """A key that a composition does not have."""


COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, YAMLError, ValueError)
"""What Hydra raises where it cannot compose."""


def explain_composition(error: Exception, groups: Groups, words: Sequence[str]) -> ConfigError:
    """The mistake behind an exception of Hydra's composition; groups and what was typed are for hints."""
    if isinstance(error, MissingConfigException):
        missing = error.missing_cfg_file or ""
        group, _, option = missing.rpartition("/")
        if not groups.options(group):  # the option has a / in it
            group, _, option = missing.partition("/")
        if group in groups.names or "/" in missing:
            return ConfigError(option_hint(group, option, groups.options(group)), option)
        return ConfigError(f"there is no configuration file {option}.yaml; the job's is called train")
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark
        position = f"{mark.name}, line {mark.line + 1}" if mark else "a configuration file"
        return ConfigError(f"{position}: this is not valid YAML: {error.problem}")
    cause = error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(cause, groups.names, words)
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return ConfigError(f"{cause.full_key}: {first_line(cause)}")
    for old, new in RENAMED_GROUPS.items():
        if re.search(rf"'{old}'|/{old}\b", str(error)):
            return ConfigError(f"{old}: this group is called {new} since 0.3. Write {new} in its place")
    if twice := re.search(r"Multiple values for (\S+?)\.", str(error)):
        return ConfigError(f"{twice[1]} is chosen twice; write {twice[1]}=… once and without a +", twice[1])
    messages = [line.strip() for line in str(error).splitlines()]
    named = re.search(r"'([\w.]+)'", messages[0] if messages else "")
    return ConfigError(" ".join(filter(None, messages)), named[1] if named else "")


def _unknown_key(
    error: OmegaConfBaseException, groups: Iterable[str], words: Sequence[str]
) -> UnknownKeyError:
    """A key that the configuration does not have: where the word stands elsewhere, else the nearest beside it."""
    path, word, parent = str(error.full_key), str(error.key), error.parent_node
    owner, root = path.rpartition(".")[0], root_of(error.parent_node)
    beside = list(keys_beside(JobConfig, path.split(".")))
    plain = {} if root is None else OmegaConf.to_container(root, resolve=False)
    groups_of_job = {key: node for key, node in plain.items() if key not in ("hydra", "dataset", "evaluate")}
    elsewhere = [key for key, _ in leaves(groups_of_job) if key.rpartition(".")[2] == word.lower()]
    typed = dict(each.lstrip("+~").partition("=")[::2] for each in words)
    whole = next(
        (key for key in typed if key.startswith(f"{path}.")), path
    )  # of trainer.max_epochs, trainer is missed
    if word in beside and owner:
        hint = f"this key is not set yet; with a + it is: '+{path}=…'"
    elif path.count(".") == 1 and owner in ("dataset", "evaluate"):
        hint = f"this job has no such set; choose it, 'dataset=[{word}]', or a benchmark with it, benchmark=…"
    elif meant := setting_meant(whole, typed.get(whole)):
        hint = f"there is no such key; type {meant}"
    elif elsewhere:
        hint = f"there is no such key; did you mean {' or '.join(elsewhere)}?"
    else:
        keys = {*map(str, parent), *([] if owner else groups)} - {"_target_", "hydra"}
        hint = f"there is no such key; {nearest(word.lower(), keys)}"
    return UnknownKeyError(f"{path}: {hint}", path)


def broken_reference(error: OmegaConfBaseException) -> ConfigError:
    """An interpolation `${…}` that leads nowhere."""
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", first_line(error))
    return ConfigError(f"{error.full_key}: cannot fill in ${{…}}: {reason}")


def place_of(key: str, message: str, overrides: Sequence[str], folder: Path) -> str:
    """` (given as +trainer.epoch=3)` or ` (conf/experiment/x.yaml, line 3)`; empty if the message says it."""
    if not key:
        return ""
    for line in overrides:
        name = line.lstrip("+~").partition("=")[0]
        if name == key or name.startswith((f"{key}.", f"{key}@")):
            return "" if f"{name}=" in message else f" (given as {line})"
    word = key.rpartition(".")[2].partition("[")[0]
    for file in _chosen_files(folder, overrides):
        for number, text in enumerate(read_text(file).splitlines(), start=1):
            if re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text.partition("#")[0]):
                return f" ({file.relative_to(folder.parent)}, line {number})"
    return ""


def _chosen_files(folder: Path, overrides: Sequence[str]) -> Iterator[Path]:
    """Files of the configuration tree that the overrides choose, in order."""
    for line in overrides:
        group, _, value = line.lstrip("+").partition("=")
        for option in value.strip("[]").split(","):
            if (file := folder / group.partition("@")[0] / f"{option.strip()}.yaml").is_file():
                yield file


PARAMETER = re.compile(r"(?<![\w.\"'{-])[a-z][a-z_]*(?==)")
NOT_OF_THE_JOB = ("hydra", "dataset", "evaluate")
"""Groups whose keys are those of sets, or of Hydra: a parameter's name says nothing about which."""


@contextmanager
def naming_keys(job: DictConfig) -> Iterator[None]:
    """Around what a job asks of the library: a mistake that is raised inside speaks of the job's keys."""
    try:
        yield
    except UserError as error:
        plain: Any = OmegaConf.to_container(job, resolve=False)
        error.args = (
            with_keys(str(error), {key: value for key, value in plain.items() if key not in NOT_OF_THE_JOB}),
        )
        raise


def with_keys(message: str, job: Mapping[str, Any]) -> str:
    """The message with the dotted key for each parameter that stands in one group of the job and not above them.

    >>> with_keys("max_length=4: choose max_length=128", {"seed": 0, "backbone": {"max_length": 4}})
    'backbone.max_length=4: choose backbone.max_length=128'
    """
    groups = defaultdict(list)
    for group, values in job.items():
        for name in values if isinstance(values, Mapping) else ():
            groups[name].append(f"{group}.{name}")

    def key(match: re.Match[str]) -> str:
        name = match[0]
        return groups[name][0] if name not in job and len(groups[name]) == 1 else name

    return PARAMETER.sub(key, message)
