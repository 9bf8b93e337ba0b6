"""Whatever is raised ends in one line, a file with the traceback, and an exit status."""

import errno
import os
import re
import tempfile
from pathlib import Path

import pytest

from juzhen.cli.program import status_of
from juzhen.core.errors import UserError


def failing(error):
    def main():
        error.add_note("writing the set")
        raise error

    return main


def refusal(number, *names):
    return OSError(number, os.strerror(number), *names)


ANSWERS = [
    (UserError("no such thing"), 2, "error: no such thing"),
    (KeyboardInterrupt(), 130, "stopped by Ctrl-C"),
    (KeyError("model"), 1, "error: juzhen mine, writing the set: KeyError: 'model'. The traceback is in "),
    (ValueError(), 1, "error: juzhen mine, writing the set: ValueError. The traceback is in "),
    (MemoryError(), 1, "error: juzhen mine, writing the set: out of memory. Take smaller batches"),
    (RecursionError("maximum depth"), 1, "error: juzhen mine, writing the set: what was read is nested"),
    (
        refusal(errno.ENOSPC),
        1,
        "error: juzhen mine, writing the set: No space left on device. Free some space",
    ),
    (
        refusal(errno.EACCES, "/x/y"),
        2,
        "error: juzhen mine, writing the set: /x/y: Permission denied. Choose a",
    ),
    (
        refusal(errno.ENOTDIR, "/x/y"),
        2,
        "error: juzhen mine, writing the set: /x/y: Not a directory. Expected a folder",
    ),
    (
        refusal(errno.EROFS, b"/x"),
        2,
        "error: juzhen mine, writing the set: /x: Read-only file system. Choose a",
    ),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "error: juzhen mine, writing the set: Broken pipe. The"),
    (
        UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
        1,
        "error: juzhen mine, writing the set: a\\udcff: not UTF-8",
    ),
    (
        RuntimeError(
            "Caught E in worker 0.\nOriginal Traceback (most recent call last):\n  File x\nE: the end"
        ),
        1,
        "error: juzhen mine, writing the set: RuntimeError: E: the end. The traceback",
    ),
]


@pytest.mark.parametrize(("error", "status", "line"), ANSWERS, ids=lambda value: type(value).__name__)
def test_one_line_and_a_status(monkeypatch, tmp_path, capsys, error, status, line):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert status_of(failing(error), "juzhen mine") == status
    told = capsys.readouterr().err
    assert told.startswith(line)
    assert told.count("\n") == 1
    assert "Traceback" not in told
    if log := re.search(r"The traceback is in (\S+)", told):
        held = Path(log[1])
        assert "in main\n" in held.read_text()
        assert held.stat().st_mode & 0o777 == 0o600


def test_no_pointer_where_no_log_can_be_written(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert status_of(failing(KeyError("model"))) == 1
    assert capsys.readouterr().err == "error: writing the set: KeyError: 'model'\n"


def test_the_log_holds_no_secret(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    token = "hf_" + "a" * 20
    assert status_of(failing(RuntimeError(f"no access with {token}"))) == 1
    assert token not in capsys.readouterr().err + next(tmp_path.glob("*.log")).read_text()


def test_who_asks_sees_the_traceback(monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(KeyError):
        status_of(failing(KeyError("model")))
