"""The command line `juzhen VERB …`, or `python -m juzhen VERB …`."""

import os
import re
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import typer
from typer.main import get_command

from juzhen.cli.program import run_program, status_of
from juzhen.cli.verbs import VERBS, app, commands, current_name, flags, known_verbs
from juzhen.core.aliases import current_flags, flag_meant
from juzhen.core.errors import UserError, nearest, without_loading
from juzhen.core.errors import command as command_line
from juzhen.core.paths import is_table
from juzhen.core.text import short

PROGRAM = "juzhen"

PARAMETER = re.compile(
    r"(?<![\w.\"'{-])(?<!\+ )("
    r"[a-z]+(?:_[a-z]+)+|dev|test|name|minutes|sources|metric|mode|threshold|weights|density|scale|method|prompt"
    r"|device|filter|temperature|workers|overlap|maps|layers|dim|revision"
    r"|(?:^|(?<=Type ))"
    r"(?:dataset|benchmark|hardware|index|corpus|out|format|sets|sheet|split|grade|scaling|columns|vocabulary"
    r"|train|evaluate|data|text(?!=['\"])|run|before|colour|reference|picture|leaks|into))="
)
"""Parameters in library messages that are options of a verb: all with an underscore, and these words. `text='…'` is a
text.
"""

FIRST_WORD = re.compile(r"\A[a-z_]+(?=: | \()|(?<![\w./'\"{=-])[a-z]+(?:_[a-z]+)+(?![\w/=(:'\"])(?!\.\w)")
"""A parameter without a value: the first word of a library message, or a word with an underscore."""

ADVICE = re.compile(r",? or choose (?P<name>on_bad_row|data_dir)=[^.;]*")
"""Advice at the end of a sentence that only some entry points can follow."""


DASHES = ("—", "–", "－", "‐", "−")
"""What word processors put in the place of a hyphen."""

READS_PAIRS = ("--cross-encoder", "--rerank")
"""Options of verbs that take a cross-encoder."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: The verb and its arguments. None takes those of the program, and prepares its streams.

    Returns:
        Exit status: 0, 2 after a mistake of the user, 130 after Ctrl-C.
    """
    if arguments is None:
        return run_program(lambda: _answer(sys.argv[1:]), _spoken(sys.argv[1:]))
    return status_of(lambda: _answer(arguments), _spoken(arguments))


def _spoken(arguments: Sequence[str]) -> str:
    return f"{PROGRAM} {short(arguments[0])}" if arguments else PROGRAM


