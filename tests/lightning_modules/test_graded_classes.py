"""Few grades as classes of model=crossencoder loss=ce."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jobs import key_of, run_job, tiny_encoder, typed_job
from scipy.stats import spearmanr

from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data.loading import load_job_data
from juzhen.data.spec import configured_set
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.projection import similarity
from juzhen.encoders.save import save_encoder
from lightning_modules.loss_factory import class_grades
from lightning_modules.trainability import require_grades

GRADES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def pair_encoder(backbone, **how):
    settings = {"segments": True, "symmetric": False, "seed": 0}
    return CrossEncoder(tiny_encoder(backbone), **settings | how).eval()


def test_the_score_is_the_logit_of_the_expected_grade():
    logits = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = [sum(p * g for p, g in zip(row.softmax(0), GRADES, strict=True)).item() for row in logits]
    assert similarity(logits, GRADES).sigmoid().tolist() == pytest.approx(expected)


def test_a_folder_keeps_its_grades_and_older_ones_are_read(tmp_path, tiny_backbone):
    encoder = pair_encoder(tiny_backbone, outputs=6, grades=GRADES)
    folder = save_encoder(encoder, tmp_path / "graded", card={"name": "x", "trained_on": [], "seed": 0})
    loaded = CrossEncoder.load(folder)
    assert loaded.grades == GRADES
    pairs = [("今天天气好", "天气不错"), ("怎么还款", "如何还款")]
    np.testing.assert_allclose(loaded.score(pairs), encoder.score(pairs), rtol=1e-5)
    older = pair_encoder(tiny_backbone, outputs=3)
    folder = save_encoder(older, tmp_path / "nli", card={"name": "x", "trained_on": [], "seed": 0})
    assert "grades" not in json.loads((folder / "crossencoder.json").read_text())
    assert CrossEncoder.load(folder).grades == (1.0, 0.5, 0.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    words = (
        "model=crossencoder",
        "loss=ce",
        "dataset=[demo_sts]",
        "benchmark=none",
        "evaluation.bootstrap_samples=0",
    )
    return run_job(tmp_path_factory.mktemp("graded"), tiny_backbone, *words)


@pytest.mark.slow
def test_a_training_leaves_a_head_of_the_grades_that_any_reader_scores_alike(run):
    result, encoder = Result.read(run), CrossEncoder.load(run)
    assert encoder.grades == tuple(number / 10 for number in range(11))
    assert result.scores["dev/demo_sts/spearman"].value is not None
    job = typed_job("dataset=[]", "benchmark=none", "debug_rows=48", "+dataset@evaluate.demo_sts=demo_sts")
    (rows,) = [one for one in load_job_data(job, {}).evaluation if one.split == "dev"]
    scores = encoder.score(list(zip(rows.texts("text_a"), rows.texts("text_b"), strict=True)))
    expected = spearmanr(scores, rows.targets).statistic
    assert result.scores["dev/demo_sts/spearman"].value == pytest.approx(expected, abs=1e-4)


def test_classes_are_the_grades_that_targets_are_nearest_to(tiny_backbone):
    from lightning_modules.crossencoder import CrossEncoderModule as Module

    module = SimpleNamespace(encoder=pair_encoder(tiny_backbone, outputs=6, grades=GRADES))
    targets = torch.tensor([score / 5 for score in (0, 1, 2, 3, 4, 5, 3)])
    assert Module._class_numbers(module, targets).tolist() == [0, 1, 2, 3, 4, 5, 3]


def test_grades_follow_the_configuration():
    config, kind = configured_set("csts"), Kind.SCORED_PAIR
    assert class_grades(config, kind) == pytest.approx(GRADES)
    columns = {"text_a": ["甲", "乙", "丙"], "text_b": ["丁", "戊", "己"]}
    targets = np.array([1, 0.2, 0.5], dtype=np.float32)
    rows = Examples.from_texts("csts", "train", kind=kind, texts=columns, targets=targets)
    config.grades = [0, 1, 2.5, 5]
    require_grades(rows, config)


def test_grades_count_where_they_are_classes_alone():
    csts = ("model=crossencoder", "dataset=[csts]")
    few = "dataset.csts.grades=[0,1,2,3,4,5,4.5]"
    assert key_of(*csts, "loss=cosent") == key_of(*csts, "loss=cosent", few)
    assert key_of(*csts, "loss=ce") != key_of(*csts, "loss=ce", few)
