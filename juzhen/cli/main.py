"""The one command line: `juzhen VERB …`, or `python -m juzhen VERB …`."""

import sys
from collections.abc import Sequence

from juzhen.cli.about import version_line
from juzhen.cli.program import run_program, status_of
from juzhen.cli.verbs import load_verb, overview, parser_of
from juzhen.core.caches import caches_below, default_cache
from juzhen.core.errors import UserError
from juzhen.core.texts import short

COMPLETE = "--complete"
"""Asked by the shell's completion: the words so far, the last of which is unfinished."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one verb and gives the exit status: 0, 2 for a mistake of the user, 130 after Ctrl-C.

    words  the verb and its words; None: those that the program was started with, whose streams are made to last
    """
    if words is None:
        return run_program(lambda: _answer(sys.argv[1:]), _named(sys.argv[1:]))
    return status_of(lambda: _answer(words), _named(words))


def _named(words: Sequence[str]) -> str:
    """The verb as a line about it names it."""
    return f"juzhen {short(words[0])}" if words else "juzhen"


def _answer(words: Sequence[str]) -> None:
    name, *more = words or [""]
    if name in ("-h", "--help"):
        print(overview())
    elif name == "--version":
        print(version_line())
    elif name == COMPLETE:
        from juzhen.cli.completion import candidates

        print("\n".join(candidates(more)))
    elif name:
        options = vars(parser_of(name).parse_intermixed_args(more))
        verb = load_verb(name)
        if not hasattr(verb, "OWN_CACHES"):  # it tells libraries itself where to keep theirs
            caches_below(default_cache())
        verb.run(**options)
    else:
        raise UserError("missing: command; see juzhen --help")
