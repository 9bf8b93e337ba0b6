"""Names come from anybody: in a report they are words, never markup that a browser obeys."""

import re

import pytest
from report_fixture import report_of

from juzhen.core.text import in_markdown
from juzhen.encoders.save import fact_table
from juzhen.report.build import latex, markdown
from juzhen.report.compare import load_reference
from juzhen.report.matrix import build_matrix
from juzhen.report.page import html
from juzhen.report.table import to_markdown

SCRIPT = "<script>alert(1)</script>"
TAG = re.compile(r"<\s*/?\s*[a-z!?]", re.IGNORECASE)
"""What begins a piece of HTML."""


@pytest.mark.parametrize(
    "name",
    [
        SCRIPT,
        "<img src=x onerror=alert(1)>",
        "<!-- a comment -->",
        "</td>",
        "<SVG/onload=alert(1)>",
        "<https://evil>",
        "[click](javascript:alert(1))",
        "![x](http://evil/track.png)",
        "a|b",
        "a\nb\r# heading",
        "a\u2028b",
    ],
)
def test_a_name_is_words(name):
    cell = in_markdown(name)
    assert not TAG.search(cell)
    assert "](" not in cell
    assert not re.search(r"(?<!\\)\|", cell)
    assert len(cell.splitlines()) == 1


@pytest.mark.parametrize(
    "plain", ["lcqmc → csts · loss=cosine", "p < 0.05", "45.0 [44.0, 46.0]", "R&D", "**1.0**", "实验"]
)
def test_what_is_no_markup_stays(plain):
    assert in_markdown(plain) == plain


@pytest.fixture
def report_of_strangers(make_result):
    results = [
        make_result([SCRIPT], {f"test/{SCRIPT.replace('/', '')}/spearman": 0.7, "test/lcqmc/spearman": 0.6}),
        make_result(["lcqmc"], {"test/lcqmc/spearman": 0.7}, backbone={"path": SCRIPT, "pooling": "mean"}),
    ]
    return results


def test_no_table_holds_a_tag(report_of_strangers):
    matrix = build_matrix(report_of_strangers, metric="spearman")
    report = report_of(report_of_strangers, reference=load_reference(None))
    texts = {
        "table": to_markdown(matrix),
        "report": markdown(report),
        "card": fact_table({SCRIPT: SCRIPT, "trained on": [SCRIPT]}),
    }
    for name, text in texts.items():
        assert not TAG.search(text), name
    assert "script" in texts["report"]


def test_the_page_and_the_latex_hold_it_as_text(report_of_strangers):
    report = report_of(report_of_strangers, reference=load_reference(None))
    page = html(report, title=SCRIPT)
    own = page.count("<script>")
    assert own == 3  # the page's own
    assert SCRIPT not in page
    assert "&lt;script&gt;" in page
    assert r"\input" not in latex(report.matrix)
