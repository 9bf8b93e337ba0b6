"""A folder of mteb's JSON is a matrix and a report, beside runs or alone."""

import json

import pytest
from report_fixture import small_picture, write_results

from juzhen.cli.main import main
from juzhen.report.collect import collect
from juzhen.report.matrix import build_matrix


def write_task(folder, model, task, scores, *, revision="1"):
    place = folder / "results" / model.replace("/", "__") / revision
    place.mkdir(parents=True, exist_ok=True)
    (place / "model_meta.json").write_text(json.dumps({"name": model, "revision": revision, "framework": []}))
    content = {"dataset_revision": "x", "task_name": task, "mteb_version": "2.26.24", "scores": scores}
    (place / f"{task}.json").write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path):
    for model, value in (("org/small", 0.6), ("org/large", 0.7)):
        sts = {"main_score": value, "cosine_spearman": value, "cosine_pearson": 0.1, "hf_subset": "default"}
        write_task(
            tmp_path, model, "LCQMC", {"validation": [sts], "test": [sts | {"main_score": value - 0.1}]}
        )
        subsets = [{"main_score": value, "hf_subset": name, "max_ap": value} for name in ("en", "zh/CN")]
        write_task(tmp_path, model, "Pairs", {"test": subsets})
    return tmp_path


def test_models_are_rows_and_tasks_columns_with_their_main_score(folder):
    matrix = build_matrix(collect(folder, report=print), metric=None)
    assert [row.label for row in matrix.rows] == ["org/large", "org/small"]
    assert {"test/LCQMC", "test/Pairs-en", "test/Pairs-zh-CN"} <= {*matrix.measures}
    assert matrix.rows[0].cells["dev/LCQMC"].mean == 0.7
    assert matrix.measures["dev/LCQMC"] == "spearman"
    assert matrix.measures["test/Pairs-en"] == "main_score"
    assert not any(row.is_trained for row in matrix.rows)


def test_the_report_and_table_are_written_and_recommend_no_training(folder, capsys):
    assert main(["report", str(folder)]) == 0
    text = (folder / "report" / "report.md").read_text(encoding="utf-8")
    assert "they do not say what to train on" in text
    assert "org/large" in text
    assert main(["table", str(folder)]) == 0
    assert "**70.0**" in capsys.readouterr().out


def test_runs_beside_them_stay_and_a_broken_file_is_named(folder, make_result):
    write_results(folder / "runs", small_picture(make_result))
    (folder / "results" / "org__small" / "1" / "Broken.json").write_text("{")
    told = []
    results = collect(folder, report=told.append)
    assert len(results) == 10
    assert len(told) == 1
    assert "Broken.json" in told[0]
