"""Calibration of scores whose true probabilities are known, and the command on finished runs."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import run_job
from pages import heads, quoted
from refusals import counts_told
from scipy.special import expit
from scipy.stats import rankdata

from juzhen.calibration.calibration import (
    calibrated,
    calibration_errors,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    fit_weight,
    nll,
    reliability,
    standardised,
)
from juzhen.calibration.pair_scorer import Scorer
from juzhen.calibration.run_scores import halves
from juzhen.cli.main import main
from juzhen.cli.score import PairTableOptions, score
from juzhen.core.errors import UserError
from juzhen.core.file_guard import LIST
from juzhen.core.paths import BUILTIN
from juzhen.core.result import weights_digest
from juzhen.encoders import load_encoder
from juzhen.evaluation.run import evaluate
from juzhen.evaluation.scoring import fitted_threshold
from juzhen.metrics.correlation import spearman

QMC = BUILTIN / "data" / "demo_qmc"


def drawn(rows=40_000, *, slope=1.0, shift=0.0, seed=0):
    """Scores, and labels of which each is 1 with probability sigmoid(slope · score + shift)."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(0, 3, rows)
    return scores, (generator.random(rows) < expit(slope * scores + shift)).astype(np.float32)


@pytest.mark.parametrize("temperature", [0.25, 1.0, 4.0])
def test_the_known_temperature_is_found(temperature):
    scores, labels = drawn(slope=1 / temperature)
    assert fit_temperature(scores, labels) == pytest.approx(temperature, rel=0.05)
    assert fit_temperature(1000 * scores, labels) == pytest.approx(1000 * temperature, rel=0.05)


def test_the_temperature_is_the_best_of_all():
    scores, labels = drawn(rows=500, slope=0.3)
    found = fit_temperature(scores, labels)
    best = nll(scores / found, labels)
    assert all(best <= nll(scores / (found * factor), labels) for factor in (0.5, 0.99, 1.01, 2))


def test_the_known_line_is_found():
    scores, labels = drawn(slope=0.4, shift=-1.5)
    assert fit_platt(scores, labels) == pytest.approx((0.4, -1.5), rel=0.05)
    moved = fit_platt(0.01 * scores + 7, labels)
    assert moved == pytest.approx((40, -1.5 - 40 * 7), rel=0.05)


def test_separable_rows_have_a_finite_line():
    scores, labels = np.linspace(-1, 1, 20), (np.linspace(-1, 1, 20) > 0).astype(np.float32)
    assert np.isfinite(fit_platt(scores, labels)).all()
    assert fit_temperature(scores, labels) > 0
    # Of scores that say the opposite a temperature tells nothing: the highest that is looked at.
    assert fit_temperature(-scores, labels) == pytest.approx(np.exp(7) * np.std(scores), rel=1e-3)


def test_the_line_is_the_likeliest_for_the_targets_of_platt():
    """At the minimum both derivatives are 0, with targets 4/5 for three positives, and 1/6 for four negatives."""
    scores, labels = np.array([-2.0, -1.0, 0.5, 3.0, 1.0, -0.5, 2.0]), np.array([0, 0, 0, 0, 1, 1, 1])
    slope, shift = fit_platt(scores, labels)
    errors = [
        expit(slope * one + shift) - (4 / 5 if label else 1 / 6)
        for one, label in zip(scores, labels, strict=True)
    ]
    assert np.mean(errors) == pytest.approx(0, abs=1e-7)
    assert np.mean(errors * scores) == pytest.approx(0, abs=1e-7)


def test_each_scaling_is_judged_on_the_other_rows():
    fitted, judged = drawn(300, slope=0.3, shift=1.0), drawn(200, slope=0.3, shift=1.0, seed=1)
    found = calibrated(fitted, judged)
    temperature, (slope, shift) = fit_temperature(*fitted), fit_platt(*fitted)
    assert found["fitted"] == {"temperature": [temperature], "platt": [slope, shift]}
    scores, labels = judged
    logits = {"raw": scores, "temperature": scores / temperature, "platt": slope * scores + shift}
    assert [len(found[name]["bins"]) for name in logits] == [15] * 3
    for name, values in logits.items():
        assert found[name]["nll"] == pytest.approx(nll(values, labels), rel=1e-9)
        assert found[name]["brier"] == pytest.approx(np.mean((expit(values) - labels) ** 2), rel=1e-6)


def test_scaling_mends_overconfidence():
    scores, labels = drawn(slope=0.25)
    before = calibration_errors(scores, labels)
    after = calibration_errors(scores / fit_temperature(scores, labels), labels)
    assert before["ece"] > 0.1
    assert after["ece"] < 0.02
    assert after["brier"] < before["brier"]


