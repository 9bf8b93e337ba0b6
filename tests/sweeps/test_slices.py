"""Changes by slice: which rows a slice has, against plain sums, that intervals cover, and on the page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_fixture import report_of, write_run_with_rows

from juzhen.core.result import Score
from juzhen.core.row_scores import SetRows
from juzhen.metrics.comparison import LEAST_ROWS, Scored, slice_changes, slices
from juzhen.report.collect import collect
from juzhen.report.page import html
from juzhen.report.page_data import panels


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("他来了", "他没来", "negation in one text"),
        ("He isn't here", "He is here", "negation in one text"),
        ("买3个", "买5个", "other numbers"),
        ("三天", "五天", "other numbers"),
        ("先洗手", "洗手", "words of order"),
        ("before lunch", "lunch", "words of order"),
        ("北京在南边", "南边在北京", "same characters, other order"),
    ],
)
def test_a_pair_is_in_its_slice_and_its_repetition_is_not(first, second, name):
    found = slices([first, first], [second, first])[name].tolist()
    assert found == [True, name == "words of order"]


def test_halves_hold_each_row_once():
    texts = ["a" * length for length in range(1, 12)]
    found = slices(texts, ["ab"] * len(texts))
    for low, high in (("shorter half", "longer half"), ("less overlap", "more overlap")):
        assert (found[low] ^ found[high]).all()


def scored(gold, score, *, kind="labelled_pair"):
    places = {name: np.arange(len(gold), dtype=np.int32) for name in ("row", "line")}
    columns = places | {"gold": np.asarray(gold, np.float32), "score": np.asarray(score, np.float32)}
    return Scored(SetRows(kind, "f", columns), threshold=0.5)


def test_flips_and_difference_are_those_of_a_plain_loop():
    draw = np.random.default_rng(0)
    gold = draw.integers(0, 2, 200)
    runs = [scored(gold, gold * 0.3 + draw.random(200) * 0.7) for _ in range(2)]
    mask = draw.random(200) < 0.4
    (change,) = slice_changes(*runs, {"some": mask, "few": np.arange(200) < LEAST_ROWS - 1})
    right = [(run.rows["score"] >= 0.5) == (gold == 1) for run in runs]
    lost = sum(a and not b for a, b, inside in zip(*right, mask, strict=True) if inside)
    won = sum(b and not a for a, b, inside in zip(*right, mask, strict=True) if inside)
    assert (change.rows, change.flipped) == (mask.sum(), (lost, won))
    assert change.gap.value == pytest.approx((won - lost) / mask.sum())


def test_without_decisions_the_metric_of_the_slice_is_compared():
    draw = np.random.default_rng(0)
    gold = draw.random(300)
    runs = [scored(gold, gold + draw.normal(0, noise, 300), kind="scored_pair") for noise in (0.5, 0.1)]
    mask = np.arange(300) % 3 == 0
    (change,) = slice_changes(*runs, {"third": mask})
    parts = [
        scored(gold[mask], run.rows["score"][mask], kind="scored_pair").value("spearman") for run in runs
    ]
    assert change.flipped is None
    assert change.gap.value == pytest.approx(parts[1] - parts[0])
    assert change.gap.interval[0] > 0


@pytest.mark.slow
def test_intervals_of_a_slice_cover_in_93_to_97_percent():
    draw, covered = np.random.default_rng(0), []
    gold = np.ones(300)
    for _ in range(1000):
        right = draw.random((2, 300)) < [[0.7], [0.8]]
        (change,) = slice_changes(*(scored(gold, side.astype(float)) for side in right), {"all": gold == 1})
        low, high = change.gap.interval
        covered.append(low <= 0.1 <= high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_the_page_has_the_slices_of_a_row_against_its_untrained_weights(make_result, tmp_path):
    made = make_result(["demo_qmc"], {"dev/demo_qmc/spearman": Score(0.691, 0.65, 0.75, 600)})
    write_run_with_rows(tmp_path / "trained", made)
    before = make_result([], {"dev/demo_qmc/spearman": Score(0.691, 0.65, 0.75, 600)})
    write_run_with_rows(tmp_path / "untrained", replace(before, key="untrained"))
    report = report_of(collect(Path(tmp_path), report=print))
    found = panels(report, worst=3)
    (sets,) = (panel["sets"] for number, panel in found.items() if report.matrix.rows[number].is_trained)
    lines = {name: line for name, *line in sets[0]["slices"]}
    assert sets[0]["against"] == "untrained"
    assert {"shorter half", "longer half", "less overlap"} <= {*lines}
    rows, before_only, now_only, change = lines["shorter half"]
    assert (before_only, now_only, change.split()[0]) == (
        0,
        0,
        "+0.0",
    )  # the fixture gives both the same scores
    assert rows > LEAST_ROWS
    assert "By slice" in html(report, title="T", worst=3)
    assert not any("slices" in part for panel in panels(report, worst=0).values() for part in panel["sets"])
