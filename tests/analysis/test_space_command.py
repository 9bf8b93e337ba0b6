"""The verb that draws and measures spaces: the numbers are those of the embeddings, and mistakes are named."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import counts_told

import juzhen
from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import RESULT_FILE
from juzhen.data.loading import Probe
from juzhen.encoders import load_encoder
from juzhen.evaluation import space as spaces
from juzhen.metrics.classification import v_measure
from juzhen.metrics.geometry import hubness, mean_cosine, neighbour_similarity, norms, silhouette


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_numbers_are_those_of_the_embeddings(encoder_folder, here, recwarn):
    lines = here / "lines.txt"
    lines.write_text(
        "今天天气很好\n\n怎么修改密码\n今天天气很好\n他在跑步\n三只猫\n两只狗在叫\n好\n", encoding="utf-8"
    )
    words = ["--data", "demo_qmc", "lines.txt", "--json", "out.json", "--maps", "pca", "--texts", "40"]
    assert main(["space", str(encoder_folder), *words, "--on-bad-row", "drop"]) == 0
    assert counts_told(recwarn) == [1]
    measured = json.loads((here / "out.json").read_text())
    texts = list(dict.fromkeys(line for line in lines.read_text(encoding="utf-8").split("\n") if line))
    embeddings = load_encoder(encoder_folder).eval().encode(texts, batch_tokens=64, show_progress=False)
    assert measured["sets"]["lines.txt"] == {"texts": 6, "of": 6}
    (run,) = measured["runs"]
    of_lines, of_pairs = run["sets"]["lines.txt"], run["sets"]["demo_qmc (dev)"]
    assert of_lines["mean_cosine"] == pytest.approx(mean_cosine(embeddings), abs=1e-5)
    near = neighbour_similarity(embeddings, num_neighbours=5)
    assert of_lines["neighbour_similarity"] == pytest.approx(near, abs=1e-5)
    assert of_lines["hubness"] == hubness(embeddings, num_neighbours=5)
    assert [of_lines["norm_mean"], of_lines["norm_deviation"]] == pytest.approx(norms(embeddings), abs=1e-5)
    assert of_lines["alignment"] is None
    assert "cosine_gold" not in of_lines
    assert measured["sets"]["demo_qmc (dev)"]["texts"] <= 40
    assert of_pairs["alignment"] > 0
    assert 0 < of_pairs["first_component_isotropy"] < 1
    assert -1 <= of_pairs["beyond_overlap"] <= 1
    assert 0 <= run["sets"]["all sets"]["v_measure"] <= 1  # of the sets
    assert (here / "space" / "index.html").is_file()
    assert (here / "space" / "space.svg").is_file()


@pytest.mark.slow
def test_classes_of_a_table_are_measured_and_two_encoders_compared(encoder_folder, here, capsys):
    texts = [f"{word}{number}" for word in ("足球篮球", "手机电脑", "小说故事") for number in range(6)]
    rows = [f"{text},{text[:2]}" for text in texts]
    (here / "mine.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    again = f"{encoder_folder}/../{encoder_folder.name}"
    words = ["space", str(encoder_folder), again, "--data", "mine.csv", "--maps", "pca"]
    assert main([*words, "--json", "out.json"]) == 0
    measured = json.loads((here / "out.json").read_text())
    embeddings = load_encoder(encoder_folder).eval().encode(texts, show_progress=False)
    classes = np.unique([text[:2] for text in texts], return_inverse=True)[1]
    assert [run["run"] for run in measured["runs"]] == [str(encoder_folder), again]
    for run in measured["runs"]:
        measures = run["sets"]["mine.csv"]
        assert measures["silhouette"] == pytest.approx(silhouette(embeddings, classes), abs=1e-4)
        clusters = v_measure(embeddings, classes, clusterings=10, seed=42).value
        assert measures["v_measure"] == pytest.approx(clusters, abs=1e-4)
    assert measured["together"]["mine.csv"] == pytest.approx({"cka": 1, "neighbours_kept": 1})
    printed = capsys.readouterr().out
    assert "| measure |" in printed
    assert "| neighbours_kept |  | 1 |" in printed


def test_before_is_what_a_run_has_begun_with(encoder_folder, tmp_path, monkeypatch):
    (tmp_path / RESULT_FILE).touch()
    config = {
        "init_from": str(encoder_folder),
        "backbone": {"path": "builtin/encoder", "initialize": "random"},
    }
    monkeypatch.setattr(spaces.Result, "read", lambda run: SimpleNamespace(config=config, seed=1))
    began = spaces.starting_encoder(tmp_path).eval().encode(["好"], show_progress=False)
    expected = load_encoder(encoder_folder).eval().encode(["好"], show_progress=False)
    np.testing.assert_array_equal(began, expected)
    config["init_from"] = None
    assert spaces.starting_encoder(tmp_path).dim != len(expected[0])


def test_the_library_draws_texts_with_classes(encoder_folder):
    texts = [f"{word}{number}" for word in ("足球", "手机") for number in range(8)]
    studied = juzhen.analyze_embeddings(
        encoder_folder, texts=texts, classes=[text[:2] for text in texts], maps=["pca"]
    )
    assert studied.colour == "class"
    assert studied.group_names == ["手机", "足球"]
    assert [text[:2] for text in studied.texts] == [studied.group_names[group] for group in studied.groups]
    assert studied.maps["pca"][0].shape == (16, 2)


def test_a_sample_of_triplets_holds_anchors_and_their_positives():
    texts = {name: [f"{name}{row}" for row in range(6)] for name in ("anchor", "positive", "negative")}
    probe = Probe.of(
        Examples.from_texts("some", "dev", kind=Kind.TRIPLET, texts=texts), num_sentences=8, seed=0
    )
    assert len(probe.sentences) == 8
    assert probe.grades.tolist() == [1.0] * 4
    first, second = probe.pairs
    for one, other in zip(first, second, strict=True):
        assert probe.sentences[one].removeprefix("anchor") == probe.sentences[other].removeprefix("positive")


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("mine.csv", "text,label\n{}\n,甲\n没有类别,\n", []),
        ("mine.csv", "标题,类\n{}\n,甲\n没有类别,\n", ["--columns", "label=类,text=标题"]),
        ("mine.csv", "text,label\n{}\n多,了,一\n少\n", []),
        ("lines.txt", "{}\n\n \n", []),
    ],
)
def test_faulty_rows_of_files_are_counted(encoder_folder, here, recwarn, name, content, columns):
    rows = "\n".join(f"第{number}句话,{'甲乙'[number % 2]}" for number in range(12))
    (here / name).write_text(content.format(rows), encoding="utf-8")
    words = ["space", str(encoder_folder), "--data", name, "--maps", "pca", "--json", "out.json", *columns]
    assert main([*words, "--on-bad-row", "drop"]) == 0
    measured = json.loads((here / "out.json").read_text())
    assert counts_told(recwarn) == [2]
    assert measured["sets"][name]["texts"] == 12
    if name == "mine.csv":
        assert measured["runs"][0]["sets"][name]["silhouette"] is not None


def test_a_space_may_split_cells(encoder_folder, here):
    rows = "".join(f"第{number}句话||另{number}句话\n" for number in range(6))
    (here / "mine.csv").write_text("text\n" + rows, encoding="utf-8")
    words = ["space", str(encoder_folder), "--data", "mine.csv", "--maps", "pca", "--json", "out.json"]
    assert main([*words, "--split-cells", "||"]) == 0
    assert json.loads((here / "out.json").read_text())["sets"]["mine.csv"]["texts"] == 12
