"""Programs in a real pseudo-terminal, whose screen is read, and in a pipe."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyte
from forks import ROOT

SECONDS = 300


@dataclass
class Screen:
    """What a person has seen: the screen at each change, and at the end."""

    status: int
    lines: list[str]
    seen: list[list[str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def ever(self, words: str) -> list[str]:
        """All lines with the words that were on the screen at some moment."""
        return list(dict.fromkeys(line for lines in self.seen for line in lines if words in line))


def in_a_terminal(
    command: Sequence[str | Path],
    *,
    columns: int,
    cwd: Path = ROOT,
    lines: int = 60,
    stdout: Path | None = None,
    watch: Callable[[subprocess.Popen, list[str]], None] = lambda process, screen: None,
    **environment: str,
) -> Screen:
    """Runs a program on a terminal of that width.

    stdout  a file that takes the output, while errors and progress are seen
    watch   is called with the process and the screen whenever that changes
    """
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    output = slave if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        stdin=slave,
        stdout=output,
        stderr=slave,
        env=variables | {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1"} | environment,
        start_new_session=True,
    )
    os.close(slave)
    seen: list[list[str]] = []
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([master], [], [], 0.2)
            if not ready:
                if process.poll() is not None:
                    break
                continue
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # the last process that had the terminal has ended
                break
            stream.feed(data)
            seen.append([line.rstrip() for line in screen.display if line.strip()])
            watch(process, seen[-1])
        status = process.wait(20)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
        if stdout is not None:
            os.close(output)
    return Screen(status, [line.rstrip() for line in screen.display if line.strip()], seen)


def python_in_a_terminal(*words: str | Path, columns: int, **options: object) -> Screen:
    return in_a_terminal([sys.executable, *words], columns=columns, **options)  # type: ignore[arg-type]