def test_halves_share_the_classes_and_every_row():
    labels = np.array([0, 1] * 25 + [0] * 10)
    first, second = halves(labels)
    assert sorted([*first, *second]) == list(range(60))
    assert abs(labels[first].sum() - labels[second].sum()) <= 1


def test_the_weight_is_that_of_the_better_mixture():
    generator = np.random.default_rng(1)
    grades = generator.random(2000)
    first, second = (grades + generator.normal(0, noise, 2000) for noise in (0.3, 0.6))
    weight = fit_weight(*(standardised(one, one)[0] for one in (first, second)), grades)
    assert 0.6 < weight < 0.95
    fused = weight * first + (1 - weight) * second
    assert spearman(fused, grades) > max(spearman(first, grades), spearman(second, grades))
    assert fit_weight(grades, generator.random(2000), grades) == 1
    assert fit_weight(grades, grades, grades) == 0.5


def test_other_scores_are_standardised_by_the_fitted_ones():
    fitted, judged = standardised([1.0, 3.0, 5.0], [3.0, 7.0])
    assert fitted.tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert judged.tolist() == pytest.approx([0, 4 / (8 / 3) ** 0.5])


def test_scores_that_do_not_differ_give_the_share_of_positives():
    scores, labels = np.full(8, 0.4), np.array([1, 1, 1, 1, 1, 1, 0, 0])
    slope, shift = fit_platt(scores, labels)
    assert expit(slope * 0.4 + shift) == pytest.approx((6 * 7 / 8 + 2 / 4) / 8, abs=1e-6)
    assert expit(0.4 / fit_temperature(scores, labels)) == pytest.approx(6 / 8, abs=1e-6)
    fitted, judged = standardised(np.full(3, 2.0), np.array([2.0, 5.0]))
    assert (fitted.tolist(), judged.tolist()) == ([0, 0, 0], [0, 3])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 20))
def test_bins_hold_what_lies_in_them(rows, num_bins):
    probabilities, labels = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    bins = reliability(probabilities, labels, num_bins=num_bins)
    members = [[] for _ in range(num_bins)]
    for probability, label in rows:
        members[min(int(probability * num_bins), num_bins - 1)].append((probability, label))
    assert [one.count for one in bins] == [len(one) for one in members]
    gaps = 0.0
    for found, (each) in zip(bins, members, strict=True):
        means = np.mean(each, axis=0) if each else [None, None]
        assert [found.probability, found.positives] == pytest.approx([*means])
        gaps += abs(means[0] - means[1]) * len(each) if each else 0
    assert expected_calibration_error(bins) == pytest.approx(gaps / len(rows))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_weight_is_the_best_of_a_hundred_and_the_most_even_of_the_best(seed):
    first, second, grades = np.random.default_rng(seed).integers(0, 5, (3, 12)).astype(float)
    places = np.arange(101)
    mixed = rankdata([place / 100 * first + (1 - place / 100) * second for place in places], axis=1)
    found = np.array([np.corrcoef(ranks, rankdata(grades))[0, 1] for ranks in mixed]).round(9)
    best = places[found == found.max()]
    assert fit_weight(first, second, grades) == best[np.argmin(abs(best - 50))] / 100


