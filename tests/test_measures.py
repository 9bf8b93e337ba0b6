"""Sets without grades in jobs: positive pairs, triplets, texts with classes. Models measure them, or say why not."""

import csv
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from jobs import NEWS, run_job, typed_job

from juzhen.calibration.run_scores import ScoredRun
from juzhen.cli.main import main
from juzhen.core.examples import Kind
from juzhen.core.kinds import MEASURES
from juzhen.core.paths import DATASETS
from juzhen.core.result import Result
from juzhen.core.row_scores import RowScores
from juzhen.data import loading
from juzhen.data.readers import BUILTIN_DATA
from juzhen.encoders import load_encoder
from juzhen.evaluation.evaluators import CrossEncoderPlan
from juzhen.metrics.ranking import score_ranking
from juzhen.report.matrix import build_matrix
from lightning_modules.crossencoder import CrossEncoderModule

FEW = ("training.duration=2 steps", "debug_rows=40", "evaluation.bootstrap_samples=40")
KINDS = {"cmrc2018": Kind.POSITIVE_PAIR, "triclue": Kind.TRIPLET, "tnews": Kind.LABELLED_TEXT}


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(row) for row in [header, *rows]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data_dir with a set of each kind, made of the demo pairs; of triclue the test split is missing."""
    folder = tmp_path_factory.mktemp("data")
    with (BUILTIN_DATA / "demo_qmc" / "dev.tsv").open(encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["label"] == "1"
        ]
    pairs = [(row["sentence1"], row["sentence2"]) for row in rows][:60]
    triplets = [(*pair, other) for pair, (other, _) in pairwise(pairs)]
    for split in ("dev", "test"):
        write(folder / "cmrc2018" / f"{split}.tsv", ("sentence1", "sentence2"), pairs)
    for split in ("train", "dev"):
        write(folder / "simclue" / f"triclue_{split}.tsv", ("query", "positive", "negative"), triplets)
    for split, count in (("train", 12), ("dev", 6), ("test", 6)):
        texts = [
            (f"{split[:1]}{words[turn % 6 :]}{words[: turn % 6]}{words[turn // 6]}", name)
            for name, words in NEWS.items()
            for turn in range(count)
        ]
        write(folder / "tnews" / f"{split}.tsv", ("text", "label"), texts)
    return folder


def sets(data, *names):
    return [
        f"data_dir={data}",
        *(f"+dataset@evaluate.{name}={name}" for name in names),
        *(f"evaluate.{name}.rows={{train: null, dev: null, test: null}}" for name in names),
    ]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory, tiny_backbone):
    words = (*FEW, *sets(data, *KINDS), "evaluation.transfer=[demo_qmc,demo_nli]")
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *words)


def measured(result, name):
    return {key: score for key, score in result.scores.items() if key.split("/")[1] == name}


def test_each_kind_has_its_measures_and_a_split_without_file_is_a_null(run):
    result = Result.read(run)
    for name in ("cmrc2018", "triclue"):
        assert {key for key in measured(result, name) if key.startswith("dev/")} == {
            f"dev/{name}/{metric}" for metric in MEASURES[KINDS[name]]
        }
    assert measured(result, "triclue")["test/triclue/triplet_accuracy"].value is None
    assert result.absent == ["test/triclue"]
    accuracy = result.scores["test/cmrc2018/ranking_accuracy"]
    assert 0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1
    assert accuracy.count == 40
    assert result.data["test/cmrc2018"]["candidates"] == 32
    assert result.data["test/cmrc2018"]["temperature"] == 0.05
    assert set(measured(result, "tnews")) == {
        f"test/tnews/{metric}" for metric in MEASURES[Kind.LABELLED_TEXT]
    }
    assert result.unscored == {}


def test_the_numbers_are_those_of_the_saved_encoder(run, data):
    job = typed_job("dataset=[]", "benchmark=none", "debug_rows=40", *sets(data, "cmrc2018", "triclue"))
    encoder = load_encoder(run)
    for one in loading.load_job_data(job, {}).evaluation:
        vectors = encoder.encode(one.sentences, batch_tokens=512, show_progress=False).astype(np.float64)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        columns = [vectors[rows] for rows in one.columns.values()]
        if one.kind is Kind.TRIPLET:
            scores = np.stack([(columns[0] * other).sum(axis=1) for other in columns[1:]], axis=1)
            expected = (scores[:, 0] > scores[:, 1]).mean()
            assert Result.read(run).scores["dev/triclue/triplet_accuracy"].value == pytest.approx(
                expected, abs=0.03
            )
        else:
            score = Result.read(run).scores[f"{one.split}/cmrc2018/positive_score"].value
            assert score == pytest.approx((columns[0] * columns[1]).sum(axis=1).mean(), abs=1e-5)


def test_a_classifier_reaches_what_the_command_says(run, tmp_path):
    result = Result.read(run)
    assert result.transfer["demo_qmc"]["judged_on"] == "test"
    assert result.transfer["demo_qmc"]["splits"]["train"]["rows"] == 40
    assert result.scores["test/demo_nli/transfer_f1"].value is not None
    assert (
        result.scores["test/tnews/transfer_accuracy"].value
        > result.scores["test/tnews/transfer_majority"].value
    )
    assert result.scores["test/demo_qmc/transfer_accuracy"].low is not None
    output = tmp_path / "transfer.json"
    words = ["transfer", str(run), "demo_qmc", "demo_nli", "--limit", "40", "--output", str(output)]
    assert main(words) == 0
    told = json.loads(output.read_text())
    for name in ("demo_qmc", "demo_nli"):
        for metric in ("accuracy", "f1", "majority"):
            found = result.scores[f"test/{name}/transfer_{metric}"].value
            assert found == pytest.approx(told[name][metric], abs=0.06), (
                name,
                metric,
            )  # other company, last digits


def test_positive_pairs_have_a_threshold_and_are_calibrated(data, tmp_path, tiny_backbone):
    """Rows that were kept and rows that are scored again give the same numbers."""
    words = ("training.duration=2 steps", "debug_rows=null", "evaluation.limit=60", *sets(data, "cmrc2018"))
    run = run_job(tmp_path / "runs", tiny_backbone, *words)
    threshold, rows = Result.read(run).thresholds["cmrc2018"], RowScores.read(run).sets["dev/cmrc2018"]
    assert (threshold.rows, threshold.judged_on) == (2 * len(rows), "test")
    expected = [*rows["score"], *rows["other"]]
    scored = ScoredRun(run, data_dir=None, batch_tokens=512).scored("cmrc2018", "dev")
    assert scored.scores.tolist() == pytest.approx(expected)
    assert scored.gold.tolist() == [1] * len(rows) + [0] * len(rows)
    words = ["calibrate", str(run), "--sets", "cmrc2018", "--no-plot", "--output", str(tmp_path)]
    assert main(words) == 0
    report = json.loads((tmp_path / "calibration-cmrc2018.json").read_text())
    assert (report["threshold"]["value"], report["rows"]) == (threshold.value, 2 * len(rows))
    (run / "rows.parquet").unlink()
    again = ScoredRun(run, data_dir=None, batch_tokens=512).scored("cmrc2018", "dev")
    assert again.scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_tables_show_a_measure_and_the_sets_that_have_it(run):
    results = [Result.read(run)]
    assert build_matrix(results, metric="spearman").columns == ["test/demo_sts"]
    matrix = build_matrix(results, metric="triplet_accuracy")
    assert matrix.columns == ["dev/triclue"]
    assert build_matrix(results, metric="ranking_accuracy").columns == ["test/cmrc2018"]
    columns = {"test/demo_nli", "test/demo_qmc", "test/tnews"}
    assert set(build_matrix(results, metric="transfer_accuracy").columns) == columns
    assert build_matrix(results, metric="v_measure").columns == ["test/tnews"]
    assert 0 < results[0].scores["test/tnews/v_measure"].value <= 1


@pytest.mark.slow
def test_the_console_names_the_measures(run, data, tmp_path, tiny_backbone, capsys):
    run_job(tmp_path, tiny_backbone, *FEW, *sets(data, "triclue"), "evaluation.transfer=[demo_qmc]")
    shown = capsys.readouterr().out
    for word in (
        "Scores ×100",
        "triplet",
        "transfer",
        "accuracy",
        "Spearman",
    ):  # words may stand below one another
        assert word in shown, word


@pytest.mark.parametrize("words", [("model=lexical",), ("model=mlm",), ("model=cot", "model.language=zh")])
@pytest.mark.sampled(3)
def test_other_models_of_sentences_have_the_same_measures(words, data, tmp_path, tiny_backbone):
    loss = ("loss=info_nce_pool", "model.untrained_mask=true") if "model=cot" in words else ()
    result = Result.read(run_job(tmp_path, tiny_backbone, *FEW, *words, *loss, *sets(data, *KINDS)))
    for name, kind in KINDS.items():
        split = "dev" if name == "triclue" else "test"
        assert result.scores[f"{split}/{name}/{MEASURES[kind][0]}"].value is not None
    if words == ("model=lexical",):
        # Questions that share characters: TF-IDF finds most of their partners.
        assert result.scores["test/cmrc2018/ranking_accuracy"].value > 0.5


def test_a_cross_encoder_ranks_and_says_what_it_cannot_measure(data, tmp_path, tiny_backbone, capsys, caplog):
    words = (*FEW, "debug_rows=12", "model=crossencoder", *sets(data, *KINDS))
    run = run_job(tmp_path, tiny_backbone, *words)
    result = Result.read(run)
    assert result.data["dev/cmrc2018"]["candidates"] == 12
    assert result.data["dev/cmrc2018"]["temperature"] == 1
    assert result.scores["dev/triclue/triplet_accuracy"].value is not None
    assert "a cross-encoder has none" in result.unscored["tnews"]
    for told in (caplog.text, capsys.readouterr().out):
        assert "tnews is not scored. labelled texts: classes are told apart on embeddings" in told.replace(
            "\n", " "
        )


def test_a_cross_encoder_ranks_by_the_scores_of_its_pairs(data, tmp_path, tiny_backbone):
    words = ("debug_rows=9", "model=crossencoder", "dataset=[]", *sets(data, "cmrc2018"))
    job = typed_job(*words, "benchmark=none", "backbone=random_small", f"backbone.path={tiny_backbone}")
    dev = loading.load_job_data(job, {}, unscored=CrossEncoderModule.unscored).evaluation[0]
    plan = CrossEncoderPlan([dev])
    first, second = (plan.examples.texts(column) for column in ("text_a", "text_b"))
    known = {pair: np.float32(number) for number, pair in enumerate(zip(first, second, strict=True))}
    (scores,) = plan.scores(np.array(list(known.values()))[:, None])
    own = [known[pair] for pair in zip(dev.texts("anchor"), dev.texts("positive"), strict=True)]
    assert scores[:, 0].tolist() == own
    how = {"temperature": 1.0, "confidence": 0.95, "bootstrap_samples": 0, "seed": 0}
    assert score_ranking(scores, dev, **how)["ranking_accuracy"].count == 9


@pytest.mark.slow
def test_a_set_that_comes_later_is_filled_in_with_its_measure(run, data, tmp_path, tiny_backbone, capsys):
    late = run_job(tmp_path, tiny_backbone, *FEW, f"data_dir={data}")
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    for name in KINDS:
        text = (DATASETS / f"{name}.yaml").read_text(encoding="utf-8")
        own = re.sub(r"^rows: .*$", "rows: {train: null, dev: null, test: null}", text, flags=re.MULTILINE)
        own = own.replace(f"dataset.{name}", f"dataset.my_{name}").replace(
            f"name: {name}\n", f"name: my_{name}\n"
        )
        (tmp_path / "conf" / "dataset" / f"my_{name}.yaml").write_text(own, encoding="utf-8")
    words = [str(late), "--config-dir", str(tmp_path / "conf")]
    for name in KINDS:
        words += ["--dataset", f"my_{name}"]
    assert main(["evaluate", *words]) == 0
    told = capsys.readouterr().out
    for measure in ("R@1", "triplet accuracy", "transfer accuracy"):
        assert measure in told
    found, expected = Result.read(late), Result.read(run)
    for name in KINDS:
        for key, score in measured(expected, name).items():
            own = found.scores[key.replace(name, f"my_{name}")]
            assert own.value == pytest.approx(score.value, abs=0.03), key
    assert found.transfer["my_tnews"] == expected.transfer["tnews"]
    assert main(["evaluate", *words]) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.slow
def test_triplets_choose_their_own_weights_where_nothing_has_grades(data, tmp_path, tiny_backbone, caplog):
    rows = ("dataset.triclue.rows={train: null, dev: null, test: null}", f"data_dir={data}")
    with caplog.at_level("INFO"):
        run = run_job(tmp_path, tiny_backbone, *FEW, "dataset=[triclue]", "loss=triplet", *rows)
    training = Result.read(run).training
    assert training["chosen_by"] == "the best dev triplet_accuracy of triclue"
    reached = Result.read(run).scores["dev/triclue/triplet_accuracy"].value
    assert training["best_dev_triplet_accuracy"] == pytest.approx(reached, abs=1e-6)
    assert "are kept: the best dev triplet_accuracy of triclue" in caplog.text


def test_text_alone_says_that_the_last_weights_are_kept(data, tmp_path, tiny_backbone, caplog, capsys):
    text = ("dataset=[wiki1m]", "loss=simcse", "dataset.wiki1m.rows={train: null, dev: null, test: null}")
    (tmp_path / "wiki1m").mkdir()
    (tmp_path / "wiki1m" / "wiki1m_for_simcse.txt").write_text("".join(f"line {n}\n" for n in range(9)))
    with caplog.at_level("INFO"):
        run = run_job(tmp_path, tiny_backbone, *FEW, *text, f"data_dir={tmp_path}")
    assert Result.read(run).training["chosen_by"] == "the last step"
    assert "the weights of the last step are kept, and training does not stop early" in caplog.text
    assert "benchmark=demo" in caplog.text
    assert "weights of the last step" in capsys.readouterr().out