def _answer(arguments: Sequence[str]) -> int:
    arguments = [*map(current_name, arguments[:1]), *arguments[1:]]
    arguments = [*arguments[:1], *current_flags("".join(arguments[:1]), arguments[1:])]
    command: Any = get_command(app)
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:  # a shell asks what may come next
        command.main(list(arguments), prog_name=PROGRAM)
    for word in arguments[1:] if {*arguments[:1]} & VERBS.keys() else ():
        if word.startswith(DASHES) and (flag := f"--{word.lstrip('-'.join(DASHES))}") in flags(arguments[0]):
            raise UserError(f"{word}: begins with another dash. Type {flag}")
    try:
        with command.make_context(PROGRAM, list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as error:
        raise UserError(_explained(error, arguments)) from error
    except UserError as error:
        known = flags(arguments[0], " ".join(arguments[:2])) if arguments[0] in VERBS else ()
        error.args = (in_flags(_with_option(str(error), arguments), known),)
        raise
    return 0


def _with_option(message: str, arguments: Sequence[str]) -> str:
    """Put the option before a message that begins with its value, such as a path."""
    words = [part for word in arguments for part in word.split("=", 1 if word.startswith("--") else 0)]
    for option, value in pairwise(words):
        if option.startswith("--") and message.startswith(f"{value}: ") and words.count(value) == 1:
            return f"{option} {message}"
    return message


def in_flags(message: str, known: Collection[str]) -> str:
    """Write parameters in a library message as options of a verb, and drop advice that the verb cannot follow.

    Args:
        message: Message of the library, with `parameter=value`.
        known: Options of the verb, such as `--on-bad-row`.

    Returns:
        The message for the user of the verb.

    >>> in_flags("line 3: no text. Fix the file, or choose on_bad_row=drop to leave such rows out", ["--on-bad-row"])
    'line 3: no text. Fix the file, or choose --on-bad-row drop to leave such rows out'
    >>> in_flags("line 3: no text. Fix the file, or choose on_bad_row=drop to leave such rows out", [])
    'line 3: no text. Fix the file'
    """

    def flag(name: str) -> str:
        return f"--{name.replace('_', '-')}"

    takes = next((f"Give it as {option}" for option in READS_PAIRS if option in known), None)
    readers = {"CrossEncoder": takes} if takes else {}
    other = "Name another encoder. juzhen score and evaluate open this one"
    message = without_loading(message, other, readers)
    message = ADVICE.sub(lambda found: found[0] if flag(found["name"]) in known else "", message)
    sets = next((f"{option} " for option in ("--sets", "--dataset", "--data") if option in known), "")
    message = re.sub("^ids:", "--id:", message) if "--id" in known else message
    if "--dev" in known:
        message = message.replace("dev + test=", "--dev + --test=")
    message = re.sub("^set=", sets, re.sub(r"^push_to_hub\('(.*?)'\)", r"\1", message))
    if "--dataset" in known:
        message = re.sub(r"'dataset=\[(\w+),(\w+)\]'", r"--dataset \1 --dataset \2", message)
    message = FIRST_WORD.sub(lambda found: flag(found[0]) if flag(found[0]) in known else found[0], message)
    return PARAMETER.sub(lambda found: f"{flag(found[1])} " if flag(found[1]) in known else found[0], message)


def _usage(part: str, command: Any) -> str:
    words = [
        param.metavar or param.name.upper() for param in command.params if param.param_type_name == "argument"
    ]
    return f"Expected: {' '.join([PROGRAM, part, *words])}"


def _explained(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Describe a mistake in a command line, and where its help is."""
    name = arguments[0] if arguments and arguments[0] in VERBS else ""
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    part = " ".join(arguments[:2])
    parts: dict[str, Any] = commands(name) if name else {}
    usage = _usage(part, parts[part]) if part in parts else _usage(name, parts[name]) if name in parts else ""
    if hasattr(error, "possibilities"):  # an option that is not there
        flag = str(getattr(error, "option_name", ""))
        known = [*flags(name, part), "--help"] if name else ["--help", "--version"]
        close = get_close_matches(flag.strip("-"), [each.strip("-") for each in known])
        hint = nearest(flag, [f"--{each}" for each in close]) if close else usage
        if meant := flag_meant(flag, known):
            hint = f"Type {meant}"
        elif owners := [
            each for verb in known_verbs() if name for each in commands(verb) if flag in flags(verb, each)
        ]:
            hint = f"It is an option of {', '.join(owners)}. {usage}".strip(". ")
        elif not flag.startswith("--"):
            long = [each for each in known if each[2:3] == flag[1:2]]
            hint = f"Type {', or '.join([*long, 'a text that begins with a dash after --'])}"
        message = f"{flag}: unknown option. {hint}".strip(". ")
    elif parts and not usage and len(arguments) > 1:
        message = f"{part}: unknown command. {nearest(arguments[1], [each.split()[-1] for each in parts])}"
    elif usage.count(" ") > 3 and message.startswith("Missing argument"):
        lists = [
            flag
            for param in parts[part if part in parts else name].params
            for flag in param.opts
            if flag in arguments and (param.metavar or "").endswith("…")
        ]
        hint = f"{lists[0]} takes all words behind it. " if lists else ""
        message += f". {hint}{usage}"
    elif message.startswith("Got unexpected"):
        takes = [flag for flag in ("--data", "--file", "--train") if flag in flags(name, part)]
        is_named = "--train" in takes  # a set, or a table
        given = (word for word in arguments[1:] if word in message and (is_named or is_table(word)))
        split = (pair for pair in map(" ".join, pairwise(arguments)) if os.path.exists(pair))
        hint = next((f"Type {flag} {table}" for flag, table in zip(takes, given, strict=False)), usage)
        message += f". {next((f'Quote the name: {command_line(name)}' for name in split), hint)}"
    for word in arguments:
        key, is_setting, value = word.partition("=")
        flag = f"--{key.replace('_', '-')}"
        if is_setting and word in message and name and flag in flags(name):
            message = f"{word}: not an option. Type {flag} {value}"
    end = "" if message.endswith("?") else "."
    return f"{message}{end} See {' '.join(filter(None, (PROGRAM, name)))} --help"
