"""The page of a report: what it holds without a script, that it asks for nothing, and how it behaves in a browser."""

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from chromium import browse as chromium
from chromium import require_chromium
from report_fixture import (
    matrix_of,
    report_of,
    small_picture,
    write_audit,
    write_results,
    write_run_with_rows,
)

from juzhen.cli.main import main
from juzhen.core.result import Score
from juzhen.report.build import Report
from juzhen.report.collect import collect
from juzhen.report.html_shell import PARTS, ink_on, palettes
from juzhen.report.insights import row_costs
from juzhen.report.page import html
from juzhen.report.significance import LEVEL, compare_cells, difference_interval
from tools.archives import unpacked

EMPTY_TAGS = {"meta", "link", "wbr", "br", "img", "input", "hr"}
CELL = "#grid tbody tr:nth-child({}) td.cell:nth-of-type({})"
SVG = "{http://www.w3.org/2000/svg}"


class Outline(HTMLParser):
    """Every tag with its attributes, text by tag, and tags that do not close."""

    def __init__(self, text) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

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


@pytest.fixture(scope="module")
def page(tmp_path_factory, make_result):
    folder = tmp_path_factory.mktemp("report")
    runs = write_results(folder / "runs", small_picture(make_result))
    words = ["--leaks", str(write_audit(folder)), "--title", "Transfer <b>& back</b>"]
    assert main(["report", str(runs), *words]) == 0
    return runs / "report" / "index.html"


@pytest.fixture
def outline(page):
    return Outline(page.read_text(encoding="utf-8"))


def test_every_tag_closes_and_every_anchor_leads_somewhere(outline):
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in outline.all("a")} <= {f"#{name}" for name in ids}
    assert {label for tag in outline.all("section") if (label := tag.get("aria-labelledby"))} <= set(ids)


