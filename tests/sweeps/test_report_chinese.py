"""The Chinese of reports: no text without a pair, the same numbers in both languages, and the switch of a page."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from chromium import browse, require_chromium
from report_fixture import report_of, small_picture, write_audit, write_results, write_run_with_rows

from juzhen.cli.main import main
from juzhen.core.result import Score
from juzhen.report.build import build_report, markdown
from juzhen.report.collect import collect
from juzhen.report.compare import load_reference
from juzhen.report.html_shell import part
from juzhen.report.page import SCRIPTS, html
from juzhen.report.space_page import SCRIPTS as SPACE_SCRIPTS
from juzhen.report.table import HOLE, SAID, Words, chinese, pairs, table_in_chinese
from juzhen.report.training import Audit

NUMBER = re.compile(r"\d[\d.,]*\d|\d")
ENGLISH = re.compile(r"(?<![\w./@=-])[a-z]{2,}(?: [a-z]{2,}){2,}")
"""Three English words in a row: no name of a set, a run or a measure."""


def test_both_sides_of_a_pair_have_the_same_parts_and_numbers():
    for english, translated in pairs().items():
        places = {int(place) for place in re.findall(r"\{(\d)!?\}", translated)}
        assert places == {*range(len(HOLE.findall(english)))}, english
        numbers = [Counter(NUMBER.findall(re.sub(r"\{[^}]*\}", "", side))) for side in (english, translated)]
        assert numbers[0] == numbers[1], english
        assert translated, english


def test_every_text_of_the_scripts_has_a_pair_and_no_sentence_of_theirs_goes_without():
    for script in dict.fromkeys((*SCRIPTS, *SPACE_SCRIPTS)):
        text = part(script)
        for said in SAID.findall(text):
            english = re.sub(r"\$\{[^}]*\}", "{}", said)
            assert english in pairs(), (script, english)
        code = re.sub(r"^\s*(//|/?\*).*$|// .*$", "", SAID.sub("", text), flags=re.MULTILINE)
        literals = re.findall(r'"([^"\n]*)"|`([^`]*)`', code)
        sentences = [text for pair in literals for text in pair if re.search(r"[A-Za-z]{3,} [a-z]{3,}", text)]
        allowed = (
            "--columns",
            "full",
            "controls",
            "grid-frame",
            "Helvetica",
            "use strict",
            "figures",
            "#grid",
        )
        assert [text for text in sentences if not any(word in text for word in allowed)] == [], script


class Shown(HTMLParser):
    """Texts and labels of a page, without those of names and scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag not in ("meta", "link", "wbr"):
            before = self.open[-1][1] if self.open else True
            own = {"no": False, "yes": True}.get(attributes.get("translate"), before)
            self.open.append((tag, own and tag not in ("script", "style", "code")))
        self.texts += [attributes[name] for name in ("title", "aria-label") if attributes.get(name)]

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][1] and data.strip():
            self.texts.append(data.strip())


def merged(make_result):
    """A merged row between its parents; embeddings cut to fewer numbers."""

    def made(sets, *values):
        scores = zip(("test/csts", "test/lcqmc", "test/lcqmc@64"), values, strict=True)
        result = make_result(sets, {f"{column}/spearman": value for column, value in scores})
        return replace(result, key="+".join(sets), weights=f"of {'+'.join(sets)}")

    parents = [made(["csts"], 0.8, 0.6, 0.5), made(["lcqmc"], 0.6, 0.8, 0.7)]
    both = made(["csts", "lcqmc"], 0.75, 0.75, 0.6)
    both.training["parents"] = [{"weights": each.weights, "seed": each.seed} for each in parents]
    return [*parents, both]


def failed(make_result):
    """Rows without a score, each for a reason of its own."""
    reasons = ("all gold values are equal", "the split has no file", "fewer than two classes have two rows")
    return [
        make_result([name], {"test/lcqmc/spearman": Score(None, why=why)})
        for name, why in zip(("csts", "bq", "atec"), reasons, strict=True)
    ]


def retrieval(make_result):
    found = {"test/own/ndcg_at_10": Score(0.5, 0.4, 0.6, 90), "test/faq/recall_at_1": 0.4}
    other = {"test/own/ndcg_at_10": Score(0.55, 0.45, 0.65, 90), "test/faq/recall_at_1": 0.7}
    return [make_result(["faq"], found), make_result(["own"], other, seed=2)]


PICTURES = {
    "single": lambda make: [make(["csts"], {"dev/csts/spearman": Score(0.5, 0.4, 0.6, 100)})],
    "matrix": small_picture,
    "retrieval": retrieval,
    "merged": merged,
    "failed": failed,
}


