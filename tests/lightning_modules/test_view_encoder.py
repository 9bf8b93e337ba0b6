"""Jobs of model=views: what is learnt, and that it is the same again."""

import pytest
from jobs import logged, run_job, weights

from juzhen.core.result import Result

JOB = (
    "model=views",
    "loss=info_nce",
    "debug_rows=96",
    "training.batch_size=32",
    "training.duration=3 epochs",
    "logger.every_steps=1",
    "optimizer.lr=5e-3",
)


@pytest.mark.slow
def test_a_job_learns_from_views_and_learns_the_same_again(tmp_path, tiny_backbone):
    job = (*JOB, "model.views=[synonym,delete,shuffle]", "backbone.dropout=0.0")
    run = run_job(tmp_path / "one", tiny_backbone, *job)
    assert Result.read(run).data["train/demo_sts"]["kind"] == "sentence"
    losses = logged(run)
    assert sum(losses[-3:]) < sum(losses[:3])
    assert weights(run_job(tmp_path / "two", tiny_backbone, *job)) == weights(run)


@pytest.mark.slow
def test_without_views_it_is_simcse(tmp_path, tiny_backbone):
    """The same batches, the same dropout masks, the same weights as the prompt encoder without a prompt."""
    runs = [
        run_job(tmp_path / one[0], tiny_backbone, *JOB, *one[1])
        for one in (("views", ["model.views=[]"]), ("simcse", ["model=simcse"]))
    ]
    assert logged(runs[0]) == logged(runs[1])
    cosines = logged(runs[0], "train/demo_sts/positive_score")
    assert all(0.5 < cosine < 0.9999 for cosine in cosines)  # dropout alone makes the two differ
