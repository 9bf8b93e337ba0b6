"""The three sentences of a report: nothing is said to be decided which is not, and the next run can be typed."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_fixture import report_of, small_picture

from juzhen.core.result import Score
from juzhen.metrics.matrix_statistics import expected_improvement, needed, two_way
from juzhen.report.answers import answers, find_targets
from juzhen.report.build import markdown
from juzhen.report.insights import Transfer, row_costs
from juzhen.report.matrix import build_matrix

COMMAND = ["train.py", "dataset=[a]", "seed=1", "logger.progress=false"]
SEEDS = (1, 2, 3)


def known(value, half=0.01):
    return Score(value, value - half, value + half, 2000)


@pytest.fixture
def trained(make_result):
    """A result of a training that took a minute, with a command."""

    def make(sets, scores, *, seed=1):
        named = {f"dev/{name}/spearman": known(value) for name, value in scores.items()}
        result = make_result(sets, named, seed=seed)
        words = [word.replace("[a]", f"[{','.join(sets)}]").replace("=1", f"={seed}") for word in COMMAND]
        training = {"train_seconds": 60.0, "rows_seen": 1000} if sets else {}
        return replace(
            result, key=f"{'-'.join(sets)}-{seed}", environment={"command": words}, training=training
        )

    return make


def targets_of(results):
    matrix = build_matrix(results, metric=None)
    return {target.column: target for target in find_targets(matrix, Transfer(matrix, matrix.columns))}


def test_a_clear_winner_is_named_with_its_gain_and_a_tie_with_what_would_decide_it(trained):
    results = [trained([], {"x": 0.5, "y": 0.5})]
    for seed, noise in zip(SEEDS, (-0.002, 0.0, 0.002), strict=True):
        results.append(trained(["a"], {"x": 0.7 + noise, "y": 0.61 + noise}, seed=seed))
        results.append(trained(["b"], {"x": 0.6 + noise, "y": 0.6 - noise}, seed=seed))
    report = report_of(results)
    decided, undecided, next_run = (english for english, _ in report.sentences)
    assert re.fullmatch(r"Train on a for x: \+20\.0 \[\S+, \S+\]\.", decided)
    low, high = map(float, re.findall(r"[\d.]+", decided.partition("[")[2])[:2])
    assert 15 < low < 20 < high < 25
    assert undecided.startswith("Undecided: y among 2 rows (")
    assert re.search(r"[\d,]+ rows in all", undecided)
    assert "one more seed of" in next_run
    words = shlex.split(report.command)
    assert words[:2] == ["python", "train.py"]
    assert words[-1] == "seed=42"
    assert not {"seed=1", "logger.progress=false"} & {*words}


def test_rows_that_share_a_set_decide_that_set(trained):
    results = [trained([], {"x": 0.5})]
    for seed, noise in zip(SEEDS, (-0.002, 0.0, 0.002), strict=True):
        results.append(trained(["a"], {"x": 0.7 + noise}, seed=seed))
        results.append(trained(["b", "a"], {"x": 0.701 - noise}, seed=seed))
        results.append(trained(["b"], {"x": 0.6 + noise}, seed=seed))
    (target,) = targets_of(results).values()
    assert {row.label for row in target.contenders} == {"a", "a + b"}
    assert (target.is_decided, target.shared) == (True, ["a"])


def test_one_seed_decides_nothing_and_the_next_run_is_a_second_one(trained):
    report = report_of([trained([], {"x": 0.5}), trained(["a"], {"x": 0.9}), trained(["b"], {"x": 0.6})])
    assert report.sentences[0][0].startswith(
        "Nothing is decided about what to train on: every training has one"
    )
    assert report.command == "python train.py 'dataset=[a]' seed=42"


def test_without_an_untrained_row_no_gain_is_told_and_it_is_the_next_run(trained):
    results = [
        trained([name], {"x": value + seed / 1000}, seed=seed)
        for name, value in (("a", 0.9), ("b", 0.6))
        for seed in SEEDS
    ]
    report = report_of(results)
    assert report.sentences[0][0] == "Train on a for x: gain not known."
    assert "untrained row" in report.sentences[2][0]
    assert report.command == "python train.py seed=1 'dataset=[]'"


def test_the_next_run_is_one_cell_of_a_sweep_and_is_put_among_the_reported_runs(trained):
    """Runs of a sweep in one process kept the words of the whole sweep before 0.3."""
    results = [trained([], {"x": 0.5})]
    for name, value in (("a", 0.9), ("b", 0.6)):
        result = trained([name], {"x": value})
        words = ["train.py", "-m", "sweep=s", "output_dir=elsewhere", "seed=1,2"]
        results.append(
            replace(result, environment={"command": words}, config=result.config | {"sweep_row": name})
        )
    matrix = build_matrix(results, metric=None)
    found = answers(matrix, Transfer(matrix, matrix.columns), row_costs(matrix), runs=Path("my/runs"))
    assert shlex.split(found.command) == [
        *("python", "train.py", "-m", "sweep=s", "hydra.sweeper.only=[a]", "seed=42", "output_dir=my/runs")
    ]


def test_the_next_run_keeps_the_precision_and_not_the_machine(trained):
    results = [trained([], {"x": 0.5})]
    for name, value in (("a", 0.9), ("b", 0.6)):
        result = trained([name], {"x": value})
        words = [*result.environment["command"], "hardware=cpu_bf16", "hardware.threads=1"]
        config = result.config | {"hardware": {"precision": "bf16-mixed"}}
        results.append(replace(result, environment={"command": words}, config=config))
    words = shlex.split(report_of(results).command)
    assert [word for word in words if word.startswith("hardware")] == ["hardware.precision=bf16-mixed"]


def test_one_run_and_no_command_are_told(make_result):
    report = report_of([make_result(["a"], {"dev/x/spearman": known(0.9)})])
    assert report.sentences[0][0] == "Nothing is decided about what to train on: only one row is scored."
    assert report.sentences[2][0].startswith("No next run can be named")
    assert report.command == ""
    nothing = report_of([make_result(["a"], {"dev/x/spearman": None})])
    assert nothing.sentences[0][0].startswith("No training of these results has a score")


def test_sets_without_a_value_do_not_choose_the_common_metric(make_result):
    scores = {"test/x/ndcg_at_10": known(0.9), "test/m/triplet_accuracy": None}
    matrix = build_matrix([make_result(["a"], scores), make_result(["b"], scores)], metric=None)
    assert (matrix.metric, matrix.counted) == ("ndcg_at_10", ["test/x"])


def test_trainings_without_a_score_beside_an_untrained_row_propose_no_run(trained, make_result):
    unscored = replace(
        make_result(["a"], {"dev/x/spearman": None}),
        environment={"command": COMMAND},
        training={"train_seconds": 60.0, "rows_seen": 1000},
    )
    report = report_of([trained([], {"x": 0.5}), unscored])
    assert report.sentences[0][0].startswith("No training of these results has a score")
    assert report.command == ""


def test_a_training_that_hurts_is_not_recommended(trained):
    results = [
        trained([], {"x": 0.9}),
        *(trained(["a"], {"x": 0.5 + seed / 1000}, seed=seed) for seed in SEEDS),
    ]
    assert report_of(results).sentences[0][0] == "Train on nothing for x, untrained is certainly better."


def test_a_new_pair_is_proposed_where_earlier_pairs_gained(trained):
    names, results = "abcd", [trained([], dict.fromkeys("wxyz", 0.5))]
    for seed in SEEDS:
        for place, name in enumerate(names):
            results.append(
                trained(
                    [name],
                    {to: 0.5 + 0.2 * (at == place) + seed / 1000 for at, to in enumerate("wxyz")},
                    seed=seed,
                )
            )
        for pair in ("ab", "cd", "ad"):
            results.append(
                trained(
                    [*pair],
                    {
                        to: 0.5 + 0.02 * at + 0.2 * (names[at] in pair) + seed / 1000
                        for at, to in enumerate("wxyz")
                    },
                    seed=seed,
                )
            )
    report = report_of(results)
    assert re.search(r"(a and then c|b and then c|b and then d)", report.sentences[2][0])
    assert "schedule=serial" in report.command
    assert re.search(r"dataset=\[(a,c|b,c|b,d)\]", report.command)


def test_the_report_opens_with_the_sentences_in_both_languages(make_result):
    report = report_of(small_picture(make_result))
    for is_chinese in (False, True):
        lines = markdown(report, is_chinese=is_chinese).split("\n\n")
        assert lines[1:4] == [sentence[is_chinese] for sentence in report.sentences]
    assert not re.search(r"[a-z]{3,} [a-z]{3,}", "".join(chinese for _, chinese in report.sentences))


def simulated(trained, draw, *, gains, seed_noise=0.01, row_noise=0.01):
    """Rows with known gains on one column; all share the noise of its rows, as one set is scored."""
    of_rows = draw.normal(0, row_noise / 2)
    results = [trained([], {"x": 0.5 + of_rows})]
    for name, gain in gains.items():
        own = draw.normal(0, row_noise / 4)
        for seed in SEEDS:
            results.append(
                trained([name], {"x": 0.5 + gain + of_rows + own + draw.normal(0, seed_noise)}, seed=seed)
            )
    return results


@pytest.mark.slow
def test_of_equal_rows_none_is_called_the_best_in_more_than_5_percent(trained):
    draw, gains = np.random.default_rng(0), dict.fromkeys("abcde", 0.05)
    found = [targets_of(simulated(trained, draw, gains=gains))["dev/x"].is_decided for _ in range(200)]
    assert np.mean(found) <= 0.05


@pytest.mark.slow
def test_the_best_row_stays_a_contender_in_95_percent(trained):
    draw, gains = np.random.default_rng(1), {"a": 0.05, "b": 0.045, "c": 0.03, "d": 0.0}
    kept = [
        "a" in {row.label for row in targets_of(simulated(trained, draw, gains=gains))["dev/x"].contenders}
        for _ in range(200)
    ]
    assert np.mean(kept) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 8])
def test_intervals_of_the_parts_of_a_matrix_cover_in_93_to_97_percent(missing):
    draw = np.random.default_rng(2)
    truth = {"row": 4.0, "column": 15.0, "interaction": 3.0, "seed": 1.0}
    covered = {name: [] for name in (*truth, "effect")}
    for _ in range(1000):
        rows, columns = draw.normal(0, truth["row"], 8), draw.normal(0, truth["column"], 9)
        cells = rows[:, None] + columns + draw.normal(0, truth["interaction"], (8, 9))
        scores = cells[..., None] + draw.normal(0, truth["seed"], (8, 9, 3))
        index = pd.MultiIndex.from_product([range(8), range(9), SEEDS], names=["row", "column", "seed"])
        frame = pd.DataFrame({"score": scores.ravel()}, index).reset_index()
        left_out = draw.choice(72, missing, replace=False)
        frame = frame[~(9 * frame["row"] + frame["column"]).isin(left_out)]
        found = two_way(frame)
        for part in found.parts:
            covered[part.name].append(part.low <= truth[part.name] <= part.high)
        effects = rows - rows.mean()
        covered["effect"] += [*((found.rows["low"] <= effects) & (effects <= found.rows["high"]))]
    shares = {name: float(np.mean(found)) for name, found in covered.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_what_is_needed_is_enough_and_no_less():
    rows, seeds = needed(2.0, 0.6, 0.3, rows=2000, seeds=3)
    factor = 2.8016
    for count, of_rows, of_seeds in (
        (rows, 0.6 * np.sqrt(2000 / rows), 0.3),
        (seeds, 0.6, 0.3 * np.sqrt(3 / seeds)),
    ):
        assert factor * np.hypot(of_rows, of_seeds) <= 2.0
        assert count == 2 or factor * np.hypot(of_rows, of_seeds) > 1.9
    assert needed(0.5, 1.0, 1.0, rows=2000, seeds=3) == (None, None)


def test_expected_improvement_is_that_of_draws():
    draws = np.random.default_rng(0).normal(-0.7, 1.3, 400_000)
    assert expected_improvement(0.7, 1.3) == pytest.approx(np.maximum(draws, 0).mean(), abs=0.005)
    assert (expected_improvement(1.0, 0.0), expected_improvement(-1.0, 0.0)) == (0.0, 1.0)
