"""The verb that measures a finished encoder: the numbers are those of its embeddings, and mistakes are named."""

import json

import numpy as np
import pytest

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.data.probe import Probe
from juzhen.encoders import load_encoder
from juzhen.metrics.geometry import mean_cosine, neighbour_similarity, norms, silhouette


def test_the_numbers_are_those_of_the_embeddings(encoder_folder, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text(
        "今天天气很好\n\n怎么修改密码\n今天天气很好\n他在跑步\n三只猫\n两只狗在叫\n好\n", encoding="utf-8"
    )
    words = ["--dataset", "demo_qmc", "--file", str(lines), "--output", str(tmp_path / "out.json")]
    assert main(["space", str(encoder_folder), *words, "--sentences", "40"]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    texts = list(dict.fromkeys(line for line in lines.read_text(encoding="utf-8").split("\n") if line))
    embeddings = load_encoder(encoder_folder).encode(texts, batch_tokens=64, show_progress=False)
    own = found["lines.txt"]
    assert own["texts"] == len(texts) == 6
    assert own["mean_cosine"] == pytest.approx(mean_cosine(embeddings), abs=1e-5)
    assert own["neighbour_similarity"] == pytest.approx(
        neighbour_similarity(embeddings, num_neighbours=5), abs=1e-5
    )
    assert [own["norm_mean"], own["norm_deviation"]] == pytest.approx(norms(embeddings), abs=1e-5)
    assert own["alignment"] is None
    of_pairs = found["demo_qmc (dev)"]
    assert of_pairs["texts"] <= 40
    assert of_pairs["alignment"] > 0
    assert 0 < of_pairs["first_component_isotropy"] < 1
    shown = capsys.readouterr().out
    assert "| measure | demo_qmc (dev) | lines.txt | meaning |" in shown
    assert "silhouette" not in shown


def test_classes_have_a_silhouette(encoder_folder, news, tmp_path):
    data = next(word for word in news if word.startswith("data_dir=")).partition("=")[2]
    words = ["space", str(encoder_folder), "--dataset", "tnews", "--split", "test", "--data-dir", data]
    assert main([*words, "--output", str(tmp_path / "out.json")]) == 0
    (found,) = json.loads((tmp_path / "out.json").read_text()).values()
    lines = (tmp_path / "data" / "tnews" / "test.tsv").read_text().splitlines()[1:]
    texts, names = zip(*(line.split("\t") for line in lines), strict=True)
    embeddings = load_encoder(encoder_folder).encode(list(texts), batch_tokens=64, show_progress=False)
    classes = np.unique(names, return_inverse=True)[1]
    assert found["silhouette"] == pytest.approx(silhouette(embeddings, classes), abs=1e-4)
    assert found["texts"] == len(lines)


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
    ("words", "message"),
    [
        (["--dataset", "demo_stss"], "did you mean demo_sts"),
        (["--dataset", "csts", "--data-dir", "nowhere"], "no file of dev or test or train below nowhere"),
        (["--file", "none.txt"], "--file none.txt: no such file"),
        (["--file", "none.csv"], "expected .txt"),
        (["--sentences", "3"], "Invalid value for '--sentences'"),
    ],
)
def test_mistakes_are_named(encoder_folder, words, message, capsys):
    assert main(["space", str(encoder_folder), *words]) == 2
    assert message in capsys.readouterr().err
