"""Overrides of the command line: flags, `key=value` words, values of a sweep, and messages about mistakes in them.

Messages of Hydra, OmegaConf and YAML become one line. A parameter of the library gets the key that sets it.
"""

import argparse
import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from conf.job import JobConfig
from conf.own_classes import keys_of
from juzhen.core.aliases import RENAMED_GROUPS, current_word, note_once, option_meant, setting_meant
from juzhen.core.errors import UserError, command, nearest, setting, without_loading
from juzhen.core.paths import CONFIGURATION, is_table, newest
from juzhen.core.safe_open import read_text
from juzhen.core.schema import ConfigError, sibling_keys
from juzhen.models import targets
from launch.hydra_internals import flag_parser, known_flags, root_of

FULL_WIDTH = str.maketrans("，＝［］：“”‘’（）～＋｛｝　−–", ",=[]:\"\"''()~+{} --")
"""Full-width signs that a Chinese input method writes → the sign that was meant."""

NUMBER = re.compile(
    r"[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?|[+-]?inf|[+-]?nan|true|false", re.I
)
"""What Hydra reads as a number, or as true or false."""

ELEMENT = re.compile(r"(?:^|(?<=[\[,]))([^\[\],]+)(?=[\],]|$)")
"""A value, or one of those of a sweep or a list."""

GROUP_PLACES = {"adapter": "backbone.adapter", "mining": "callbacks.mining", "weights": "callbacks.weights"}
"""Group → where its choice stands, of those that stand elsewhere than their name says."""

OF_A_SET = re.compile(r"(schedule\.sets\.\w+\.(?:weight|batch_size|loss_weight|loss))=(.+)")

UNWRITTEN = "_not_written"
"""End of the option of a set that is described to Hydra in memory, as long as its file is not written."""


def with_set_words(words: Sequence[str]) -> list[str]:
    """Rewrite plain keys of sets, such as `schedule.sets.csts.loss`, into overrides that Hydra accepts.

    Args:
        words: Overrides of a command line. Others are returned unchanged.

    Returns:
        The overrides in order.

    >>> with_set_words(["schedule.sets.csts.weight=2", "schedule.sets.csts.loss=cosine", "seed=1"])
    ['++schedule.sets.csts.weight=2', '+loss@schedule.sets.csts.loss=cosine', 'seed=1']
    """
    plain = [(word, OF_A_SET.fullmatch(word)) for word in words]
    return [
        word if key is None else f"{'+loss@' if key[1].endswith('.loss') else '++'}{word}"
        for word, key in plain
    ]


def with_current_names(words: Sequence[str]) -> list[str]:
    """Replace keys and groups of 0.2 by their current names, with a notice for each.

    Args:
        words: Overrides of a command line.

    Returns:
        The overrides in order.

    >>> with_current_names(["benchmark=none", "+seed=1"])
    ['benchmark=none', '+seed=1']
    """
    chosen = [word.partition("=")[2] for word in words if re.match(r"\+?loss(@[^=]*)?=", word)]
    losses = {name for value in chosen for name in value.split(",")}
    # An option of a user's loss may have a name that ours had.
    is_own = losses and not any((CONFIGURATION / "loss" / f"{name}.yaml").is_file() for name in losses)
    return [word if is_own and word.startswith("loss.") else _by_current_name(word) for word in words]


def _by_current_name(word: str) -> str:
    current = current_word(word)
    if current != word:
        note_once(*(re.match(r"[+~]*([^=@]*)", each)[1] for each in (word, current)))
    return current


def with_folders(words: Sequence[str], *, multirun: bool) -> list[str]:
    """Return overrides in which keys of a job replace Hydra's keys of its folder.

    Args:
        words: Overrides of a command line.
        multirun: The command line is a sweep. Its folder is `output_dir`, that of a run is `run_dir`.

    Raises:
        UserError: A folder is given twice, or a name for the folder of a cell. A sweep knows its cells by it.

    >>> with_folders(["hydra.sweep.dir=runs/losses", "seed=1,2"], multirun=True)
    ['output_dir=runs/losses', 'seed=1,2']
    """
    theirs, ours = ("hydra.sweep.dir=", "output_dir=") if multirun else ("hydra.run.dir=", "run_dir=")
    for word in words:
        if multirun and word.startswith("hydra.sweep.subdir="):
            raise UserError(
                f"{word}: the folder of each run is named by its job. Type name=… for how it begins"
            )
        if word.startswith(theirs) and (twice := [each for each in words if each.startswith(ours)]):
            raise UserError(f"{word}: {twice[0]} means the same. Type one of the two")
    return [ours + word.removeprefix(theirs) if word.startswith(theirs) else word for word in words]


