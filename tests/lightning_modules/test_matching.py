"""A dataset's `view` decides what its rows become; without it, the loss's first choice does."""

import pytest
from jobs import typed_job

from juzhen.core.examples import Kind
from juzhen.data.loading import load_job_data
from lightning_modules.loss_factory import chosen_losses, match_losses


def job_of(*overrides):
    return typed_job("benchmark=none", "debug_rows=200", *overrides)


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        (["dataset=[demo_qmc]", "loss=info_nce"], Kind.POSITIVE_PAIR),
        (["dataset=[demo_nli]", "loss=info_nce"], Kind.TRIPLET),
        (
            ["dataset=[demo_nli]", "loss=info_nce", "dataset.demo_nli.convert_to=positive_pair"],
            Kind.POSITIVE_PAIR,
        ),
        (["dataset=[demo_nli]", "loss=by_kind", "dataset.demo_nli.convert_to=triplet"], Kind.TRIPLET),
        (["dataset=[demo_nli]", "loss=by_kind"], Kind.NLI_PAIR),
        (["dataset=[demo_retrieval]", "loss=by_kind"], Kind.POSITIVE_PAIR),
        (["dataset=[demo_reranking]", "loss=by_kind"], Kind.POSITIVE_PAIR),
    ],
)
def test_the_view_reaches_the_rows(overrides, kind):
    job = job_of(*overrides)
    ((name, match),) = match_losses(job).items()
    assert match.kind is kind
    (rows,) = load_job_data(job, {name: match.kind}).train.values()
    assert rows.kind is kind
    assert len(rows) > 0


def test_a_set_has_its_own_loss_for_a_model_of_text_too():
    job = job_of(
        "model=cot",
        "dataset=[demo_sts,demo_qmc]",
        "loss=info_nce_pool",
        "+loss@schedule.sets.demo_qmc.loss=info_nce_extended",
    )
    assert [match.loss["name"] for match in match_losses(job).values()] == [
        "info_nce_pool",
        "info_nce_extended",
    ]


def test_losses_of_a_finished_run_need_not_have_the_numbers_of_today():
    job = job_of("dataset=[demo_sts]")
    job.loss = {"_target_": "juzhen.losses.regression.SquaredError", "activation": "sigmoid"}
    assert chosen_losses(job)["demo_sts"].kind is Kind.SCORED_PAIR


def test_rows_are_drawn_in_proportion_where_there_are_labels_or_lengths():
    for more in (
        ["dataset=[demo_qmc]", "loss=info_nce", "training.stratify_by=length"],
        ["dataset=[demo_sts]", "training.stratify_by=label"],
        ["dataset=[]", "training.stratify_by=label"],
    ):
        match_losses(job_of(*more))