@pytest.mark.slow
def test_calibrate_writes_what_it_prints(runs, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("COLUMNS", raising=False)  # Markdown, as in a pipe
    assert main(["calibrate", str(runs[0]), "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        LIST,
        "calibration-demo_qmc.json",
        "calibration-demo_qmc.svg",
    ]
    report = json.loads((tmp_path / "calibration-demo_qmc.json").read_text())
    assert report["rows"] == report["rows_fitted_on"] == 600
    assert f"{report['platt']['ece']:.4f}" in printed
    assert "fitted on dev, judged on test" in printed
    for name in ("docs/guides/cross_encoders.md", "docs/guides/cross_encoders.zh.md"):
        assert heads(quoted(name, "| set | rows |")) == heads(printed)
    assert report["temperature"]["nll"] <= report["raw"]["nll"] + 0.02


@pytest.mark.slow
def test_without_test_half_of_dev_is_held_out_and_said_so(tmp_path, tiny_backbone, capsys):
    words = ("model=crossencoder", "dataset=[demo_qmc]", "loss=ce", "training.duration=2 steps")
    run = run_job(tmp_path, tiny_backbone, *words, "evaluation.splits=[dev]")
    assert main(["calibrate", str(run), "--no-plot"]) == 0
    assert "no test split: fitted on one half of dev, judged on the other" in capsys.readouterr().out
    report = json.loads((run / "analysis" / "calibration-demo_qmc.json").read_text())
    assert (report["rows"], report["rows_fitted_on"]) == (300, 300)
    assert not list((run / "analysis").glob("*.svg"))


@pytest.mark.slow
def test_fuse_joins_a_logit_and_a_cosine(runs, tmp_path, capsys):
    assert main(["fuse", *map(str, runs), "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for name in ("demo_qmc", "demo_sts"):
        report = json.loads((tmp_path / f"fusion-{name}.json").read_text())
        assert 0 <= report["alpha"] <= 1
        assert report["fused"]["spearman"]["low"] <= report["fused"]["spearman"]["high"]
        assert f"{100 * report['fused']['spearman']['value']:.2f}" in printed
    assert "accuracy" in json.loads((tmp_path / "fusion-demo_qmc.json").read_text())["fused"]


@pytest.mark.slow
def test_scores_are_those_of_the_verb_score(runs, tmp_path):
    from juzhen.calibration.run_scores import ScoredRun

    for run in runs:
        scored = ScoredRun(run, data_dir=None, batch_tokens=2048).scored("demo_qmc", "dev")
        pair = [scored.examples.texts(column)[7] for column in ("text_a", "text_b")]
        table, output = tmp_path / "pair.tsv", tmp_path / "scored.tsv"
        table.write_text("\t".join(pair) + "\n", encoding="utf-8")
        score(run, file=table, table=PairTableOptions(header=False), output=output)
        found = float(output.read_text(encoding="utf-8").split("\t")[2])
        assert found == pytest.approx(scored.scores[7], abs=1e-5)


@pytest.fixture
def predicted(project_root, tmp_path):
    """A function: the scores that `juzhen score` gives the test pairs of demo_qmc."""
    pairs = project_root / "juzhen/builtin/data/demo_qmc/test.tsv"

    def run(*words):
        output = tmp_path / "scored.tsv"
        assert main(["score", *map(str, words), "--file", str(pairs), "--output", str(output)]) == 0
        return np.array([float(line.split("\t")[-1]) for line in output.read_text("utf-8").splitlines()[1:]])

    return run


def gold(project_root):
    lines = (project_root / "juzhen/builtin/data/demo_qmc/test.tsv").read_text("utf-8").splitlines()
    place = lines[0].split("\t").index("label")
    return np.array([float(line.split("\t")[place]) for line in lines[1:]])


@pytest.fixture
def scorer(encoder_folder, tmp_path):
    """A function: the scorer of a fusion of an encoder with itself, or of other options."""
    weights = weights_digest(encoder_folder)
    report = {"runs": ["one", "other"], "weights": [weights, weights], "fitted": {}, "alpha": 0.25}
    report |= {"means": [0.1, 0.3], "deviations": [2, 0.5], "threshold": {"value": 0.6}}
    file = tmp_path / "fusion-faq.json"
    file.write_text(json.dumps(report))
    options = {"encoder": None, "fuse": [encoder_folder] * 2, "calibration": file, "scaling": None}
    options |= {"backend": "torch", "cache": None, "batch_tokens": 4096}
    return lambda **more: Scorer(**options | more)


def test_a_fusion_is_computed_and_decides_by_the_numbers_of_its_file(scorer, encoder_folder):
    fused = scorer()
    one = load_encoder(encoder_folder).score("怎么退货", "如何退货")
    (found,) = scores = fused.scores(["怎么退货"], ["如何退货"], progress=False)
    assert found == pytest.approx(0.25 * (one - 0.1) / 2 + 0.75 * (one - 0.3) / 0.5, abs=1e-4)
    assert fused.shown(scores) is scores
    assert (fused.decide, fused.limit) == (False, 0.6)
    assert scorer(threshold="0.7").decide
    assert scorer(threshold="0.7").limit == 0.7


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"encoder": "builtin/mini_zh", "fuse": None}, "--fuse RUN RUN"),
        ({"encoder": None, "fuse": None, "calibration": None}, "juzhen score"),
        ({"calibration": None}, "--fuse needs --calibration"),
        ({"encoder": "builtin/mini_zh", "fuse": None, "calibration": None, "scaling": "platt"}, "--scaling"),
        ({"backend": "onnx"}, "--backend"),
        ({"cache": Path("kept")}, "--cache"),
        ({"truncate_dim": 8}, "--truncate-dim"),
        ({"threshold": "faq"}, "--threshold"),
        *(
            (
                {"encoder": "builtin/mini_zh", "fuse": None, "calibration": None, "truncate_dim": 8} | more,
                "--tr",
            )
            for more in ({"decide": True}, {"threshold": "0.7"})
        ),
    ],
)
def test_options_that_do_not_go_with_a_fusion_are_refused(scorer, more, key):
    with pytest.raises(UserError, match=key):
        _ = scorer(**more).limit