def with_backbone(words: Sequence[str], *, trees: Sequence[Path] = (CONFIGURATION,)) -> list[str]:
    """Replace `backbone=<folder or hub id>` by backbone=local with its path, as Hydra needs it.

    Args:
        words: Overrides of a command line.
        trees: Configuration trees, whose folders `backbone` hold the options.

    Returns:
        The overrides for Hydra.

    Raises:
        UserError: A sweep with both options and paths.

    >>> with_backbone(["backbone=BAAI/bge-small-zh-v1.5", "seed=1"])
    ['backbone=local', 'backbone.path=BAAI/bge-small-zh-v1.5', 'seed=1']
    """
    return [part for word in words for part in _backbone_words(_with_revision(word), trees)]


ENCODER_KEYS = ("backbone.path", "model.teacher", "init_from")
"""Keys that may name a built-in encoder, whose newest revision is what its plain name means when it is typed."""


def _with_revision(word: str) -> str:
    key, _, value = word.partition("=")
    return f"{key}={newest(value)}" if key in ENCODER_KEYS else word


def _backbone_words(word: str, trees: Sequence[Path]) -> list[str]:
    key, _, typed = word.partition("=")
    if key != "backbone" or not typed or set("()[]{}$") & set(typed):
        return [word]
    quoted = re.fullmatch(r"(['\"])(.*)\1", typed)
    values = [quoted[2]] if quoted else typed.split(",")
    are_paths = [
        ("/" in value or value.startswith("~") or Path(value).is_dir())
        and not any((tree / "backbone" / f"{value}.yaml").is_file() for tree in trees)
        for value in values
    ]
    if not any(are_paths):
        return [word]
    if not all(are_paths):
        raise UserError(
            f"{word}: some are options and some are encoders by their path or hub id. Make each a row, as in "
            f"+hydra.sweeper.rows.other='backbone={values[are_paths.index(True)]}'"
        )
    paths = [setting("backbone.path", newest(value)).partition("=")[2] for value in values]
    return ["backbone=local", f"backbone.path={','.join(paths)}"]


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse Hydra's flags and the words between them.

    Args:
        arguments: Arguments of the program, after `as_typed`.

    Returns:
        The flags. The words are its `overrides`.

    Raises:
        UserError: An unknown flag, or flags that exclude each other.
    """
    parser = flag_parser()

    def refuse(message: str) -> None:
        word, *_ = (message.partition("unrecognized arguments: ")[2] or "-").split()
        if word != "-":
            name, _, value = word.lstrip("-").partition("=")
            hint = nearest(word.partition("=")[0], known_flags(parser))
            meant = setting_meant(name, value or None)
            if meant or hint.startswith("Known"):
                example = meant or f"{name}={value or '<value>'}"
                hint = f"Values are given without dashes: {example}. Flags: --help, --cfg job, -m"
            message = f"{word}: unknown flag. {hint}"
        raise UserError(message)

    parser.error = refuse
    flags = parser.parse_intermixed_args(list(arguments))
    if "hydra.mode=MULTIRUN" in flags.overrides:
        flags.multirun = True
        flags.overrides.remove("hydra.mode=MULTIRUN")
    modes = [name for name in ("multirun", "cfg", "info", "run", "shell_completion") if getattr(flags, name)]
    if len(modes) > 1:
        raise UserError(f"--{modes[0]} and --{modes[1]} exclude each other. Keep one")
    if flags.resolve and not (flags.cfg or flags.help):
        raise UserError("--resolve belongs to --cfg: train.py --cfg job --resolve")
    if flags.package and not flags.cfg:
        raise UserError("--package belongs to --cfg: train.py --cfg job --package loss")
    if flags.experimental_rerun:
        raise UserError(
            "--experimental-rerun runs what a file of Hydra names. The command of a run is in its result.json, and "
            "type that again"
        )
    return flags


class Groups:
    """The groups of a configuration tree and their options.

    Args:
        loader: Loader of an open Hydra.
    """

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self.names = [name for name in loader.list_groups("") if name != "hydra"]
        self._parser = OverridesParser.create(config_loader=loader)
        self._options: dict[str, list[str]] = {}

    def options(self, group: str) -> list[str]:
        """Return the names of the options of a group. Hydra reads the folders once.

        Args:
            group: Group, such as loss or hydra/launcher. An unknown one has no options.
        """
        if group not in self._options:  # Hydra reads the folders anew each time
            self._options[group] = self.loader.get_group_options(group, ObjectType.CONFIG)
        return self._options[group]

    def is_group(self, name: str) -> bool:
        """Return True if a name is a group with options.

        Args:
            name: Key of an override.

        Returns:
            False for a key, and for an unknown name.
        """
        return name in self.names or bool("." not in name and self.options(name))

    def parse(self, word: str) -> Override:
        """Parse one override.

        Args:
            word: A word of the command line.

        Returns:
            The override as Hydra reads it.

        Raises:
            UserError: It cannot be read, or has no key.
        """
        try:
            (override,) = self._parser.parse_overrides([word])
        except HydraException as error:
            raise UserError(self._explain_syntax(word, _first_line(error.__cause__ or error))) from error
        if not override.key_or_group:
            raise UserError(f"{word}: expected key=value")
        return override

    def alternatives(self, word: str, *, is_grid: bool = False) -> list[str]:
        """Return the words that a sweep makes of one: `seed=1,2` gives `seed=1` and `seed=2`.

        Args:
            word: An override. An interval gives its ends.
            is_grid: The sweep runs every value, so an interval is refused.

        Returns:
            One word for each value. The word itself if it has one value.

        Raises:
            UserError: An interval in a grid, or a pattern of options that matches none.
        """
        override = self.parse(word)
        if not override.is_sweep_override():
            return [word]
        if is_grid and override.is_interval_sweep():
            raise UserError(
                f"{word}: a grid has no interval. Name its values, or search with hydra/sweeper=optuna"
            )
        ends = override.value() if override.is_interval_sweep() else None
        values = override.sweep_string_iterator() if ends is None else (ends.start, ends.end)
        choices = [f"{override.get_key_element()}={value}" for value in values]
        if not choices:
            options = ", ".join(self.options(override.key_or_group))
            raise UserError(f"{word}: nothing is chosen. Options: {options}")
        return choices

    def keys_set(self, word: str) -> list[str]:
        """Return the dotted keys that a word sets. [] for a word that only takes something away, or of Hydra.

        Args:
            word: An override.

        Returns:
            Keys such as `loss.temperature`.

        Raises:
            UserError: A word with wrong syntax.
        """
        override = self.parse(word)
        if override.is_delete() or override.is_hydra_override() or override.value() == []:
            return []
        group = GROUP_PLACES.get(override.key_or_group, override.key_or_group.replace("/", "."))
        key, value = override.package or group, override.value()
        return [f"{key}.{name}" for name, _ in leaves(value)] if isinstance(value, dict) else [key]

    def refuse_group_twice(self, overrides: Sequence[str]) -> None:
        """Check that no group is chosen twice. Hydra would silently drop the first choice.

        Args:
            overrides: Words of a command line.

        Raises:
            UserError: Two choices of a group, or a list for a group of `ONE_OF`.
        """
        first: dict[str, str] = {}
        for word in overrides:
            override = self.parse(word)
            key = override.get_key_element().lstrip("+")
            if override.is_delete() or not self.is_group(override.key_or_group):
                continue
            if first.setdefault(key, word) != word:
                raise UserError(f"{first[key]} {word}: {key} is chosen twice. Keep one of them")
            value = override.value()
            if isinstance(value, dict):
                raise UserError(
                    f"{word}: expected the name of an option, or a list of names. See conf/{key}/"
                )
            if key in ONE_OF and isinstance(value, list) and len(value) > 1:
                each = command("train.py", "-m", f"{key}={','.join(map(str, value))}")
                raise UserError(f"{word}: a job has one {key}. For one run each type {each}")

    def _explain_syntax(self, word: str, reason: str) -> str:
        """Explain the syntax error of an override, and how to write it."""
        key, equals, value = word.partition("=")
        word = word or "''"
        if equals and (key != key.strip() or value != value.strip()):
            return f"{word}: no spaces around =. Write '{key.strip()}={value.strip()}'"
        if word.translate(FULL_WIDTH) != word and '"' not in word:
            return f"{word}: there is a full-width sign or another dash in it. Type '{word.translate(FULL_WIDTH)}'"
        if any(word.count(opening) != word.count(right) for opening, right in ("[]", "{}", "()")):
            return f"{word}: a bracket is missing. Quote the whole argument: 'dataset=[csts, afqmc]'"
        if not equals:
            owners = [f"{group}={word}" for group in self.names if word in self.options(group)]
            owners += [setting("dataset", word)] * is_table(word)
            example = ", such as loss=cosent. Quote a value with a space: 'training.duration=3 epochs'"
            hint = f". Did you mean {' or '.join(owners[:3])}?" if owners else example
            return f"{word}: expected key=value{hint}"
        if not key.isascii():
            return (
                f"{word}: unknown key. Keys are in English, as in optimizer.lr=1e-3: python train.py --help"
            )
        if value.endswith(","):
            return f"{word}: a value is missing after the comma. Type {word[:-1]}, or '{key}=[{value}…]'"
        texts = [each.strip(" '\"") for each in value.strip("[]").split(",") if each.strip()]
        meant = command(setting(key, texts if value.startswith("[") else value.strip("'\"")))
        why = "" if "Exception" in reason else f" ({reason.partition(' expecting ')[0]})"
        return f"{word}: cannot be read{why}. Write {meant}"


def several_values(word: str) -> str:
    """Return an explanation of a comma in a word: its possible meanings, and how to type each.

    Args:
        word: An override with several values.
    """
    key, _, value = word.partition("=")
    message = (
        f"{word}: several values. For one run each, type {command('train.py', '-m', word)}. For one run with all of "
        f"them, type {command(f'{key}=[{value}]')}"
    )
    if all(part.replace(".", "").isdigit() for part in value.split(",")):
        return message
    return f"{message}. For one text with a comma, type {command(setting(key, value))}"


def as_typed(arguments: Sequence[str]) -> list[str]:
    """Quote values that look like numbers but belong to keys with text.

    Args:
        arguments: Arguments of the program.

    Returns:
        The arguments in order.

    >>> as_typed(["name=1234e56", "seed=1", "run_dir=7e3,out"])
    ['name="1234e56"', 'seed=1', 'run_dir="7e3",out']
    """
    return [_quoted(word) for word in arguments]


def _quoted(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals or set("'\"(){}") & set(value) or not NUMBER.search(value) or not _is_text(key.lstrip("+")):
        return word
    quoted = ELEMENT.sub(lambda match: f'"{match[1]}"' if NUMBER.fullmatch(match[1]) else match[1], value)
    return f"{key}={quoted}"


def _is_text(key: str) -> bool:
    """True if the value of a dotted key is text, or a list of texts."""
    kind: Any = JobConfig
    parts = key.split(".")
    for part in parts:
        kind = (
            next((part_type for part_type in get_args(kind) if part_type is not NoneType), kind)
            if get_origin(kind) in (Union, UnionType)
            else kind
        )
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
        elif isinstance(kind, type) and get_origin(kind) is None:
            kind = get_type_hints(kind).get(part)
        if kind is Any or kind is None:
            return kind is Any and parts[-1] in _texts_of_classes(parts[0])
    return set(_types_in(kind)) <= {str, NoneType}


@cache
def _texts_of_classes(first: str) -> frozenset[str]:
    """Settings with text in every model, callback or loss that has them. `first` is the first part of a key."""
    folders = ("callbacks", "mining", "weights") if first == "callbacks" else ("loss",)
    files = [path for folder in folders for path in (CONFIGURATION / folder).rglob("*.yaml")]
    named = {match[1] for path in files for match in re.finditer(r"_target_: ([\w.]+)", read_text(path))}
    texts: dict[str, bool] = {}
    for target in targets() if first == "model" else sorted(named):
        for name, field in keys_of(target).model_fields.items():
            is_text = str in _types_in(field.annotation) and not {int, float, bool} & {
                *_types_in(field.annotation)
            }
            texts[name] = texts.get(name, True) and is_text
    return frozenset(name for name, is_text in texts.items() if is_text)


def _types_in(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, UnionType, list):
        for inner in get_args(kind):
            yield from _types_in(inner)
    else:
        yield kind


def leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the leaves of a mapping. A list is one leaf.

    Args:
        node: Mappings in mappings.
        prefix: Text before each path.

    Yields:
        Dotted path and value.
    """
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


