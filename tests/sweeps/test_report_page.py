import json
import re
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from forks import python
from report_fixture import small_picture, write_audit, write_results

from juzhen.cli.main import main

BROWSER = Path(__file__).with_name("browser.py")
EMPTY_TAGS = {"meta", "link", "wbr", "br", "img", "input", "hr"}
CELL = "table.matrix tbody tr:nth-child({}) td.cell:nth-of-type({})"


class Outline(HTMLParser):
    """Every tag with its attributes, text by tag, and tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def page(tmp_path, make_result):
    runs = write_results(tmp_path / "runs", small_picture(make_result))
    words = ["--leaks", str(write_audit(tmp_path)), "--title", "Transfer <b>& back</b>"]
    assert main(["report", str(runs), *words]) == 0
    return runs / "report" / "index.html"


@pytest.fixture
def outline(page):
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    outline.close()
    return outline


def test_every_tag_closes_and_every_anchor_leads_somewhere(outline):
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in outline.all("a")} <= {f"#{one}" for one in ids}
    assert {label for tag in outline.all("section") if (label := tag.get("aria-labelledby"))} <= set(ids)


def test_nothing_is_fetched_and_nothing_from_outside_is_markup(page, outline):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://|@import|url\(|<script src|srcset", text)
    assert [link["href"] for link in outline.all("link")] == ["data:,"]
    assert outline.text["title"] == ["Transfer <b>& back</b>"]
    assert "Transfer <b>" not in text


def test_a_phone_and_both_colour_schemes_are_thought_of(page, outline):
    text = page.read_text(encoding="utf-8")
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in outline.all("meta")
    assert "prefers-color-scheme: dark" in text
    assert outline.all("html") == [{"lang": "en"}]


def test_a_cell_knows_its_facts_without_a_script(page, outline):
    cells = [one for one in outline.all("td") if "cell" in (one.get("class") or "").split()]
    assert len(cells) == 5 * 4
    text = page.read_text(encoding="utf-8")
    (facts,) = re.findall(r"<dt class=\"what\">lcqmc on bq \(dev\)</dt>.*?</code>", text, re.DOTALL)
    for fact in (
        "52.0 ± 1.0",
        "[50.0, 54.0]",
        "1: 52.0, 2: 53.0, 3: 51.0",
        "10,000",
        "40 s on cpu",
        "0123456789",
    ):
        assert f"<dd>{fact}</dd>" in facts
    assert "<dd>400 rows, 4.0 %, from lcqmc</dd>" in facts
    assert "python train.py &#39;dataset=[lcqmc]&#39; seed=1" in facts


def test_rows_of_a_table_are_as_long_as_its_head(page):
    for table in re.findall(r"<table.*?</table>", page.read_text(encoding="utf-8"), re.DOTALL):
        rows = [len(re.findall(r"<t[dh][ >]", row)) for row in table.split("<tr")[1:]]
        assert len(set(rows)) == 1


@pytest.fixture
def browse(page, tmp_path):
    """Runs steps in Chromium; see browser.py."""
    if find_spec("PySide6") is None or find_spec("PySide6.QtWebEngineCore") is None:
        pytest.skip('headless Chromium: pip install -e ".[browser]"')

    def run(*steps, scheme="light", page=page):
        done = python(BROWSER, page, json.dumps(steps), scheme, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        *given, complaints = json.loads(done.stdout.splitlines()[-1])
        assert complaints == []
        return given

    return run


PANEL = "[document.getElementById('panel').hidden, document.getElementById('panel').innerText]"
FOCUS = "document.activeElement.firstChild.textContent"
FITS = "[document.documentElement.scrollWidth <= window.innerWidth, document.querySelector('.scroll').clientWidth > 0]"
LABELS = "[...document.querySelectorAll('table.matrix tbody th')].map((one) => one.textContent)"


@pytest.mark.slow
def test_a_pointer_shows_a_cell_and_keys_move_on(browse):
    given = browse(
        ["size", [1280, 900]],
        ["js", FITS],
        ["js", PANEL],
        ["hover", CELL.format(4, 2)],
        ["js", PANEL],
        ["click", CELL.format(4, 3)],
        ["js", FOCUS],
        ["key", "Up"],
        ["key", "Right"],
        ["js", FOCUS],
        ["js", PANEL],
        ["key", "Escape"],
        ["js", PANEL],
        ["js", "performance.getEntriesByType('resource').length"],
    )
    assert given[1] == [True, True]
    assert given[2] == [True, ""]
    assert given[4][0] is False
    assert "lcqmc on bq (dev)" in given[4][1]
    assert "[50.0, 54.0]" in given[4][1]
    assert "python train.py 'dataset=[lcqmc]' seed=1" in given[4][1]
    assert given[6] == "75.0 ± 1.0"
    assert given[9] == "58.0"
    assert "csts on lcqmc (dev)" in given[10][1]
    assert given[12][0] is True
    assert given[13] == 0


OVER = "((one) => one.scrollWidth - one.clientWidth)(document.querySelector('.scroll'))"
FIRST = (
    "[...document.querySelectorAll('.scroll')].map((one) => { one.scrollLeft = 200;"
    " const cell = one.querySelector('tbody tr').firstElementChild;"
    " return Math.round(cell.getBoundingClientRect().left - one.getBoundingClientRect().left); })"
)


@pytest.mark.slow
def test_the_committed_matrix_fits_a_small_window_and_its_labels_stay(browse, tmp_path):
    committed = Path(__file__).parents[2] / "results" / "transfer" / "runs"
    assert main(["report", str(committed), "--out", str(tmp_path / "wide")]) == 0
    page = tmp_path / "wide" / "index.html"
    given = browse(
        ["size", [1280, 900]], ["js", OVER], ["size", [700, 900]], ["js", OVER], ["js", FIRST], page=page
    )
    assert given[1] == 0
    assert given[3] > 0
    assert max(given[4]) <= 1


@pytest.mark.slow
def test_a_heading_sorts_down_up_and_back_with_what_is_missing_last(browse):
    head = "table.matrix thead th:nth-child(6) button"  # pawsx_zh: csts has no score
    steps = [step for _ in range(3) for step in (["click", head], ["js", LABELS])]
    given = browse(["size", [1280, 900]], ["js", LABELS], *steps)
    before, down, up, back = given[1], given[3], given[5], given[7]
    assert down == ["lcqmc → csts", "lcqmc", "untrained", "lexical", "csts"]
    assert up == ["lexical", "untrained", "lcqmc", "lcqmc → csts", "csts"]
    assert back == before


@pytest.mark.slow
def test_a_phone_shows_the_panel_at_its_foot_and_only_tables_scroll_sideways(browse):
    box = "(({left, right, bottom}) => [left, innerWidth - right, innerHeight - bottom])"
    given = browse(
        ["size", [390, 844]],
        ["js", FITS],
        ["click", CELL.format(3, 2)],
        ["js", PANEL],
        ["js", f"{box}(document.getElementById('panel').getBoundingClientRect())"],
        [
            "js",
            "document.querySelector('.scroll').scrollWidth > document.querySelector('.scroll').clientWidth",
        ],
    )
    assert given[1] == [True, True]
    assert "csts on bq (dev)" in given[3][1]
    assert given[4][0] == 0
    assert given[4][2] == 0
    assert given[5] is True


@pytest.mark.slow
def test_dark_is_dark_and_light_is_light(browse):
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    assert browse(["js", colours]) == [["rgb(255, 255, 255)", "rgb(28, 30, 33)"]]
    assert browse(["js", colours], scheme="dark") == [["rgb(20, 23, 26)", "rgb(230, 232, 234)"]]
