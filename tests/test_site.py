"""The built site: complete without a network, searched in two languages, readable on a phone."""

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from chromium import browse as chromium
from chromium import require_chromium
from forks import ROOT, python

pytestmark = pytest.mark.slow
PAGES = (
    "index",
    "zh/index",
    "guides/choose",
    "zh/guides/retrieval",
    "concepts/losses",
    "reference/keys",
    "losses",
    "results/transfer/report",
)
QUESTIONS = {
    "which loss for 0/1 pairs?": ("guides/choose", "concepts/losses", "losses"),
    "how do I continue a killed sweep?": ("guides/sweeps", "guides/problems"),
    "what does the row pkuparaph-pawsx mean?": ("guides/matrix",),
    "怎么用自己的数据训练": ("zh/start/own_pairs", "zh/guides/data"),
    "负例怎么挖": ("zh/guides/retrieval",),
    "how do I use a GPU": ("guides/speed", "start/install", "guides/training", "guides/problems"),
    "how to evaluate a saved encoder": ("guides/training", "start/library", "guides/data", "guides/problems"),
    "out of memory": ("guides/problems", "guides/speed"),
    "W&B offline": ("guides/wandb",),
    "温度系数怎么选": ("zh/guides/choose",),
    "how do I cite": ("index",),
    "怎么续跑被中断的扫描": ("zh/guides/sweeps", "zh/guides/problems"),
    "fine-tune on my own csv": ("start/own_pairs", "guides/data"),
    "rerank search results with a cross-encoder": ("guides/retrieval", "guides/cross_encoders"),
    "choose a decision threshold": ("start/own_pairs", "guides/cross_encoders", "concepts/statistics"),
    "stop training early": ("guides/early_stopping",),
    "write my own loss": ("guides/own_loss",),
    "upload a model to hugging face": ("guides/hub",),
    "导出ONNX": ("zh/guides/sentence_transformers",),
    "怎么用GPU": ("zh/guides/speed", "zh/start/install", "zh/guides/training"),
    "早停": ("zh/guides/early_stopping",),
    "自定义损失函数": ("zh/guides/own_loss",),
    "把模型上传到hub": ("zh/guides/hub",),
    "两次运行怎么比较": ("zh/guides/sweeps", "zh/guides/matrix"),
    "resume after ctrl-c": ("guides/training", "guides/problems"),
    "学习率怎么设": ("zh/guides/training",),
    "句向量怎么可视化": ("zh/guides/space",),
    "怎么导出表格到latex": ("zh/guides/matrix",),
}
"""What people type → the pages that answer it, of which one is to be among the first three."""

ENTRIES = {
    "patience": "reference/keys.html#training.patience",
    "batch_size": "reference/keys.html#training.batch_size",
    "temperature": "reference/keys.html#loss.temperature",
    "warmup": "reference/keys.html#optimizer.warmup",
    "encode": "reference/api/encoders.html#juzhen.encoders.sentence_encoder.SentenceEncoder.encode",
    "is_same": "reference/api/encoders.html#juzhen.encoders.sentence_encoder.SentenceEncoder.is_same",
}
"""A bare name → the entry of the reference that is on the first page that is found."""

ASK = """(() => {{
  const field = document.querySelector("input[name=query]");
  document.querySelector(".md-search-result__list").replaceChildren();
  field.focus();
  field.value = {};
  field.dispatchEvent(new KeyboardEvent("keyup"));
}})()"""
HITS = '[...document.querySelectorAll(".md-search-result__list > li > a")].map((one) => one.pathname)'
ON_FIRST = """[...document.querySelector(".md-search-result__list > li").querySelectorAll("a")].map(
  (one) => one.pathname + one.hash)"""
WIDE = """[...document.querySelectorAll("article *")].filter((one) => {
  const scrolls = one.closest(".md-typeset__scrollwrap, pre, .highlight, .equation, .md-typeset__table");
  return !scrolls && one.getBoundingClientRect().right > innerWidth + 1;
}).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, which is built without a warning."""
    if find_spec("material") is None:
        pytest.skip('the site: pip install -e ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    done = python(
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        folder,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def browse(site):
    """Runs steps in Chromium on a page of the site, opened as a file."""
    require_chromium()

    def run(page, *steps, scheme="light"):
        given, complaints = chromium(site / f"{page}.html", *steps, scheme=scheme)
        assert [line for line in complaints if "rror" in line] == []
        return given

    return run


def test_no_page_asks_another_host_for_a_part_of_it(site):
    parts = re.compile(
        r"""(?:url\(|@import\s+)["']?(?:https?:)?//[^)"']+|<(?:script|img|iframe)[^>]*src="(?:https?:)?//"""
    )
    found = {
        path.name: parts.findall(path.read_text("utf-8"))
        for path in [*site.rglob("*.css"), *site.rglob("*.html")]
    }
    assert {name: one for name, one in found.items() if one} == {}


def test_no_page_names_a_folder_of_the_machine(site):
    homes = [str(Path.home()), str(ROOT)]
    assert not [
        path for path in site.rglob("*.html") if any(f"{one}/" in path.read_text("utf-8") for one in homes)
    ]


def test_equations_are_mathml(site):
    page = (site / "concepts" / "losses.html").read_text("utf-8")
    assert "<math" in page
    assert "arithmatex" not in page


def test_questions_are_answered_within_the_first_three_hits(site, browse):
    steps = [["js", ASK.format('""')], ["until", "document.querySelector('.md-search-result__meta')"]]
    for question in QUESTIONS:
        steps += [["js", ASK.format(json.dumps(question))], ["until", f"{HITS}.length"], ["js", HITS]]
    given = browse("index", *steps)[4::3]
    missed = {
        question: found[:3]
        for (question, pages), found in zip(QUESTIONS.items(), given, strict=True)
        if not any(one.removeprefix(f"{site}/").removesuffix(".html") in pages for one in found[:3])
    }
    assert missed == {}


def test_the_name_of_a_key_or_a_function_leads_to_its_entry(site, browse):
    steps = [["js", ASK.format('""')], ["until", "document.querySelector('.md-search-result__meta')"]]
    for name in ENTRIES:
        steps += [["js", ASK.format(json.dumps(name))], ["until", f"{HITS}.length"], ["js", ON_FIRST]]
    given = browse("index", *steps)[4::3]
    missed = {
        name: links
        for (name, entry), links in zip(ENTRIES.items(), given, strict=True)
        if f"{site}/{entry}" not in links
    }
    assert missed == {}


def test_the_meaning_of_a_key_is_seen_on_a_phone(browse):
    tables = 'document.querySelectorAll("article table").length'
    assert browse("reference/keys", ["size", [390, 844]], ["js", tables])[1] == 0


@pytest.mark.parametrize("page", PAGES)
def test_nothing_sticks_out_on_a_phone(browse, page):
    given = browse(page, ["size", [390, 844]], ["js", "document.documentElement.scrollWidth"], ["js", WIDE])
    assert given[2] == []
    assert given[1] <= 390