ONE_OF = ("model", "backbone", "loss", "schedule", "hardware")
"""Groups of which Hydra would merge several choices into one that nobody has written."""

MOST_OPTIONS = 12
"""More options than these are not listed where one is mistyped."""


def option_hint(group: str, option: str, options: Iterable[str]) -> str:
    """Return an explanation of an unknown option: its name here or the nearest option, then all options.

    Args:
        group: Group of the option.
        option: The unknown option, as typed.
        options: Known options of the group.
    """
    options = sorted(options)
    if group == "dataset" and option == "null":
        hint = f"For a job without training sets type {command(setting('dataset', []))}"
    elif group in ("model", "loss") and "/" in option:
        hint = f"Choose an encoder by {command(setting('backbone', option))}"
    elif group == "dataset" and Path(option).is_dir():
        return (
            f"dataset={option}: a folder. Give one table in it by data=<file>, or their folder by data_dir="
        )
    elif group == "dataset" and is_table(option):
        hint = f"Type {command(setting('data', option))} for a file, or write its configuration by juzhen dataset"
    elif group == "hydra/launcher" and option.startswith(("joblib", "submitit")):
        hint = "It comes with an extra: pip install -e '.[launchers]'"
    elif meant := option_meant(group, option, options):
        hint = f"Type {meant}"
    elif len(options) > MOST_OPTIONS:
        close = difflib.get_close_matches(option.lower(), options, n=3, cutoff=0.5)
        close.sort(key=lambda name: sorted(name) != sorted(option.lower()))  # the likeliest slip
        meant = " or ".join(filter(None, [", ".join(close[:-1]), *close[-1:]]))
        hint = f"Did you mean {meant}? " * bool(close) + f"All {len(options)}: python train.py --help"
    else:
        hint = nearest(option.lower(), options)
        hint += "" if hint.startswith("Known") else f" Options of {group}: {', '.join(options)}"
    return f"{group}={option}: unknown {'set' if group == 'dataset' else 'option'}. {hint}"


