"""The page of the command line: every verb of `juzhen` as its parser describes it, and `train.py --help`."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from textwrap import fill

from juzhen.cli.verbs import GROUPS, parser_of
from juzhen.core.places import ROOT
from tools.docs.markup import code, plain, table

HEAD = """\
---
search: {boost: 0.4}
---
# Command line

`juzhen VERB --help` prints what stands here. `python -m juzhen VERB` is the same in a clone.
"""


def page() -> str:
    parts = [HEAD]
    for group, verbs in GROUPS.items():
        parts.append(f"## {group[0].upper()}{group[1:]}\n")
        for name, about in verbs.items():
            parts += [f"### juzhen {name}\n", f"**{about[0].upper()}{about[1:]}.**\n", *verb(parser_of(name))]
    command, narrow = [sys.executable, "train.py", "--help"], os.environ | {"COLUMNS": "100"}
    help_text = subprocess.check_output(command, cwd=ROOT, env=narrow, stderr=subprocess.PIPE, text=True)
    parts += ["## python train.py\n", "```text", help_text.rstrip(), "```"]
    return "\n".join(parts) + "\n"


def verb(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Usage, description, arguments and options."""
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield f"```text\n{fill(usage, 76, subsequent_indent='    ', break_on_hyphens=False)}\n```\n"
    yield from (f"{plain(text)}\n" for text in (parser.description, parser.epilog) if text)
    rows = [_row(parser, action) for action in parser._actions if action.dest != "help"]
    if rows:
        yield table(("argument", "values", "meaning"), rows)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str]:
    formatter = parser._get_formatter()
    values = (
        ""
        if action.nargs == 0
        else formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    )
    name = ", ".join(map(code, action.option_strings)) or code(action.dest)
    meaning = formatter._expand_help(action) if action.help else ""
    required = "required; " if action.option_strings and action.required else ""
    return name, code(values) if action.option_strings or action.choices else "", required + plain(meaning)
