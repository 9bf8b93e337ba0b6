"""What programs write is as they would write it today, or as it was when it was made from what is there."""

import html
import re
import shutil
import subprocess

import pytest
from forks import ROOT
from pages import EDITIONS, blocks, quoted

from juzhen.cli.main import main
from juzhen.core.file_guard import check_overwritable
from tools import generated
from tools.docs import bar_charts
from tools.generated import PAGES, _content, stale


def test_no_page_is_stale():
    told = [f"{one.writes}: {one.command}" for one in stale()]
    assert not told, "write them again, python -m tools.generated: " + "; ".join(told)


def test_sets_of_a_user_are_no_source_of_a_page(tmp_path, monkeypatch):
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    shipped, mine = (tmp_path / "conf" / "dataset" / name for name in ("shipped.yaml", "我的.yaml"))
    for path in (shipped, mine):
        path.write_text(f"name: {path.stem}\n", encoding="utf-8")
    for words in (["init", "-q"], ["add", str(shipped)]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    assert generated.users_files.__wrapped__() == {mine}


def test_the_command_of_a_page_may_be_typed_again_while_nobody_has_edited_it(tmp_path, monkeypatch):
    pages = [path for page in PAGES for path in generated.pages_of_verbs(page)]
    assert ROOT / "docs" / "published.md" in pages
    check_overwritable(*pages)
    page = tmp_path / "docs" / "published.md"
    shutil.copytree(
        ROOT / "docs", page.parent, ignore=lambda *_: ["reference", "results", "guides", "concepts"]
    )
    monkeypatch.setattr("sweeps.published_page.page", lambda *_: "# New\n")
    assert main(["published", str(page)]) == 0
    page.write_text("# Mine\n", encoding="utf-8")
    assert main(["published", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == "# Mine\n"


def test_every_page_of_results_and_every_picture_is_in_the_table():
    written = {path for page in PAGES for glob in page.writes.split() for path in ROOT.glob(glob)}
    shown = [*ROOT.glob("results/**/*.svg"), *ROOT.glob("docs/**/*.svg"), *ROOT.glob("results/**/*.md")]
    shown = [
        path for path in shown if ROOT / "docs" / "results" not in path.parents
    ]  # what `make docs` copies
    told_by_hand = {"README.md", "text.md"}  # written by people; a corpus that was distilled on
    assert {one for one in shown if one.name not in told_by_hand} <= written
    for path in ROOT.glob("docs/**/*.md"):
        if re.search(r"^(This page is w|W)ritten by `", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            assert path in written, path


def test_a_page_is_stale_once_its_sources_or_it_have_changed(tmp_path, monkeypatch):
    (tmp_path / "in.yaml").write_text("a: 1  # one\n", encoding="utf-8")
    (tmp_path / "out.md").write_text("1\n", encoding="utf-8")
    page = generated.Page("out.md", "true", "in.yaml")
    for name, value in (("ROOT", tmp_path), ("PAGES", [page]), ("LEDGER", tmp_path / "kept.json")):
        monkeypatch.setattr(generated, name, value)
    monkeypatch.setattr("sys.argv", ["generated", "--record"])
    assert stale() == [page]
    generated.main()
    assert stale() == []
    (tmp_path / "in.yaml").write_text("# one\na: 1\n", encoding="utf-8")
    assert stale() == []
    for path, text in (("in.yaml", "a: 2\n"), ("out.md", "2\n")):
        (tmp_path / path).write_text(text, encoding="utf-8")
        assert stale() == [page]
        generated.main()
    assert _content(tmp_path / "in.yaml") == b'{"a": 2}'


MADE_BY = {
    "main": "from made.words import HEAD\n\ndef main():\n    from made import lines\n    lines.write(HEAD)\n",
    "words": "HEAD = 'a'\nOTHER = 'b'\n",
    "lines": "from made.beside import *\nimport made.words as words\n\n\ndef write(text):\n    return [text]\n",
    "beside": "",
}


@pytest.mark.parametrize(
    ("file", "before", "after", "is_stale"),
    [
        ("lines", "[text]", "[text, text]", True),
        ("words", "'a'", "'c'", True),
        ("words", "'b'", "'d'", False),
        ("lines", "\n\n\n", "\n\n# Why.\n", False),
        ("main", "def main():\n", "def main():\n    '''What it does.'''\n", False),
    ],
)
def test_a_page_is_stale_once_code_that_its_command_reaches_has_changed(
    tmp_path, monkeypatch, file, before, after, is_stale
):
    (tmp_path / "made").mkdir()
    for name, text in MADE_BY.items():
        (tmp_path / "made" / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    caches = (generated._file, generated._module)

    def code():
        for cache in caches:
            cache.cache_clear()
        return generated.reached("python -m made.main")

    first = code()
    assert first.keys() == {"made.main.main", "made.words.HEAD", "made.lines.write"}
    assert before in MADE_BY[file]
    (tmp_path / "made" / f"{file}.py").write_text(MADE_BY[file].replace(before, after), encoding="utf-8")
    assert (code() != first) is is_stale
    for cache in caches:
        cache.cache_clear()


def test_what_makes_a_page_follows_from_its_command():
    """The letters of a table were once added in a file that no list of sources had."""
    table = generated.reached("juzhen table runs")
    assert {"juzhen.report.significance.beaten", "juzhen.report.table.to_markdown"} <= table.keys()
    assert not [name for name in table if name.startswith(("juzhen.report.page", "juzhen.core.atomic_write"))]
    for page in PAGES:
        assert page.by_hand or len(generated.reached(page.command)) > 10, page.command


def test_the_picture_of_the_terminal_has_the_numbers_of_the_first_run():
    cells = re.compile(r"-?\d+\.\d")
    picture = html.unescape((ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8"))
    shown = cells.findall(" ".join(re.findall(r">([^<]*)</text>", picture)))  # the best are bold, and apart
    for name in ("docs/start/first_run.md", "docs/start/first_run.zh.md"):
        lines = quoted(name, "| # | trained on").splitlines()[2:]
        assert sorted(shown) == sorted(cells.findall(" ".join(lines))), name


def test_the_chart_of_speed_has_the_numbers_of_its_caption():
    chart = (ROOT / "docs" / "speed.svg").read_text(encoding="utf-8")
    drawn = re.findall(r">(\d\.\d\d)</text>", chart)
    assert len(drawn) == len(bar_charts.BARS)
    for name in EDITIONS:
        (caption,) = re.findall(r"!\[(.*)\]\(docs/speed\.svg\)", (ROOT / name).read_text("utf-8"))
        assert sorted(re.findall(r"\d\.\d\d", caption)) == sorted(drawn), name


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.name
)
def test_each_tutorial_has_a_picture_with_the_numbers_of_its_output(page):
    ((words, name),) = re.findall(r"!\[(.*)\]\((.*\.svg)\)", page.read_text(encoding="utf-8"))
    stem, is_chinese = page.name.partition(".")[0], page.name.endswith(".zh.md")
    if stem in bar_charts.PICTURES:  # the other one is written by `juzhen table`
        assert name == page.name.replace(".md", ".svg")
        picture = bar_charts.draw(stem, int(is_chinese))
        assert picture == (page.parent / name).read_text(encoding="utf-8")
        drawn = re.findall(r">(\d+\.\d)</text>", picture)
        assert sorted(re.findall(r"\d+\.\d", words)) == sorted(drawn)
    others = [one.body for one in blocks(f"docs/tutorials/{stem}.md") if one.language == "text"]
    assert [one.body for one in blocks(f"docs/tutorials/{page.name}") if one.language == "text"] == others


def test_no_page_names_a_folder_of_the_machine_that_wrote_it():
    names = subprocess.check_output(["git", "ls-files", "docs", "results"], cwd=ROOT, text=True).split()
    texts = {
        name: (ROOT / name).read_text("utf-8") for name in names if name.endswith((".md", ".csv", ".json"))
    }
    folder = re.compile(r"(?<![\w.:…<>/])/(home|mnt|private|root|tmp|Users|work)/\w")
    assert not [name for name, text in texts.items() if folder.search(text)]