@pytest.mark.slow
def test_new_pairs_are_scored_as_the_two_runs_were_fused(runs, fitted, predicted, project_root):
    file = fitted / "fusion-demo_qmc.json"
    report = json.loads(file.read_text())
    fused = predicted("--fuse", *runs, "--calibration", file)
    first, second = (
        (predicted(run) - mean) / deviation
        for run, mean, deviation in zip(runs, report["means"], report["deviations"], strict=True)
    )
    alpha, told = report["alpha"], report["fused"]["spearman"]["value"]
    np.testing.assert_allclose(fused, alpha * first + (1 - alpha) * second, atol=1e-3)
    # The rows are those that the fusion was judged by.
    assert spearman(fused, gold(project_root)) == pytest.approx(told, abs=1e-4)
    slope, shift = report["fitted"]["platt"]
    probable = predicted("--fuse", *runs, "--calibration", file, "--scaling", "platt")
    np.testing.assert_allclose(probable, expit(slope * fused + shift), atol=1e-4)
    told = report["calibration"]["platt"]["ece"]
    found = expected_calibration_error(reliability(probable, gold(project_root)))
    assert found == pytest.approx(told, abs=0.02)


@pytest.mark.slow
def test_a_calibrated_run_gives_probabilities(runs, fitted, predicted, capsys):
    file = fitted / "calibration-demo_qmc.json"
    report, raw = json.loads(file.read_text()), predicted(runs[1])
    slope, shift = report["fitted"]["platt"]
    found = predicted(runs[1], "--calibration", file)
    np.testing.assert_allclose(found, expit(slope * raw + shift), atol=1e-4)
    (temperature,) = report["fitted"]["temperature"]
    scaled = predicted(runs[1], "--calibration", file, "--scaling", "temperature")
    np.testing.assert_allclose(scaled, expit(raw / temperature), atol=1e-4)
    capsys.readouterr()
    words = ["--calibration", str(file), str(runs[1] / "encoder"), "怎么改密码", "密码怎么修改"]
    assert main(["score", *words]) == 0
    assert 0 < float(capsys.readouterr().out) < 1


@pytest.mark.slow
def test_two_sentences_are_scored_by_two_runs(runs, fitted, capsys):
    words = ["--fuse", *map(str, runs), "--calibration", str(fitted / "fusion-demo_sts.json")]
    assert main(["score", *words, "今天下雨", "今天有雨"]) == 0
    one = float(capsys.readouterr().out)
    assert main(["score", "今天下雨", *words, "今天有雨"]) == 0
    assert float(capsys.readouterr().out) == one


@pytest.mark.slow
def test_two_fused_runs_are_a_teacher(runs, fitted, tmp_path):
    table = tmp_path / "silver" / "fused.tsv"
    words = ["distill", str(fitted / "fusion-demo_qmc.json"), "demo_qmc"]
    words += ["--split", "test", "--out", str(table)]
    assert main([*words, "--limit", "40"]) == 0
    lines = [line.split("\t") for line in table.read_text("utf-8").splitlines()[1:]]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join("\t".join(line[:2]) + "\n" for line in lines), encoding="utf-8")
    options = ["--fuse", *map(str, runs), "--calibration", str(fitted / "fusion-demo_qmc.json")]
    assert main(["score", *options, "--file", str(pairs), "--no-header"]) == 0
    scored = (tmp_path / "pairs.scored.tsv").read_text("utf-8").splitlines()
    np.testing.assert_allclose(
        [float(line[2]) for line in lines], [float(line.split("\t")[2]) for line in scored], atol=1e-4
    )
    about = (tmp_path / "silver" / "conf" / "dataset" / "fused.yaml").read_text("utf-8")
    assert "graded by two fused models (logit)" in about

    assert main([*words, "--limit", "40", "--grade", "probability"]) == 0
    values = [float(line.split("\t")[2]) for line in table.read_text("utf-8").splitlines()[1:]]
    assert 0 < min(values) < max(values) < 1


def write_pairs(path, split, *, kept=slice(None), head="问题,相似问题,是否同义"):
    """The first rows of a split of demo_qmc as a table of a person; gives texts and labels."""
    rows = [line.split("\t") for line in (QMC / f"{split}.tsv").read_text("utf-8").splitlines()[1:61]]
    rows = [row for row in rows if row[2] in ("0", "1")[kept]]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head.split(","), *(row[: head.count(",") + 1] for row in rows)])
    return [(one, other) for one, other, _ in rows], np.array([int(row[2]) for row in rows])


