"""A command and what it prints in a terminal, as a picture: python -m tools.terminal_picture OUT.svg COMMAND…

    python -m tools.terminal_picture docs/terminal.svg juzhen table runs

The text is what the command printed, with its colours. The picture needs no font, style or script from elsewhere.
"""

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from juzhen.core.atomic_write import write_text


def printed(command: list[str], *, width: int) -> str:
    """What the command prints to a terminal of that width; its messages are not part of it."""
    terminal = os.environ | {"COLUMNS": str(width), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", "juzhen", *command[1:]] if command[0] == "juzhen" else command
    return subprocess.run(arguments, env=terminal, check=True, stdout=subprocess.PIPE, text=True).stdout


def drawn(text: str, *, title: str, width: int) -> str:
    """Text with the colours of a terminal as SVG."""
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.from_ansi(text))
    picture = console.export_svg(title=title, font_aspect_ratio=0.61)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fonts of a server
    return picture.replace("Fira Code", "ui-monospace, SFMono-Regular, Menlo, Consolas")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    parser.add_argument("--width", type=int, default=100, help="columns of the terminal")
    options = parser.parse_args()
    line = shlex.join(options.command)
    text = f"$ {line}\n{printed(options.command, width=options.width)}"
    write_text(options.out, drawn(text, title=line, width=options.width))


if __name__ == "__main__":
    main()
