"""A parser of command lines that answers a slip with the nearest word that exists."""

import argparse
import errno
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from juzhen.cli.about import version_line
from juzhen.core.errors import nearest
from juzhen.core.numerals import finite_number, whole_number
from juzhen.core.texts import in_a_line, short

HELP = "see {prog} --help"
SEED = 42
BATCH_TOKENS = 16384


class Parser(argparse.ArgumentParser):
    """argparse's, for programs and their sub-commands; an error is one line and exit status 2."""

    def __init__(self, *arguments: Any, has_version: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", Path, _path)
        if has_version:
            self.add_argument("--version", action=_Version, nargs=0, help="of juzhen, torch and Python")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {in_a_line(self._explained(message))}\n")

    def _explained(self, message: str) -> str:
        help_line = HELP.format(prog=self.prog)
        if found := re.fullmatch(r"argument (.+?): invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            name, given, listed = found.groups()
            known = [one.strip(" '\"") for one in listed.split(",")]
            place, noun = (f"{name} {given}", "choice") if name.startswith("-") else (given, name)
            return f"{place}: there is no such {noun}; {nearest_of(given, known)}; {help_line}"
        if found := re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL):
            word = (found[1].split() or ["''"])[0]  # an empty text is a word too
            key, is_setting, value = word.partition("=")
            if is_setting and (flag := f"--{key.replace('_', '-')}") in self.flags():
                return f"{word}: a verb has options; type {flag} {value}; {help_line}"
            if not word.startswith("-"):
                return f"{word}: one argument too many; {help_line}"
            if owners := self._owners(word.partition("=")[0]):
                return f"{word}: an option of {', '.join(owners)} alone; {help_line}"
            hint = nearest(word.partition("=")[0], self.flags())
            if not hint.startswith("did you mean"):
                hint = "a text that begins with a dash goes after --"
            return f"{word}: there is no such option; {hint}; {help_line}"
        if found := re.fullmatch(r"the following arguments are required: (.*)", message):
            return f"missing: {found[1]}; {help_line}"
        return f"{message.removeprefix('argument ')}; {help_line}"

    def flags(self) -> list[str]:
        """Every option of the program and its sub-commands."""
        own = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        return own + [flag for child in self._commands().values() for flag in child.flags()]

    def _commands(self) -> dict[str, "Parser"]:
        groups = [one for one in self._actions if isinstance(one, argparse._SubParsersAction)]
        return {name: child for group in groups for name, child in group.choices.items()}

    def _owners(self, flag: str) -> list[str]:
        """The sub-commands that have an option which another one was given."""
        return [name for name, child in self._commands().items() if flag in child.flags()]


class VerbParser(Parser):
    """The command line of one verb of `juzhen`. Options that are not given are not in what it reads: their default
    stands in the signature of the function that the verb calls.
    """

    def __init__(self, name: str, description: str, **options: Any) -> None:
        options |= {"description": description, "argument_default": argparse.SUPPRESS}
        super().__init__(f"juzhen {name}", has_version=False, **options)
        self.owners: Callable[[str], list[str]] = lambda flag: []
        """Other verbs that have an option, for who has given it to this one."""

    def _owners(self, flag: str) -> list[str]:
        return self.owners(flag)

    def add_count(self, flag: str, about: str, *, least: int = 1, expected: str, **how: Any) -> None:
        """An option that is a whole number of `least` or more; `expected`: what is meant, for the message."""
        number = whole_number(flag, least=least, expected=expected)
        self.add_argument(flag, type=number, help=about, **how)

    def add_number(self, flag: str, about: str, *, example: float, **how: Any) -> None:
        """An option that is a finite number; `example`: one, for the message."""
        self.add_argument(flag, type=finite_number(flag, example=example), help=about, **how)

    def add_seed(self, *, of: str) -> None:
        """The option --seed; `of`: what is drawn with it."""
        self.add_count("--seed", f"for {of} (default: {SEED})", least=0, expected="a whole number, 0 or more")

    def add_batch_tokens(self, default: str = str(BATCH_TOKENS)) -> None:
        """The option --batch-tokens: how many tokens an encoder sees at a time."""
        about, expected = f"tokens at a time (default: {default})", "a number of tokens, such as 16384"
        self.add_count("--batch-tokens", about, expected=expected, metavar="N")

    def add_data_dir(self) -> None:
        self.add_argument("--data-dir", type=Path, help="default: $JUZHEN_DATA, or data")

    def add_on_bad_row(self) -> None:
        about = "what faulty rows do: end the work (default), or are left out"
        self.add_argument("--on-bad-row", choices=("error", "drop"), help=about)

    def add_config_dir(self) -> None:
        self.add_argument(
            "--config-dir",
            type=Path,
            metavar="FOLDER",
            help="a further folder of dataset/ files, such as mine writes",
        )


def data_folder(given: Path | None) -> Path:
    return given or Path(os.environ.get("JUZHEN_DATA", "data"))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(version_line())
        parser.exit()


def _path(text: str) -> Path:
    """A file or a folder, there or not. An empty text would silently stand for where one is."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a file or a folder, not an empty text; . is where you are")
    try:
        os.stat(text)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise argparse.ArgumentTypeError(f"{short(text)}: {error.strerror}") from error
    return Path(text)


def nearest_of(given: str, known: Iterable[str]) -> str:
    """The nearest, then all: a person who meets a program wants to see what there is."""
    hint = nearest(given, known)
    return hint if hint.startswith("known") else f"{hint} Known: {', '.join(known)}"