def report_of(folder, name):
    return json.loads((folder / f"calibration-{name}.json").read_text())


def test_a_table_of_labelled_pairs_is_calibrated_by_the_scores_of_any_encoder(
    encoder_folder, tmp_path, capsys
):
    pairs, labels = write_pairs(tmp_path / "faq.csv", "dev")
    words = ["calibrate", str(encoder_folder), "--data", str(tmp_path / "faq.csv"), "--no-plot"]
    assert main(words) == 0
    printed, report = capsys.readouterr().out, report_of(tmp_path / "analysis", "faq")
    scores = load_encoder(encoder_folder).score(pairs).astype(np.float64)
    first, second = halves(labels)
    expected = calibrated((scores[first], labels[first]), (scores[second], labels[second]))
    for scaling, numbers in expected["fitted"].items():
        assert report["fitted"][scaling] == pytest.approx(numbers, rel=1e-3)
    assert report["platt"]["ece"] == pytest.approx(expected["platt"]["ece"], abs=1e-4)
    assert report["threshold"] == vars(fitted_threshold((scores, labels), None))
    assert f"{report['platt']['ece']:.4f}" in printed
    file = tmp_path / "analysis" / "calibration-faq.json"
    assert main(["score", str(encoder_folder), *pairs[0], "--calibration", str(file)]) == 0
    slope, shift = report["fitted"]["platt"]
    assert float(capsys.readouterr().out) == pytest.approx(expit(slope * scores[0] + shift), abs=1e-4)


def test_dev_and_test_files_are_one_set_and_its_threshold_is_that_of_evaluate(encoder_folder, tmp_path):
    files = [tmp_path / "faq" / f"{split}.csv" for split in ("dev", "test")]
    for file in files:
        write_pairs(file, file.stem)
    words = ["calibrate", str(encoder_folder), "--no-plot", "--output", str(tmp_path), "--data"]
    assert main([*words, *map(str, files)]) == 0
    report = report_of(tmp_path, "faq")
    assert (report["how"], report["rows_fitted_on"], report["rows"]) == (
        "fitted on dev, judged on test",
        60,
        60,
    )
    assert report["threshold"] == vars(evaluate(encoder_folder, files).thresholds["faq"])


def test_positive_pairs_of_a_table_are_told_from_the_nearest_other_text(encoder_folder, tmp_path):
    pairs, _ = write_pairs(tmp_path / "faq.csv", "dev", kept=slice(1, 2), head="标准问,相似问")
    words = ["calibrate", str(encoder_folder), "--no-plot", "--data", str(tmp_path / "faq.csv")]
    assert main(words) == 0
    report = report_of(tmp_path / "analysis", "faq")
    assert report["rows"] + report["rows_fitted_on"] == 2 * len(pairs)
    assert report["threshold"] == vars(evaluate(encoder_folder, tmp_path / "faq.csv").thresholds["faq"])


def test_a_run_keeps_the_calibration_of_a_table_with_its_others(hasty_runs, tmp_path):
    write_pairs(tmp_path / "faq.csv", "dev")
    for run in hasty_runs:
        assert main(["calibrate", str(run), "--no-plot", "--data", str(tmp_path / "faq.csv")]) == 0
        assert report_of(run / "analysis", "faq")["run"] == str(run)
    assert not (tmp_path / "analysis").exists()


def test_a_built_in_encoder_is_calibrated_and_scores_by_the_file(tmp_path):
    pairs, _ = write_pairs(tmp_path / "faq.csv", "dev")
    assert main(["calibrate", "builtin/mini_zh", "--no-plot", "--data", str(tmp_path / "faq.csv")]) == 0
    words = ["--calibration", str(tmp_path / "analysis" / "calibration-faq.json"), "--decide"]
    assert main(["score", "builtin/mini_zh", *pairs[0], *words]) == 0


def test_faulty_rows_of_a_table_are_counted(encoder_folder, tmp_path, recwarn):
    table = tmp_path / "faq.csv"
    write_pairs(table, "dev")
    with table.open("a", encoding="utf-8") as file:
        file.write("怎么退货,,1\n怎么退货,如何退货,\n")
    words = ["calibrate", str(encoder_folder), "--no-plot", "--data", str(table)]
    assert main([*words, "--on-bad-row", "drop"]) == 0
    assert counts_told(recwarn) == [2]
    report = report_of(tmp_path / "analysis", "faq")
    assert report["rows"] + report["rows_fitted_on"] == 60