class UnknownKeyError(ConfigError):
    """A key that a composition does not have."""


COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, YAMLError, ValueError)
"""What Hydra raises where it cannot compose."""


def explain_composition(error: Exception, groups: Groups, words: Sequence[str]) -> ConfigError:
    """Return the mistake behind an exception of Hydra's composition.

    Args:
        error: One of COMPOSITION_ERRORS.
        groups: Groups of the configuration tree, for hints.
        words: Overrides that were composed, for hints.
    """
    if isinstance(error, MissingConfigException):
        missing = error.missing_cfg_file or ""
        group, _, option = missing.rpartition("/")
        if not groups.options(group):  # the option has a / in it
            group, _, option = missing.partition("/")
        if group in groups.names or "/" in missing:
            return ConfigError(option_hint(group, option, groups.options(group)), option)
        return ConfigError(f"configuration file {option}.yaml not found. That of the job is train")
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark
        position = f"{mark.name}, line {mark.line + 1}" if mark else "a configuration file"
        return ConfigError(f"{position}: this is not valid YAML: {error.problem}")
    cause = error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(cause, groups.names, words)
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return ConfigError(f"{cause.full_key}: {_first_line(cause)}")
    for old, new in RENAMED_GROUPS.items():
        if re.search(rf"'{old}'|/{old}\b", str(error)):
            return ConfigError(f"{old}: this group is called {new} since 0.3. Write {new} in its place")
    if twice := re.search(r"Multiple values for (\S+?)\.", str(error)):
        return ConfigError(f"{twice[1]} is chosen twice. Write {twice[1]}=… once and without a +", twice[1])
    messages = [line.strip() for line in str(error).splitlines()]
    named = re.search(r"'([\w.]+)'", messages[0] if messages else "")
    return ConfigError(" ".join(filter(None, messages)), named[1] if named else "")


