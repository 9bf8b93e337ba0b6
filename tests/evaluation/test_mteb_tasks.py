"""The package mteb on an encoder: its scores are those of our own evaluation of the same rows."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from juzhen.cli.main import main
from juzhen.encoders import SentenceEncoder

pytestmark = [
    pytest.mark.slow,  # to import mteb takes ten seconds
    pytest.mark.skipif(find_spec("mteb") is None, reason="needs the extra `mteb`"),
]


@pytest.fixture
def demo_sets(monkeypatch):
    sets = {"STSB": "demo_sts", "LCQMC": "demo_qmc", "Ocnli": "demo_nli"}
    monkeypatch.setattr("juzhen.evaluation.mteb_tasks.LOCAL_SETS", sets)


@pytest.mark.parametrize("dim", [None, 64])
def test_scores_of_mteb_are_our_own(demo_sets, tmp_path, dim):
    from juzhen.evaluation.run import evaluate
    from juzhen.metrics.threshold import average_precision

    words = ["builtin/mini_zh", "--tasks", "STSB,LCQMC", "Ocnli", "--out", str(tmp_path), "--split", "dev"]
    assert main(["mteb", *words, *(["--truncate-dim", str(dim)] if dim else [])]) == 0
    read = {path.stem: json.loads(path.read_text()) for path in tmp_path.rglob("*.json")}
    assert set(read) == {"STSB", "LCQMC", "Ocnli", "model_meta"}
    (scores,) = read["Ocnli"]["scores"]["validation"]
    encoder = SentenceEncoder.load("builtin/mini_zh", truncate_dim=dim)
    for task, name in (("STSB", "demo_sts"), ("LCQMC", "demo_qmc")):
        (found,) = read[task]["scores"]["validation"]
        if dim is None:
            ours = evaluate("builtin/mini_zh", [name]).scores
            assert found["cosine_spearman"] == pytest.approx(ours[f"dev/{name}/spearman"].value, abs=1e-6)
            assert found["cosine_pearson"] == pytest.approx(ours[f"dev/{name}/pearson"].value, abs=1e-6)
    rows = [line.split("\t") for line in demo_rows("demo_nli")]
    rows = [row for row in rows if row[2] in ("entailment", "contradiction")]
    vectors = [encoder.encode([row[side] for row in rows]) for side in (0, 1)]
    vectors = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors]
    labels = np.array([row[2] == "entailment" for row in rows], dtype=np.float32)
    expected = average_precision((vectors[0] * vectors[1]).sum(axis=1), labels)
    assert scores["cosine_ap"] == pytest.approx(expected, abs=1e-6)


def demo_rows(name):
    from juzhen.core.places import PACKAGE

    return (PACKAGE / "builtin" / "data" / name / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]


def test_a_task_of_the_hub_and_an_unknown_one_are_refused_before_the_encoder_is_read(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for task, words in (("T2Retrieval", "HF_HUB_OFFLINE is set"), ("AFQMK", "did you mean AFQMC")):
        assert main(["mteb", "builtin/mini_zh", "--tasks", task, "--out", str(tmp_path / "out")]) != 0
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
