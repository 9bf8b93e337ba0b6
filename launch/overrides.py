"""Arguments of the command line: flags, `key=value` overrides, and the choices that a sweep makes of them."""

import argparse
import unicodedata
from collections.abc import Sequence
from dataclasses import fields

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from conf.job import JobConfig
from juzhen.core.commands import command, setting
from juzhen.core.errors import UserError, nearest
from juzhen.core.texts import short
from launch.explain import option_hint
from launch.hydra_internals import flag_parser, known_flags

SHELLS = ("bash", "zsh", "fish")
"""Shells whose tab key Hydra can teach the options of a program."""

COMPLETION = 'eval "$(python train.py -sc install=bash)"'

FULL_WIDTH = dict(zip("，＝［］：“”‘’（）～＋｛｝　", ",=[]:\"\"''()~+{} ", strict=True))
"""Full-width signs that a Chinese input method writes → the sign that was meant."""


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Hydra's flags and the overrides between them. Raises UserError for an unknown flag."""
    parser = flag_parser()
    known = known_flags(parser)

    def refuse(message: str) -> None:
        _, found, rest = message.partition("unrecognized arguments: ")
        if not found:
            raise UserError(message)
        word = rest.split()[0]
        if not word.startswith("-"):
            raise UserError(f"{word}: overrides may not stand on both sides of a flag; put all flags first")
        name, _, value = word.lstrip("-").partition("=")
        hint = nearest(word.partition("=")[0], known)
        if hint.startswith("known"):
            value = value or "<value>"
            hint = f"values are given without dashes: {name}={value}. Flags: --help, --cfg job, -m"
        raise UserError(f"{word}: there is no such flag; {hint}")

    parser.error = refuse
    flags = parser.parse_args(list(arguments))
    modes = [name for name in ("multirun", "cfg", "info", "run", "shell_completion") if getattr(flags, name)]
    if len(modes) > 1:
        raise UserError(f"--{modes[0]} and --{modes[1]} exclude each other; keep one")
    if flags.resolve and not (flags.cfg or flags.help):
        raise UserError("--resolve belongs to --cfg: train.py --cfg job --resolve")
    words = flags.overrides
    spoken = [f"{what}={shell}" for what in ("install", "uninstall", "query") for shell in SHELLS]
    if flags.shell_completion and (len(words) != 1 or words[0] not in spoken):
        given = f"--shell-completion {short(' '.join(words))}".rstrip()
        raise UserError(
            f"{given}: expected one of install=<shell> and uninstall=<shell>, and as shell {', '.join(SHELLS)}; in "
            f"bash and zsh type {COMPLETION}"
        )
    return flags


