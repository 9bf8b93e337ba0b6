"""What a data set says of how it is learnt from reaches its rows and its loss."""

import pytest
from jobs import key_of, logged, run_job, typed_job

from juzhen.core.examples import Kind
from juzhen.data.loading import load_job_data
from lightning_modules.loss_factory import build_loss, chosen_losses, match_losses

NLI, QMC = "dataset.demo_nli.learning", "dataset.demo_qmc.learning"


def job_of(*words):
    return typed_job("benchmark=none", "debug_rows=40", *words)


@pytest.fixture
def many(tmp_path):
    """Words of a job that learns from rows of three negatives and a teacher's scores."""
    fields = ("anchor", "positive", *(f"negative{end}" for end in ("", "_2", "_3")))
    scores = tuple(f"score_{field}" for field in fields[1:])
    lines = ["\t".join([*(f"{field} {row}" for field in fields), *"1234"]) for row in range(16)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    layout = "dataset.simclue_rank.layouts.tsv"
    return (
        "dataset=[simclue_rank]",
        "dataset.simclue_rank.source=local",
        "dataset.simclue_rank.rows.train=null",
        f"{layout}.files={{train: train.tsv, dev: null, test: null}}",
        f"{layout}.header=false",
        *(f"++{layout}.columns.{field}={place}" for place, field in enumerate(fields + scores)),
        f"data_dir={tmp_path / 'data'}",
        "training.duration=2 steps",
        "logger.every_steps=1",
    )


def test_the_first_negatives_are_read_with_their_scores(many):
    job = job_of("loss=list_kl", *many)
    whole = load_job_data(job, {"simclue_rank": Kind.TRIPLET}).train["simclue_rank"]
    job.dataset["simclue_rank"].learning.num_negatives = 2
    few = load_job_data(job, {"simclue_rank": Kind.TRIPLET}).train["simclue_rank"]
    assert list(few.columns) == ["anchor", "positive", "negative", "negative_2"]
    assert all(few.texts(column) == whole.texts(column) for column in few.columns)
    assert few.teacher_scores.tolist() == whole.teacher_scores[:, :3].tolist()


@pytest.mark.parametrize(("model", "loss"), [("biencoder", "info_nce"), ("crossencoder", "list_mle")])
@pytest.mark.slow
def test_a_job_that_reads_fewer_negatives_learns_otherwise(model, loss, many, tmp_path, tiny_backbone):
    words = (f"model={model}", f"loss={loss}", "backbone.dropout=0.0", *many)
    first = [
        logged(run_job(tmp_path, tiny_backbone, *words, *more), "train/loss")[0]
        for more in ([], ["dataset.simclue_rank.learning.num_negatives=1"])
    ]
    assert first[0] != first[1]


def test_each_set_of_a_mixture_has_its_own_numbers():
    words = (
        "dataset=[demo_nli,demo_qmc]",
        "loss=info_nce",
        f"{NLI}.in_batch=false",
        f"{QMC}.temperature=0.1",
    )
    nli, qmc = match_losses(job_of(*words)).values()
    assert (nli.loss["name"], nli.loss["temperature"]) == ("info_nce_own", 0.05)
    assert not build_loss(nli.loss, dim=1, num_classes=2).is_batchwise
    assert qmc.loss == match_losses(job_of("dataset=[demo_qmc]", "loss=info_nce"))["demo_qmc"].loss | {
        "temperature": 0.1
    }


def test_a_set_says_so_in_a_stage_and_for_a_loss_of_its_own():
    words = ("schedule=serial", "dataset=[demo_nli]", f"{NLI}.temperature=0.1", f"{NLI}.in_batch=true")
    for more in (["loss=info_nce"], ["loss=by_kind", "+loss@schedule.sets.demo_nli.loss=info_nce"]):
        (match,) = chosen_losses(job_of(*words, *more)).values()
        assert (match.loss["name"], match.loss["temperature"]) == ("info_nce", 0.1)


def test_what_the_loss_says_already_changes_nothing():
    own = ("dataset=[demo_nli]", "loss=info_nce_own")
    assert match_losses(job_of(*own, f"{NLI}.in_batch=false")) == match_losses(job_of(*own))


def test_a_set_that_says_nothing_has_the_key_that_it_had():
    plain = key_of("dataset=[demo_nli]")
    for none in ("~dataset.demo_nli.learning", f"{NLI}=null"):
        assert key_of("dataset=[demo_nli]", none) == plain
    assert key_of("dataset=[demo_nli]", f"{NLI}.num_negatives=1") != plain