def _unknown_key(
    error: OmegaConfBaseException, groups: Iterable[str], words: Sequence[str]
) -> UnknownKeyError:
    """Return the error for an unknown key, with other places of its last part, or the nearest key."""
    path, word, parent = str(error.full_key), str(error.key), error.parent_node
    owner, root = path.rpartition(".")[0], root_of(error.parent_node)
    siblings = list(sibling_keys(JobConfig, path.split(".")))
    plain = {} if root is None else OmegaConf.to_container(root, resolve=False)
    groups_of_job = {key: node for key, node in plain.items() if key not in ("hydra", "dataset", "evaluate")}
    typed = dict(each.lstrip("+~").partition("=")[::2] for each in words)
    whole = next(
        (key for key in typed if key.startswith(f"{path}.")), path
    )  # of trainer.max_epochs, trainer is missed
    keys = {*map(str, parent), *([] if owner else groups)} - {"_target_", "hydra"}
    places = {key: key.rpartition(".")[2] for key, _ in leaves(groups_of_job)}
    last = whole.rpartition(".")[2].lower()
    close = [last] if owner else difflib.get_close_matches(last, [*keys, *places.values()], n=1, cutoff=0.75)
    elsewhere = [key for key, name in places.items() if name in close]
    if path in groups:  # its keys are elsewhere, and there only where an option is chosen
        last = f".{word}.{whole.rpartition('.')[2]}"
        meant = next((key for key, _ in leaves(groups_of_job) if key.endswith(last)), None)
        hint = (
            f"unknown key. Type {meant}"
            if meant
            else f"no option of this group is chosen. Add {word}=<option>"
        )
    elif word in siblings and owner:
        hint = f"this key is not set yet. Add it with a +: '+{path}=…'"
    elif path.count(".") == 1 and owner in ("dataset", "evaluate"):
        chosen = command(setting("dataset", [word]))
        hint = f"this job has no such set. Choose it, {chosen}, or a benchmark with it, benchmark=…"
    elif meant := setting_meant(whole, typed.get(whole)):
        hint = f"unknown key. Type {meant}"
    elif elsewhere:
        hint = f"unknown key. Did you mean {' or '.join(elsewhere)}?"
    else:
        hint = f"unknown key. {nearest(word.lower(), keys, prefix=owner and f'{owner}.')}"
    return UnknownKeyError(f"{path}: {hint}", whole if path in groups else path)


