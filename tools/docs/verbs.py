"""The page of the command line: every verb of `juzhen` as its command describes it, and `train.py --help`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from juzhen.cli.verbs import GROUPS, commands
from juzhen.core.paths import ROOT
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
            parts += [f"### juzhen {name}\n", f"**{about[0].upper()}{about[1:]}.**\n"]
            for path, command in commands(name).items():
                parts += ([] if path == name else [f"#### juzhen {path}\n"]) + [*_verb(path, command)]
    command, narrow = [sys.executable, "train.py", "--help"], os.environ | {"COLUMNS": "100"}
    help_text = subprocess.check_output(command, cwd=ROOT, env=narrow, stderr=subprocess.PIPE, text=True)
    parts += ["## python train.py\n", "```text", help_text.rstrip(), "```"]
    return "\n".join(parts) + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    """Usage, description with its examples, arguments and options."""
    context = command.make_context(f"juzhen {name}", [], resilient_parsing=True)
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    for paragraph in command.help.split("\n\n"):
        example = paragraph.startswith("\b\n")
        yield f"```bash\n{paragraph[2:]}\n```\n" if example else f"{plain(' '.join(paragraph.split()))}\n"
    yield table(("argument", "values", "meaning"), [_row(param, context) for param in command.params])


def _row(param: Any, context: Any) -> tuple[str, str, str]:
    usage, meaning = param.get_help_record(context)
    name, _, values = usage.partition(" ")
    is_option = name.startswith("-")
    meaning = re.sub(r"default: \((.*?)\)", r"default: \1", meaning)
    meaning = re.sub(r"  \[(.*)\]$", r" (\1)", meaning)
    return code(name.rstrip(".")), code(values if is_option else ""), plain(meaning)
