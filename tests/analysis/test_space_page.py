"""The page and the picture of a space: what they hold, that texts are texts, and how the page behaves in a browser."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from chromium import browse, require_chromium

from juzhen.data.loading import Probe
from juzhen.evaluation.space import TextSet, study
from juzhen.report.space_page import html, scaled, shown_groups, write_space
from juzhen.report.table import Words

ATTACK = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>&<svg/onload=window.hit=1>"
READY = ["until", "performance.getEntriesByName('charts').length"]
PANEL = "[document.getElementById('panel').hidden, document.getElementById('panel').innerText]"
WIDTHS = "[document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]"
FIND = "document.getElementById('find')"
RINGS = (
    "[...document.querySelectorAll('.plot')].slice(0, 2).map((plot) => plot.querySelectorAll('.ring').length)"
)


class Fixed:
    """An encoder that knows its texts by their numbers: three clouds, drawn with a seed."""

    def __init__(self, seed: int, spread: float) -> None:
        self.seed, self.spread = seed, spread

    def encode(self, texts, **options):
        generator = np.random.default_rng(self.seed)
        middles = np.eye(3, 8)[np.arange(len(texts)) % 3]
        return (middles + self.spread * generator.normal(size=(len(texts), 8))).astype(np.float32)


def studied(texts, *, names=("sport", "phone", ATTACK), runs=("before", "after")):
    classes = np.arange(len(texts)) % 3
    probe = Probe(texts, np.empty((2, 0), np.int64), np.empty(0), classes)
    encoders = {run: Fixed(seed, 0.4 / (seed + 1)) for seed, run in enumerate(runs)}
    return study(encoders, [TextSet("news (test)", probe, 99, names)], maps=["pca"], seed=1)


@pytest.fixture(scope="module")
def space():
    return studied([ATTACK, *(f"第{number}条新闻" for number in range(59))])


@pytest.fixture(scope="module")
def page(space, tmp_path_factory):
    folder = tmp_path_factory.mktemp("space")
    assert [path.name for path in write_space(space, folder)] == ["index.html", "space.svg"]
    return folder / "index.html"


def test_no_text_of_the_page_goes_without_chinese(space, monkeypatch):
    made, begin = [], Words.__init__
    monkeypatch.setattr(Words, "__init__", lambda self, *scripts: made.append(self) or begin(self, *scripts))
    assert "中文" in html(space)
    assert [text for words in made for text in words.missing] == []


def test_the_page_holds_the_numbers_and_no_text_of_a_stranger_is_markup(space, page):
    text = page.read_text(encoding="utf-8")
    assert "60 of 99 texts of news (test), seed 1." in text
    assert len(re.findall(r"<script[ >]", text)) == 4
    assert "<img" not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["texts"][0] == ATTACK
    assert data["names"] == sorted(["sport", "phone", ATTACK])
    measures = space.numbers["news (test)"]
    for name in ("silhouette", "v_measure", "hubness", "beyond_overlap"):
        row = re.search(rf'<th scope="row">{name}<small>.*?</tr>', text)[0]
        assert re.findall(r'number">([^<]*)<', row) == [f"{numbers[name]:.4g}" for numbers in measures]
    assert f"<dt>{space.together['news (test)']['cka']:.4g}</dt>" in text


def test_the_picture_has_a_mark_for_each_text_in_each_map(page):
    picture = ElementTree.parse(page.with_name("space.svg")).getroot()
    marks = picture.findall(".//{*}use")
    assert len(marks) == 2 * 60 + 3
    assert {mark.get("href") for mark in marks} == {"#g0", "#g1", "#g2"}
    assert not picture.findall(".//{*}script")


def test_both_maps_have_one_scale_and_many_groups_are_told_apart(space):
    first, second = scaled(space.maps["pca"])
    assert max(np.ptp(first, axis=0).max(), np.ptp(second, axis=0).max()) == pytest.approx(1)
    sizes = [np.ptp(points, axis=0).max() for points in space.maps["pca"]]
    assert np.ptp(first, axis=0).max() / np.ptp(second, axis=0).max() == pytest.approx(sizes[0] / sizes[1])
    many = studied([str(number) for number in range(90)])
    object.__setattr__(many, "group_names", [f"class {number}" for number in range(30)])
    object.__setattr__(many, "groups", np.minimum(np.arange(90), 29))
    groups, names = shown_groups(many)
    assert len(names) == 24
    assert names[-1] == "others"
    assert "class 29" in names
    assert groups.max() == 23


@pytest.mark.slow
def test_a_pointer_names_a_text_in_both_maps_and_what_is_typed_is_found(page):
    require_chromium()
    given, complaints = browse(
        page,
        READY,
        ["js", PANEL],
        ["hover", "#maps-figures figure:last-child .plot g[aria-label=dot] path:nth-of-type(5)"],
        ["js", PANEL],
        ["js", RINGS],
        ["js", f"{FIND}.value = '新闻', {FIND}.dispatchEvent(new Event('input'))"],
        ["js", "document.getElementById('hits').textContent"],
        ["click", "#find"],
        ["key", "Enter"],
        ["js", PANEL],
        ["key", "Escape"],
        ["js", PANEL],
        ["click", "#groups button:first-child"],
        ["js", "document.querySelectorAll('#groups [aria-pressed=false]').length"],
        ["choose", ["#colour-by", "kept"]],
        ["js", "document.querySelectorAll('details').forEach((part) => { part.open = true; }), 1"],
        ["js", "[window.hit, document.querySelectorAll('img').length]"],
        ["requests", None],
        ["size", [390, 844]],
        ["js", WIDTHS],
        scheme="dark",
    )
    assert complaints == []
    assert given[1] == [True, ""]
    assert given[3][0] is False
    assert "第3条新闻" in given[3][1]
    assert "nearest, before" in given[3][1]
    assert given[4] == [6, 6]
    assert given[6] == "59 texts"
    assert "第0条新闻" in given[9][1]
    assert given[11][0] is True
    assert given[13] == 1
    assert given[16] == [None, 0]
    assert given[17] == []
    assert given[19] == [390, 390, "rgb(20, 23, 27)"]  # a phone scrolls frames alone sideways


def test_one_encoder_has_one_map_and_nothing_in_common(page):
    text = html(studied([f"文{number}" for number in range(12)], runs=("alone",)))
    assert "turned towards" not in text
    assert "CKA" not in text