class Groups:
    """The groups of a configuration tree and their options."""

    def __init__(self, loader: ConfigLoader) -> None:
        self.loader = loader
        self.names = [name for name in loader.list_groups("") if name != "hydra"]
        self._parser = OverridesParser.create(config_loader=loader)
        self._options: dict[str, list[str]] = {}

    def options(self, group: str) -> list[str]:
        if group not in self._options:  # Hydra reads the folders anew each time
            self._options[group] = self.loader.get_group_options(group, ObjectType.CONFIG)
        return self._options[group]

    def is_group(self, name: str) -> bool:
        return name in self.names or bool("." not in name and self.options(name))

    def has(self, group: str, option: str) -> bool:
        folder, _, name = f"{group}/{option}".rpartition("/")
        return name in self.options(folder)

    def parse(self, argument: str) -> Override:
        """One override. Raises UserError when it cannot be read."""
        try:
            (override,) = self._parser.parse_overrides([argument])
        except HydraException as error:
            raise UserError(self._explain_syntax(argument, error)) from error
        if not override.key_or_group:
            raise UserError(f"{argument}: expected key=value")
        return override

    def alternatives(self, override: Override) -> list[str]:
        """The overrides that a sweep makes of one: `seed=1,2` gives `seed=1` and `seed=2`."""
        if not override.is_sweep_override():
            return [override.input_line]
        ends = override.value() if override.is_interval_sweep() else None
        values = override.sweep_string_iterator() if ends is None else (ends.start, ends.end)
        lines = [f"{override.get_key_element()}={value}" for value in values]
        if not lines:
            options = ", ".join(self.options(override.key_or_group))
            raise UserError(f"{override.input_line}: nothing is chosen; options: {options}")
        return lines

    def check_choice(self, override: Override) -> None:
        """Raises UserError when an override chooses an option that its group does not have, or one twice."""
        group, value = override.key_or_group, override.value()
        if override.is_delete() or not self.is_group(group) or isinstance(value, dict):
            return
        if value is None:
            options = ", ".join(self.options(group))
            raise UserError(f"{override.input_line}: choose one of {options}, or leave {group} out")
        chosen = [str(one) for one in value] if isinstance(value, list) else [str(value)]
        for option in chosen:
            if not self.has(group, option):
                raise UserError(option_hint(group, option, self.options(group)))
        refuse_repeats(chosen, f"{group}=[{','.join(chosen)}]")

    def check_addition(self, override: Override) -> None:
        """Raises UserError when `+key=…` adds to something that no job has."""
        known = [*self.names, *(field.name for field in fields(JobConfig))]
        first = override.key_or_group.partition(".")[0].partition("/")[0]
        if first not in (*known, "hydra"):
            hint = nearest(first, known)
            raise UserError(f"{override.input_line}: there is no key or group '{first}'; {hint}")

    def _explain_syntax(self, argument: str, error: HydraException) -> str:
        """What is wrong with an argument that is no override, and how to write it."""
        key, equals, value = argument.partition("=")
        argument = argument or "''"
        if equals and (key != key.strip() or value != value.strip()):
            return f"{argument}: no spaces around =; write '{key.strip()}={value.strip()}'"
        foreign = [sign for sign in argument if sign in FULL_WIDTH]
        if foreign and '"' not in argument:
            meant = argument.translate(str.maketrans(FULL_WIDTH))
            sign, ours = foreign[0], FULL_WIDTH[foreign[0]]
            return f"{argument}: '{sign}' is a full-width sign; type '{ours}': '{meant}'"
        if not equals:
            owners = [f"{group}={argument}" for group in self.names if argument in self.options(group)]
            if argument.count("]") != argument.count("["):
                return f"{argument}: a bracket is missing; quote the whole argument: 'dataset=[csts, afqmc]'"
            if owners:
                return f"{argument}: expected key=value; did you mean {' or '.join(owners[:3])}?"
            return f"{argument}: expected key=value without spaces around =, for example loss=cosent"
        if number := _in_ascii(value):
            return f"{argument}: a number is written in ASCII digits; type {key}={number}"
        if not key.isascii():
            return f"{argument}: a key is plain ASCII; {nearest(key, self.names)}"
        pairs = ("[]", "{}", "()") if value[:1] in "[{(" else ()
        if any(value.count(left) != value.count(right) for left, right in pairs):
            return f"{argument}: a bracket is missing; quote the whole argument: 'dataset=[csts, afqmc]'"
        reason = str(error.__cause__ or error).strip().splitlines()[0].partition(" expecting ")[0]
        if not argument.isascii():
            reason = "what is not plain ASCII needs quotes inside quotes"
        word = setting(key, value.strip('"').strip("'"))
        return f"{argument}: cannot be read ({reason}); write {command(word)}"


def _in_ascii(value: str) -> str:
    """The number that a text spells in digits of another script; empty where it spells none."""
    try:
        float(value)
    except ValueError:
        return ""
    digits = (one if one.isascii() else str(unicodedata.digit(one)) for one in value)
    return "" if value.isascii() else "".join(digits)


def refuse_group_twice(overrides: Sequence[Override], groups: Groups) -> None:
    """Raises UserError when a group is chosen in two ways on a command line: Hydra would silently drop the first."""
    first: dict[str, str] = {}
    for one in overrides:
        key = one.get_key_element().lstrip("+")
        if one.is_delete() or not groups.is_group(one.key_or_group):
            continue
        if key in first and first[key] != one.input_line:
            raise UserError(f"{first[key]} {one.input_line}: {key} is chosen twice; keep one of them")
        first[key] = one.input_line or key


def refuse_repeats(chosen: Sequence[str], given: str) -> None:
    """Raises UserError when a list names an option twice: Hydra would silently drop the second."""
    repeated = sorted({one for one in chosen if list(chosen).count(one) > 1})
    if repeated:
        group = given.partition("=")[0].split()[-1]
        once = f"'{group}=[{','.join(dict.fromkeys(chosen))}]'"
        raise UserError(f"{given}: {', '.join(repeated)} is repeated; a job takes each once: {once}")