@pytest.fixture(params=PICTURES)
def report(request, make_result, tmp_path):
    results, audit = PICTURES[request.param](make_result), Audit.read(write_audit(tmp_path))
    return build_report(results, metric=None, reference=load_reference(None), audit=audit)


@pytest.mark.sampled(2)
def test_no_text_of_a_page_goes_without_chinese(report, monkeypatch):
    made, begin = [], Words.__init__
    monkeypatch.setattr(Words, "__init__", lambda self, *scripts: made.append(self) or begin(self, *scripts))
    page = html(report, title="Transfer matrix")
    assert [text for words in made for text in words.missing] == []
    words = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["words"]
    left = [
        text
        for text in Shown(page).texts
        if ENGLISH.search(text) and text not in words and not text.startswith("http")
    ]
    assert left == []
    assert [text for text in words.values() if ENGLISH.search(text)] == []


def test_a_report_of_markdown_is_chinese_with_the_same_numbers(report):
    assert "训练集" in markdown(report, is_chinese=True)
    assert "trained on" in markdown(report)
    for table in report.tables:
        other = table_in_chinese(table)
        words = [line[column] for line in other.body for column in table.worded]
        assert [text for text in (other.title, other.note, *other.head, *words) if ENGLISH.search(text)] == []
        for line, same in zip((table.head, *table.body), (other.head, *other.body), strict=True):
            for text, shown in zip(line, same, strict=True):
                assert Counter(NUMBER.findall(text)) == Counter(NUMBER.findall(shown)), text
        assert Counter(NUMBER.findall(table.note)) == Counter(NUMBER.findall(other.note))


def test_names_stay_and_words_of_a_name_do_not_count():
    assert chinese("lcqmc") is None
    assert chinese("csts → lcqmc") is None
    assert chinese("lcqmc: at most 15,000 rows; scored on at most 30 rows of a split") == (
        "lcqmc：至多 15,000 行；每个划分至多评测 30 行"
    )


@pytest.mark.slow
def test_the_verb_writes_markdown_in_chinese(make_result, tmp_path):
    runs = write_results(tmp_path / "runs", small_picture(make_result))
    assert main(["report", str(runs), "--language", "zh"]) == 0
    text = (runs / "report" / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# 迁移矩阵")
    assert "75.0 ± 1.0" in text


READY = ["until", "performance.getEntriesByName('charts').length"]
LEFT = """(() => {
  const left = [], english = /(?<![\\w./@=-])[a-z]{2,}(?: [a-z]{2,}){2,}/;
  for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode();) {
    const parent = walker.currentNode.parentElement, text = walker.currentNode.nodeValue;
    if (parent.translate && !parent.closest("script, noscript, code") && english.test(text)) left.push(text);
  }
  const names = [...document.querySelectorAll("#run dt")].map((name) => name.innerText);
  return [left, document.documentElement.lang, document.querySelector("#matrix h2").innerText, names[1]];
})()"""
NUMBERS = "document.getElementById('grid').innerText.match(/[\\d.]+/g)"


@pytest.mark.slow
def test_the_switch_turns_every_text_and_no_number(make_result, tmp_path):
    require_chromium()
    made = make_result(
        ["demo_qmc"],
        {"dev/demo_qmc/spearman": Score(0.8, 0.75, 0.85, 600)},
        untrained={"dev/demo_qmc/spearman": Score(0.6, 0.5, 0.7, 600)},
    )
    write_run_with_rows(tmp_path / "rows" / "run", made)
    write_results(tmp_path / "rows", small_picture(make_result))
    page = tmp_path / "page.html"
    page.write_text(html(report_of(collect(tmp_path / "rows", report=print)), title="T", worst=3), "utf-8")
    given, complaints = browse(
        page,
        READY,
        ["js", NUMBERS],
        ["js", "document.querySelector('#matrix h2').innerText"],
        ["click", "#language"],
        ["js", LEFT],
        ["js", NUMBERS],
        ["click", "#language"],
        ["js", "document.querySelector('#matrix h2').innerText"],
        ["js", "localStorage.getItem('juzhen-language')"],
        ["requests", None],
    )
    assert given[4] == [[], "zh-Hans", "什么训练在哪里有帮助", "种子"]
    assert given[1] == given[5]
    assert given[2] == given[7] == "What helps where"
    assert given[8] == "en"
    assert given[9] == []
    assert complaints == []


def test_a_merged_row_is_one_of_these_pictures(make_result):
    report = build_report(merged(make_result), metric=None, reference=load_reference(None), audit=None)
    assert {"merged", "sizes"} <= {table.key for table in report.tables}