def test_a_policy_lets_nothing_in_but_the_scripts_of_the_page(page, outline):
    (policy,) = [
        tag["content"] for tag in outline.all("meta") if tag.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert len(digests) == 3
    sources = [
        value for _, tag in outline.tags for name, value in tag.items() if name in ("src", "srcset", "href")
    ]
    assert all(value == "data:," or value.startswith("#") for value in sources)
    assert not [name for _, tag in outline.tags for name in tag if name.startswith("on") or name == "style"]


def test_the_title_is_text(page, outline):
    assert outline.text["title"] == ["Transfer <b>& back</b>"]
    assert "Transfer <b>" not in page.read_text(encoding="utf-8")


def test_the_matrix_is_a_coloured_table_in_words_before_any_script_runs(page, outline):
    cells = [tag for tag in outline.all("td") if "cell" in (tag.get("class") or "").split()]
    assert len(cells) == 5 * 4
    colours = [tag["data-heat"] for tag in cells if tag.get("data-heat")]
    assert len(colours) == 11  # of three trained rows, but csts has no score on pawsx_zh
    assert {colour[0] for colour in colours} == {"g"}
    text = page.read_text(encoding="utf-8")
    (cell,) = re.findall(r"<td[^>]*><span class=\"long\">52\.0<(?:(?!<td).)*leaky(?:(?!<td).)*</td>", text)
    words = re.sub(r"<[^>]+>", "", cell)
    assert words == "52.052† ± 1.0, 95 % interval [50.0, 54.0]; leaky; best of the set"
    assert re.search(r"no score</i></span></td>", text)


def test_trained_rows_come_first(make_result):
    report = report_of(small_picture(make_result))
    assert [row.label for row in report.matrix.rows][:2] == ["lexical", "untrained"]
    page = html(report, title="T")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    labels = [row["label"] for row in data["rows"]]
    assert labels == ["csts", "lcqmc", "lcqmc → csts", "lexical", "untrained"]
    assert re.findall(r'class="row-name" tabindex="-1" title="([^"]*)"', page) == labels


def test_rows_of_a_table_are_as_long_as_its_head(page):
    for table in re.findall(r"<table.*?</table>", page.read_text(encoding="utf-8"), re.DOTALL):
        rows = [len(re.findall(r"<t[dh][ >]", row)) for row in table.split("<tr")[1:]]
        assert len(set(rows)) == 1


@pytest.mark.slow
def test_tables_without_a_line_are_absent(page, make_result):
    text = page.read_text(encoding="utf-8")
    assert "Nothing here to answer this from." not in text
    assert ">Leaks</summary>" in text
    alone = html(report_of([make_result(["csts"], {"dev/csts/spearman": 0.5})]), title="T")
    assert ">Leaks</summary>" not in alone
    nothing = html(report_of([make_result(["csts"], {"dev/csts/spearman": None})]), title="T")
    assert "No row has a score." in nothing


def test_libraries_are_those_of_the_registry_and_their_licences_are_in_the_page(page):
    readme = (PARTS / "vendor" / "README.md").read_text(encoding="utf-8")
    recorded = re.findall(
        r"^\| `(\S+)` \| .* \| ([\d.]+) \| ISC \| `([0-9a-f]{64})` \|$", readme, re.MULTILINE
    )
    assert [name for name, *_ in recorded] == ["d3.min.js", "plot.min.js"]
    text = page.read_text(encoding="utf-8")
    for name, version, digest in recorded:
        content = (PARTS / "vendor" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert f"v{version} " in content[:200].decode()
        assert content.decode().strip() in text
    assert "Permission to use, copy, modify, and/or distribute this software" in text


def luminance(colour):
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_every_number_and_every_quiet_word_can_be_read():
    steps = [colour for themes in palettes().values() for colours in themes.values() for colour in colours]
    assert min(contrast(colour, ink_on(colour)) for colour in steps) >= 4.5
    style = (PARTS / "page.css").read_text(encoding="utf-8")
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", style))
    for ink in ("ink", "quiet", "link"):
        for ground in ("paper", "raised", "card"):
            for word, field in zip(pairs[ink].split(", "), pairs[ground].split(", "), strict=True):
                assert contrast(word, field) >= 4.5, (ink, ground)


def test_an_interval_has_no_0_in_it_where_the_test_finds_a_difference(make_result):
    matrix = matrix_of(small_picture(make_result))
    compared = 0
    for first in matrix.rows:
        for second in matrix.rows:
            for column in first.cells.keys() & second.cells.keys():
                a, b = first.cells[column], second.cells[column]
                tested_by, gap = compare_cells(matrix, column, a, b)
                if first is second or tested_by != "intervals":
                    continue
                low, high, _ = difference_interval(matrix, column, a, b)
                assert (low > 0 or high < 0) == (gap.p < LEVEL)
                assert low <= 100 * (a.mean - b.mean) <= high
                compared += 1
    assert compared > 50


def test_without_intervals_the_seeds_that_both_have_are_paired(make_result):
    seeds = {1: (0.70, 0.65), 2: (0.72, 0.66), 3: (0.71, 0.67)}
    results = [
        make_result([name], {"dev/bq/spearman": values[place]}, seed=seed)
        for seed, values in seeds.items()
        for place, name in enumerate(("csts", "lcqmc"))
    ]
    matrix = matrix_of(results)
    a, b = (row.cells["dev/bq"] for row in matrix.rows)
    low, high, tested_by = difference_interval(matrix, "dev/bq", a, b)
    assert low < 5.0 < high
    assert tested_by == "seeds"
    assert (low > 0) == (compare_cells(matrix, "dev/bq", a, b)[1].p < LEVEL)
    assert difference_interval(matrix, "dev/bq", replace(a, values={1: 0.7}), b) is None


@pytest.fixture
def run_with_rows(tmp_path, make_result):
    score, before = Score(0.8, 0.75, 0.85, 600), Score(0.6, 0.5, 0.7, 600)
    made = make_result(
        ["demo_qmc"], {"dev/demo_qmc/spearman": score}, untrained={"dev/demo_qmc/spearman": before}
    )
    write_run_with_rows(tmp_path / "rows" / "run", made)
    return tmp_path / "rows"


def panels_of(page):
    return json.loads(re.search(r'id="panels">(.*?)</script>', page)[1])


def test_the_panel_has_scores_by_label_curves_and_the_pairs_furthest_from_their_label(run_with_rows):
    report = report_of(collect(run_with_rows, report=print))
    panels = panels_of(html(report, title="T", worst=4))
    assert list(panels) == ["0"]  # the run measured the untrained weights too, but not row by row
    (scored,) = panels["0"]["sets"]
    assert {name: sum(counts) for name, counts in scored["counts"].items()} == {
        "label 0": 300,
        "label 1": 300,
    }
    assert len(scored["worst"]) == 4
    for pair in scored["worst"]:
        assert len(pair["texts"]) == 2
        assert all(pair["texts"])
        assert (pair["score"] > 0.5) == (pair["gold"] == "0")
    dev, loss = panels["0"]["curves"]
    assert (dev["of"], dev["points"][0], dev["points"][-1]) == (
        "dev/demo_qmc/spearman",
        [1, 50.0],
        [26, 75.0],
    )
    assert loss["of"] == "train/loss"


def test_no_sentence_is_quoted_unasked_nor_of_files_that_hold_other_rows(run_with_rows):
    report = report_of(collect(run_with_rows, report=print))
    (scored,) = panels_of(html(report, title="T"))["0"]["sets"]
    assert "worst" not in scored or scored["worst"] == []
    result = report.matrix.rows[1].latest
    result.config["evaluation"] = {"limit": 10}  # other rows than those that were scored
    (scored,) = panels_of(html(report, title="T", worst=4))["0"]["sets"]
    assert scored["worst"] == []


ATTACK = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\u2028'\"&<svg/onload=window.hit=1>"


@pytest.fixture
def attack(tmp_path, make_result, monkeypatch):
    """A page whose names, settings, commands and sentences are all meant to run."""
    name = ATTACK.replace("/", "\\")
    results = [
        make_result([name], {f"test/{name}/spearman": 0.7, "test/lcqmc/spearman": Score(0.6, 0.5, 0.7)}),
        make_result(
            ["lcqmc"],
            {"test/lcqmc/spearman": Score(0.65, 0.5, 0.7)},
            backbone={"path": ATTACK, "pooling": "mean"},
        ),
    ]
    for result in results:
        result.environment = {"command": ["train.py", ATTACK], "device": ATTACK, "git_commit": ATTACK}
        result.training = {"train_seconds": 40.0, "rows_seen": 100}
    hostile = {"worst": [{"texts": [ATTACK, ATTACK], "score": 0.5, "gold": ATTACK}], "column": 0, "seed": 1}
    hostile |= {"ends": [0, 1], "counts": {ATTACK: [1, 2]}, "threshold": None}
    curve = {"of": f"dev/{name}/spearman", "seed": 1, "points": [[1, 2.0], [2, 3.0]]}
    monkeypatch.setattr(
        "juzhen.report.page.panels", lambda *_, **__: {0: {"sets": [hostile], "curves": [curve]}}
    )
    path = tmp_path / "attack.html"
    path.write_text(html(report_of(results), title=ATTACK), encoding="utf-8")
    return path


def test_names_and_sentences_of_strangers_are_text(attack):
    text = attack.read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.open == []
    assert len(outline.all("script")) == 5
    assert not outline.all("img")
    assert not outline.all("svg")
    assert panels_of(text)["0"]["sets"][0]["worst"][0]["texts"] == [ATTACK, ATTACK]


@pytest.fixture
def browse(page):
    """Runs steps in Chromium; see browser.py."""
    require_chromium()

    def run(*steps, scheme="light", page=page):
        given, complaints = chromium(page, *steps, scheme=scheme)
        assert complaints == []
        return given

    return run


PANEL = "[document.getElementById('panel').hidden, document.getElementById('panel').innerText]"
FOCUS = "document.activeElement.firstChild.textContent"
WIDTHS = "[document.documentElement.scrollWidth, innerWidth]"
LABELS = "[...document.querySelectorAll('#grid tbody .row-name')].map((name) => name.innerText)"
HEADS = "[...document.querySelectorAll('#grid thead th')].map((name) => name.innerText.trim())"
NAMES = "#grid .row-name, td:first-child:not(.corner)"
READY = "performance.getEntriesByName('charts').length"


def test_nothing_of_a_stranger_runs(attack):
    require_chromium()
    given, complaints = chromium(
        attack,
        ["until", READY],
        ["click", CELL.format(2, 1)],
        ["js", "document.querySelectorAll('details').forEach((part) => { part.open = true; }), 1"],
        [
            "js",
            "[window.hit, document.querySelectorAll('img').length, document.body.innerText.includes('onerror')]",
        ],
        [
            "js",
            "(() => { try { document.body.innerHTML = '<b>'; return 'set'; } catch { return 'refused'; } })()",
        ],
        ["requests", None],
    )
    assert given[3] == [None, 0, True]
    assert given[4] == "refused"
    assert complaints == ["This document requires 'TrustedHTML' assignment. The action has been blocked."]
    assert given[5] == []


@pytest.mark.slow
def test_a_pointer_shows_a_cell_and_keys_move_on(browse):
    given = browse(
        ["until", READY],
        ["js", PANEL],
        ["hover", CELL.format(2, 1)],
        ["js", PANEL],
        ["click", CELL.format(2, 2)],
        ["js", FOCUS],
        ["js", PANEL],
        ["key", "ArrowUp"],
        ["key", "ArrowRight"],
        ["js", FOCUS],
        ["key", "Enter"],
        ["js", PANEL],
        ["key", "Escape"],
        ["js", PANEL],
        ["js", FOCUS],
        ["key", "Home"],
        ["key", "ArrowLeft"],
        ["js", "document.activeElement.innerText"],
        ["key", "Enter"],
        ["js", "document.getElementById('run-row').selectedOptions[0].text"],
        ["requests", None],
    )
    assert given[1] == [True, ""]
    assert given[3][0] is False
    for fact in (
        "lcqmc on bq (dev)",
        "50.0 to 54.0",
        "1: 52.0, 2: 53.0, 3: 51.0",
        "+19.0 over untrained",
        "10,000",
    ):
        assert fact in given[3][1]
    assert "400 rows, 4.0 %, from lcqmc" in given[3][1]
    assert given[5] == "75.0"
    assert "python train.py 'dataset=[lcqmc]' seed=1" in given[6][1]
    assert "0123456789" in given[6][1]
    assert given[9] == "58.0"
    assert "csts on lcqmc (dev)" in given[11][1]
    assert given[13][0] is True
    assert given[14] == "58.0"
    assert given[17] == "csts"
    assert given[19] == "csts"
    assert given[20] == []


@pytest.mark.slow
def test_rows_and_columns_are_sorted_by_either_with_what_is_missing_last(browse):
    head = "#grid thead th[data-column='3'] button"  # pawsx_zh: csts has no score
    steps = [step for _ in range(3) for step in (["click", head], ["js", LABELS])]
    by_row = [
        ["choose", ["#column-order", "2"]],
        ["js", HEADS],
        ["choose", ["#row-order", "alike"]],
        ["js", LABELS],
    ]
    given = browse(["until", READY], ["js", LABELS], *steps, *by_row)
    before, down, up, back = given[1], given[3], given[5], given[7]
    assert down == ["lcqmc → csts", "lcqmc", "untrained", "lexical", "csts"]
    assert up == ["lexical", "untrained", "lcqmc", "lcqmc → csts", "csts"]
    assert back == before
    assert given[9] == ["csts", "lcqmc", "bq", "pawsx_zh"]
    assert given[11][-2:] == ["lexical", "untrained"]


@pytest.mark.slow
def test_colours_follow_the_choice(browse):
    heat = "[...document.querySelectorAll('#grid tbody tr:nth-child(2) td')].map((cell) => cell.dataset.heat)"
    given = browse(["until", READY], ["js", heat], ["choose", ["#colour-by", "score"]], ["js", heat])
    assert [step[0] for step in given[1]] == ["g"] * 4
    assert [step[0] for step in given[3]] == ["s"] * 4


@pytest.mark.slow
def test_sections_say_something_or_are_absent(browse, make_result, tmp_path):
    sections = "[...document.querySelectorAll('main > section')].filter((part) => !part.hidden).map((part) => part.id)"
    alone = tmp_path / "alone.html"
    alone.write_text(html(report_of([make_result(["csts"], {"dev/csts/spearman": 0.5})]), title="T"), "utf-8")
    assert browse(["until", READY], ["js", sections])[1] == [
        "answer",
        "matrix",
        "run",
        "costs",
        "undecided",
        "tables",
    ]
    assert browse(["until", READY], ["js", sections], page=alone)[1] == ["answer", "matrix", "run", "tables"]


@pytest.mark.slow
def test_a_phone_scrolls_only_frames_sideways_and_a_tap_opens_the_panel_at_the_foot(browse):
    box = "(({left, right, bottom}) => [left, innerWidth - right, innerHeight - bottom])"
    given = browse(
        ["size", [390, 844]],
        ["until", READY],
        ["js", "document.querySelectorAll('details').forEach((part) => { part.open = true; }), 1"],
        ["js", WIDTHS],
        [
            "js",
            f"Math.min(...[...document.querySelectorAll('{NAMES}')].map((name) => name.offsetWidth))",
        ],
        ["tap", CELL.format(3, 1)],
        ["js", PANEL],
        ["js", f"{box}(document.getElementById('panel').getBoundingClientRect())"],
    )
    assert given[3] == [390, 390]
    assert given[4] > 80  # a name has room for words
    assert "csts on bq (dev)" in given[6][1]
    assert given[7] == [0, 0, 0]


@pytest.mark.slow
def test_dark_is_dark_light_is_light_and_the_switch_says_which(browse):
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = f"[{ground}, document.querySelector('#run svg').getAttribute('style')]"
    light = browse(
        ["until", READY], ["js", colours], ["click", "#theme"], ["click", "#theme"], ["js", colours]
    )
    assert light[1][0] == "rgb(255, 255, 255)"
    assert light[4][0] == "rgb(20, 23, 27)"
    dark = browse(["until", READY], ["js", colours], scheme="dark")
    assert dark[1] == light[4] != light[1]


@pytest.mark.slow
def test_what_is_seen_is_saved_as_svg_with_words_and_no_style_of_the_page(browse, tmp_path):
    files = [tmp_path / f"{name}.svg" for name in ("matrix", "costs")]
    given = browse(
        ["until", READY],
        ["download", [".save[data-figure=matrix]", str(files[0])]],
        ["download", ["#costs .save", str(files[1])]],
        ["pdf", str(tmp_path / "page.pdf")],
    )
    assert given[1:3] == ["matrix.svg", "costs.svg"]
    matrix, costs = (ElementTree.parse(file).getroot() for file in files)
    words = {"".join(text.itertext()).strip() for text in matrix.iter(f"{SVG}text")}
    assert {"lexical", "untrained", "lcqmc → csts", "bq (dev)", "78.0", "52.0†", "50.0▽"} <= words
    assert any("training time" in "".join(text.itertext()) for text in costs.iter(f"{SVG}text"))
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "<style" not in text
        assert "light-dark" not in text
        assert "http" not in text.replace("http://www.w3.org/", "")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_the_panel_of_a_run_is_drawn(browse, run_with_rows, tmp_path):
    path = tmp_path / "rows.html"
    path.write_text(
        html(report_of(collect(run_with_rows, report=print)), title="句阵", worst=3), encoding="utf-8"
    )
    titles = "[...document.querySelectorAll('#run h3')].map((title) => title.innerText)"
    chinese = "[...document.querySelectorAll('.worst p[lang=zh-Hans]')].length"
    selected = "document.getElementById('run-row').selectedOptions[0].text"
    given = browse(["until", READY], ["js", titles], ["js", chinese], ["js", selected], page=path)
    assert given[3] == "demo_qmc"
    assert given[1] == [
        "Before and after training",
        "Scores by label, demo_qmc (dev)",
        "Worst pairs, demo_qmc (dev)",
        "By slice, demo_qmc (dev)",
        "Dev scores while training",
        "Loss while training",
    ]
    assert given[2] == 6


OVER = "((frame) => frame.scrollWidth - frame.clientWidth)(document.getElementById('frame'))"
FIRST = (
    "((frame) => { frame.scrollLeft = 200; return Math.round("
    "frame.querySelector('tbody th').getBoundingClientRect().left - frame.getBoundingClientRect().left); })"
    "(document.getElementById('frame'))"
)


@pytest.mark.slow
def test_the_committed_matrix_fits_a_window_and_its_labels_stay_on_a_phone(browse, tmp_path):
    committed = unpacked() / "transfer" / "runs"
    assert main(["report", str(committed), "--out", str(tmp_path / "wide")]) == 0
    page = tmp_path / "wide" / "index.html"
    given = browse(
        ["until", READY],
        ["js", OVER],
        ["size", [390, 844]],
        ["js", OVER],
        ["js", WIDTHS],
        ["js", FIRST],
        page=page,
    )
    assert given[1] == 0
    assert given[3] > 0
    assert given[4] == [390, 390]
    assert given[5] <= 1


ROWS, SETS, SEEDS = 74, 16, 3


@pytest.mark.slow
def test_74_rows_16_sets_and_3_seeds_are_there_within_a_second(make_result, tmp_path):
    require_chromium()
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("other programs keep this machine busy: a time would say nothing")
    draw, results = np.random.default_rng(0), []
    for row, seed in product(range(ROWS), range(SEEDS)):
        trained = [f"set_{number:02d}" for number in {row % SETS, row // SETS}][: row + 1] if row else []
        values = 0.3 + 0.03 * np.arange(SETS) + draw.normal(0, 0.04, SETS)
        scores = {
            f"test/set_{at:02d}/spearman": Score(v, v - 0.02, v + 0.02, 2000) for at, v in enumerate(values)
        }
        made = make_result(
            trained, scores, seed=seed, loss={"name": "cosent", "temperature": 0.05 + row / 1000}
        )
        environment = {
            "command": ["train.py", f"dataset=[{','.join(trained)}]", f"seed={seed}"],
            "device": "cpu",
        }
        training = {"train_seconds": 40.0 + row, "rows_seen": 16000 + row}
        results.append(replace(made, key=f"{row}-{seed}", environment=environment, training=training))
    matrix = matrix_of(results)
    assert (len(matrix.rows), len(matrix.columns)) == (ROWS, SETS)
    nothing = pd.DataFrame()
    path = tmp_path / "wide.html"
    path.write_text(
        html(Report(matrix, row_costs(matrix), nothing, nothing, [], len(results)), title="T"), "utf-8"
    )
    assert path.stat().st_size < 1.5e6
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    taken = []
    for _ in range(3):
        given, complaints = chromium(path, ["until", READY], ["js", paint])
        taken.append(given[1])
        assert complaints == []
    assert min(taken) < 1000, taken