def broken_reference(error: OmegaConfBaseException) -> ConfigError:
    """Return the error for an interpolation `${…}` that leads nowhere.

    Args:
        error: Error of OmegaConf, with its key.
    """
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", _first_line(error))
    return ConfigError(f"{error.full_key}: cannot fill in ${{…}}: {reason}")


def place_of(key: str, message: str, overrides: Sequence[str], trees: Sequence[Path]) -> str:
    """Find where a key is written, for the end of a message.

    Args:
        key: Dotted key of the mistake. "": unknown.
        message: The message. It may name the place already.
        overrides: Words of the command line.
        trees: Configuration trees, the own one last.

    Returns:
        ` (given as +trainer.epoch=3)` or ` (conf/experiment/x.yaml, line 3)`. "" if the message has it.
    """
    if not key:
        return ""
    for line in overrides:
        name = line.lstrip("+~").partition("=")[0]
        if name == key or name.startswith((f"{key}.", f"{key}@")):
            return "" if f"{name}=" in message else f" (given as {line})"
    is_set, word = key.startswith(("dataset.", "evaluate.")), key.rpartition(".")[2].partition("[")[0]
    for tree, file in _chosen_files(trees, overrides):
        if is_set and (file.parent.name != "dataset" or file.stem != key.split(".")[1]):
            continue
        shown = file.relative_to(tree.parent) if tree == trees[-1] else file
        for number, text in enumerate(read_text(file).splitlines(), start=1):
            if re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text.partition("#")[0]):
                return f" ({shown}, line {number})"
        if is_set:
            return f" ({shown})"
    return ""


def _chosen_files(trees: Sequence[Path], overrides: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Tree and file of each option that the overrides choose, in order."""
    for line in overrides:
        group, _, value = line.lstrip("+").partition("=")
        for option in value.strip("[]").split(","):
            files = ((tree, tree / group.partition("@")[0] / f"{option.strip()}.yaml") for tree in trees)
            yield from [found for found in files if found[1].is_file()][:1]


PARAMETER = re.compile(r"(?<![\w.\"'{-])[a-z][a-z_]*(?==)")
NOT_OF_THE_JOB = ("hydra", "dataset", "evaluate")
"""Groups whose keys are those of sets, or of Hydra: a parameter's name says nothing about which."""


GO_ON = "Choose another backbone, or go on with its run by init_from=<run>"


@contextmanager
def naming_keys(job: DictConfig) -> Iterator[None]:
    """Name the keys of a job in messages of the library that are raised in the block.

    Args:
        job: Composition of the job.
    """
    try:
        yield
    except UserError as error:
        plain: Any = OmegaConf.to_container(job, resolve=False)
        groups = {key: value for key, value in plain.items() if key not in NOT_OF_THE_JOB}
        message = str(error).replace(
            "Choose accelerator=cpu", "Choose hardware=cpu"
        )  # not a GPU's other settings
        error.args = (with_keys(without_loading(message, GO_ON), groups),)
        raise


def with_keys(message: str, job: Mapping[str, Any]) -> str:
    """Return a message with dotted keys for its parameters, where one group of the job, and not the top, has them.

    Args:
        message: Message of the library, with `parameter=value`.
        job: Group → its keys, and top keys.

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
