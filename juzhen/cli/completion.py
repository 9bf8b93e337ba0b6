"""`juzhen completion`: what a shell completes after `juzhen`. Candidates come from the verbs' own parsers.

Packages that do this for argparse want the parsers of all verbs at once; this one loads that of one verb.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.verbs import VERBS, parser_of
from juzhen.core.errors import UserError

FILES = "<files>"
"""What the scripts take for: a file or a folder."""

SCRIPTS = {
    "bash": f"""\
_juzhen() {{
  local IFS=$'\\n' word="${{COMP_WORDS[COMP_CWORD]}}" found
  [[ "$word" == "=" ]] && word=""
  found=$("${{COMP_WORDS[0]}}" --complete "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
  if [[ "$found" == "{FILES}" ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$found" -- "$word"))
  fi
}}
complete -F _juzhen juzhen
""",
    "zsh": f"""\
#compdef juzhen
_juzhen() {{
  local found="$("${{words[1]}}" --complete "${{(@)words[2,CURRENT]}}" 2>/dev/null)"
  if [[ "$found" == "{FILES}" ]]; then
    _files
  else
    compadd -- "${{(@f)found}}"
  fi
}}
compdef _juzhen juzhen
""",
}


def parser() -> VerbParser:
    parser = VerbParser(
        "completion",
        "Prints a script that completes verbs, options and their values. Add to the file that your shell reads when it "
        'starts: eval "$(juzhen completion bash)", or zsh.',
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), help=" or ".join(SCRIPTS))
    return parser


def run(shell: str) -> None:
    """Prints the script."""
    print(SCRIPTS[shell], end="")


def candidates(words: Sequence[str]) -> list[str]:
    """What may stand in the place of the last of `words`, which is unfinished; FILES for a path, nothing for a number.

    >>> candidates(["completion", ""])
    ['bash', 'zsh']
    """
    *before, word = [one for one in words if one != "="] or [""]  # bash takes = for a word of its own
    if words[-1:] == ["="]:
        before, word = [*before, word], ""
    if not before:
        return [*VERBS, "--help", "--version"]
    try:
        parser = parser_of(before[0])
    except UserError:
        return []
    if word.startswith("-"):
        return [flag for action in parser._actions for flag in action.option_strings if len(flag) > 2]
    return _values(_action_for(before[1:], parser))


def _action_for(before: Sequence[str], parser: VerbParser) -> argparse.Action | None:
    """The option or the argument that the next word is a value of."""
    option, count, free = None, 0, [action for action in parser._actions if not action.option_strings]
    filled = 0  # values of the first that is free
    for word in before:
        if word.startswith("--"):
            option, count = parser._option_string_actions.get(word), 0
        elif option is not None and _takes(option, count):
            count += 1
        elif free:
            filled += 1
            if not _takes(free[0], filled):
                free, filled = free[1:], 0
    return option if option is not None and _takes(option, count) else next(iter(free), None)


def _takes(action: argparse.Action, count: int) -> bool:
    """Whether an option or an argument that has `count` values takes another."""
    if isinstance(action.nargs, int):
        return count < action.nargs
    return action.nargs in ("+", "*") or count < 1


def _values(action: argparse.Action | None) -> list[str]:
    if action is None:
        return []
    if action.choices is not None:
        return [str(one) for one in action.choices]
    return [FILES] if action.type in (None, Path) else []
