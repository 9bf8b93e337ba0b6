"""The old commands answer with the new form."""

import sys
from typing import NoReturn

from juzhen.core.commands import command
from juzhen.core.errors import MISTAKE_STATUS
from juzhen.core.texts import in_a_line

RENAMED = {"python -m sweeps export": "juzhen archive"}


def answer(old: str, new: str) -> NoReturn:
    """Says what to type instead of `old` and ends the program with status 2.

    new  what stands for it before the words that followed; where the first of them has another name now, that one

    `python -m sweeps table runs` gets `now: juzhen table runs`.
    """
    words = sys.argv[1:]
    if renamed := words and RENAMED.get(f"{old} {words[0]}"):
        new, words = renamed, words[1:]
    print(in_a_line(f"now: {new} {command(*words)}".rstrip()), file=sys.stderr)
    sys.exit(MISTAKE_STATUS)
