"""What pages quote of commands is what these print: words as they stand in the sources, numbers with their date."""

import re
from functools import cache
from pathlib import Path

import pytest
from forks import ROOT
from hydra._internal import config_loader_impl
from pages import EDITIONS, blocks, quoted, site_pages

from sweeps import status

MADE = re.compile(r"juzhen \d+\.\d+\.\d+, \d{4}-\d\d-\d\d")
MESSAGES = ("error:", "warning:", "[callbacks")
NO_OUTPUT = (
    "runs/",
    "query-id",
    "question\t",
    "from ",
    "import ",
    "juzhen verify ",
    "JUZHEN_API_KEYS=",
    "grep ",
    "pytest",
    "@software",
)
"""Beginnings of texts that are files, trees and lines to type."""

SOURCES = (
    "juzhen",
    "launch",
    "callbacks",
    "lightning_modules",
    "datamodules",
    "sweeps",
    "conf",
    "hydra_plugins",
)
WINDOW = 3


def texts():
    """Page, text and what stands before it, of all that is no output of a program of the page."""
    for name in (*EDITIONS, *site_pages()):
        before = None
        for block in blocks(name):
            if block.language == "text" and before != "python" and not block.body.startswith(NO_OUTPUT):
                yield name, block
            before = block.language


def test_what_a_command_printed_says_when_and_by_which_version():
    undated = [
        (name, block.body.splitlines()[0])
        for name, block in texts()
        if not block.body.startswith(MESSAGES) and not MADE.fullmatch(block.title)
    ]
    assert undated == []


@cache
def source():
    """All texts of the program, those that are written over several lines in one piece."""
    files = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    files.append(Path(config_loader_impl.__file__))  # Hydra says itself that a key is there or not
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    joined = re.sub(r"""["']\s*\n\s*f?r?["']""", "", text)
    return " ".join(re.findall(r"[a-z]+", joined.lower()))


@pytest.mark.parametrize("name", ["docs/guides/problems.md", "docs/guides/problems.zh.md"])
def test_messages_that_are_explained_are_still_given(name):
    gone = []
    for page, block in texts():
        if page == name:
            line = block.body.splitlines()[0]
            parts = [re.findall(r"[a-z]+", part) for part in re.split(r"[^a-z ,;'-]+", line.lower())]
            windows = [
                " ".join(part[start : start + WINDOW])
                for part in parts
                for start in range(len(part) - WINDOW + 1)
            ]
            if windows and not any(f" {window} " in source() for window in windows):
                gone.append(line)
    assert gone == []


def test_the_table_of_a_sweep_has_the_columns_of_today():
    for name in ("docs/guides/sweeps.md", "docs/guides/sweeps.zh.md"):
        head = quoted(name, "2 runs:").splitlines()[2]
        assert tuple(head.replace("┃", " ").split()) == status.COLUMNS


WRITES = re.compile(r"> ([\w./]+)|open\(\"([^\"]+)\", \"w\"|index build (\S+)|(?:run_dir=|--out )(\S+)")


@pytest.mark.parametrize("ending", [".md", ".zh.md"])
def test_pages_that_follow_each_other_do_not_write_the_same_file(ending):
    """A reader of README, the first pages and the tutorials stays in one clone."""
    first = [
        name for name in site_pages() if name.startswith(("docs/start/", "docs/tutorials/", "docs/from/"))
    ]
    writers = {}
    for name in (
        f"README{ending}",
        *(one for one in first if one.endswith(".zh.md") == (ending == ".zh.md")),
    ):
        for block in blocks(name):
            if block.language in ("bash", "python"):
                for found in WRITES.findall(block.body):
                    writers.setdefault("".join(found), set()).add(name)
    assert len(writers) >= 5
    assert [path for path, names in writers.items() if len(names) > 1] == []


READ_RESULTS = ("juzhen compare", "juzhen gate")


def test_commands_on_sets_of_the_reader_name_their_folder():
    known = (
        path.stem for group in ("dataset", "benchmark") for path in (ROOT / "conf" / group).glob("*.yaml")
    )
    sets = {name for name in known if not name.startswith("demo")} - {"none", "all"}
    without = [
        (name, line)
        for name in (*EDITIONS, *site_pages())
        for block in blocks(name)
        if block.language == "bash"
        for line in block.body.strip().splitlines()
        if sets & {*re.findall(r"\w+", line)} and not line.startswith(READ_RESULTS)
        if not re.search("data[-_]dir|source=hub", line)
    ]
    assert without == []


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PRINTING = ("docs/index.md", "docs/guides/retrieval.md", "docs/guides/cross_encoders.md")


def printed_and_quoted(name):
    """Python of a page up to each quoted output, and that output. Blocks that need a run are left out."""
    sources, shown = [], blocks(name)
    for block, after in zip(shown, [*shown[1:], None], strict=True):
        if block.language == "python" and "runs/" not in block.body:
            is_quoted = after is not None and after.language == "text" and not after.title
            sources.append((block.body, after.body if is_quoted else None))
    return sources


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTING)
def test_the_python_of_a_page_prints_what_is_quoted(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    sources = printed_and_quoted(name)
    translated = printed_and_quoted(name.replace(".md", ".zh.md"))
    assert [text for _, text in sources] == [text for _, text in translated]
    for source, text in sources:
        exec(source, names)
        told = capsys.readouterr().out
        if text is not None:
            assert NUMBER.sub("0", told).split() == NUMBER.sub("0", text).split()
            found, shown = ([float(n.replace(",", "")) for n in NUMBER.findall(one)] for one in (told, text))
            assert found == pytest.approx(shown, rel=0.01)
