"""Input files: what is no regular file is refused at once, and what spells out too much is not spelt out."""

import os
import re
import signal
import socket

import pytest

from juzhen.core import safe_open
from juzhen.core.array_cache import ArrayCache
from juzhen.core.calibration_files import is_fusion
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from juzhen.core.result import Result
from juzhen.data.readers import decompressed, read_table
from juzhen.data.spec import read_description
from juzhen.encoders.augmentation import Translations
from juzhen.encoders.resolve_path import check_files

ALONE = re.compile(
    r"\.read_text\(|\.read_bytes\(|json\.load\(|OmegaConf\.load\(|(np|torch)\.load\((?!require_file|io\.)|open\(\"rb\"\)"
)
"""Ways to open a file without having looked whether it is one."""

OTHERS = (
    "core/safe_open.py", "core/machine.py", "core/process.py", "core/text.py", "encoders/forward.py",
    "export/folder.py", "encoders/tokens.py", "losses/__init__.py", "report/html_shell.py", "report/compare.py",
    "launch/stage_store.py", "lightning_modules/loss_factory.py", "loss_numbers.py",
)  # fmt: skip
"""The one place; modules that read /proc as well; and those that read what they or this program have made."""


@pytest.fixture(autouse=True)
def _at_once():
    def late(*_):
        raise TimeoutError("it waits for a pipe")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)


READERS = {
    "table.tsv": lambda path: read_table(path, header=True, quoted=False),
    "text.jsonl": lambda path: read_table(path, header=True, quoted=False),
    "dev.tsv.zst": decompressed,
    "set.yaml": read_description,
    "result.json": Result.read,
    "fusion.json": is_fusion,
    "translations.tsv": Translations,
}


@pytest.mark.parametrize("name", READERS)
def test_a_named_pipe_is_refused_by_its_name(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises((UserError, OSError), match=rf"{name}.*named pipe|named pipe.*{name}"):
        READERS[name](path)


def test_what_is_no_file_is_told_apart(tmp_path):
    (tmp_path / "folder").mkdir()
    here = socket.socket(socket.AF_UNIX)
    here.bind(str(tmp_path / "socket"))
    for path, said in (
        (tmp_path / "folder", "a folder"),
        (tmp_path / "socket", "a socket"),
        ("/dev/zero", "a device"),
    ):
        with pytest.raises(OSError, match=said):
            safe_open.read_bytes(path)
    with pytest.raises(FileNotFoundError):
        safe_open.read_bytes(tmp_path / "nothing")
    here.close()


def test_a_pipe_in_an_encoders_folder_is_refused(tmp_path):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(OSError, match=r"a named pipe.*vocab\.txt"):
        check_files(tmp_path, needs_weights=True, shown="mine")


def test_a_pipe_in_a_cache_is_work_without_it(tmp_path):
    cache = ArrayCache(tmp_path, holds="numbers", max_bytes=0)
    os.mkfifo(cache.path("0" * 32))
    with pytest.warns(UserWarning, match="named pipe"):
        assert cache.read("0" * 32) is None


def test_aliases_that_spell_out_a_billion_values_are_refused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"bomb\.yaml.*aliases"):
        read_description(path)
    path.write_text("a: &a [1, *a]\n")
    with pytest.raises(UserError, match=r"bomb\.yaml.*holds itself"):
        safe_open.require_yaml(path)
    path.write_text("a: &a [1, 2]\nb: *a\n")
    assert safe_open.read_yaml(path)["b"] == [1, 2]


@pytest.mark.parametrize("ending", ["json", "yaml"])
@pytest.mark.slow
def test_brackets_in_brackets_are_no_traceback(tmp_path, ending):
    path = tmp_path / f"deep.{ending}"
    path.write_text("[" * 10_000)
    with pytest.raises((UserError, ValueError), match=r"brackets in brackets|recursion"):
        safe_open.read_json(path) if ending == "json" else safe_open.read_yaml(path)


def test_files_are_opened_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for room in ("juzhen", "launch", "callbacks", "datamodules", "lightning_modules")
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.as_posix().endswith(OTHERS)
        for line in path.read_text(encoding="utf-8").splitlines()
        if ALONE.search(line)
    ]
    assert not found, "\n".join(found)
