"""A dataset's `view` decides what its rows become; without it, the loss's first choice does."""

import pytest
from jobs import compose_job
from omegaconf import OmegaConf

from datamodules.loading import load_job_data
from launch import typed_config
from lightning_modules.matching import match_losses
from schema.errors import UserError
from schema.examples import Kind


def job_of(*overrides):
    return OmegaConf.to_object(typed_config(compose_job("suite=none", "debug_rows=200", *overrides)))


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        (["dataset=[demo_qmc]", "loss=info_nce"], Kind.POSITIVE_PAIR),
        (["dataset=[demo_nli]", "loss=info_nce"], Kind.TRIPLET),
        (["dataset=[demo_nli]", "loss=info_nce", "dataset.demo_nli.view=positive_pair"], Kind.POSITIVE_PAIR),
        (["dataset=[demo_nli]", "loss=by_kind", "dataset.demo_nli.view=triplet"], Kind.TRIPLET),
        (["dataset=[demo_nli]", "loss=by_kind"], Kind.NLI_PAIR),
    ],
)
def test_the_view_reaches_the_rows(overrides, kind):
    job = job_of(*overrides)
    (match,) = match_losses(job).values()
    assert match.kind is kind
    (rows,) = load_job_data(job, {match.dataset: match.kind}).train.values()
    assert rows.kind is kind
    assert len(rows) > 0


def test_a_view_the_loss_cannot_use_is_refused():
    job = job_of("dataset=[demo_nli]", "loss=softmax", "dataset.demo_nli.view=triplet")
    with pytest.raises(UserError, match="softmax needs NLI pairs"):
        match_losses(job)


def test_labels_in_proportion_are_refused_where_there_are_none():
    words = ("training.stratify_by=label_length", "loss=info_nce")
    with pytest.raises(UserError, match=r"no labels \(demo_qmc as positive pairs\); .*stratify_by=length"):
        match_losses(job_of("dataset=[demo_qmc]", *words))
    with pytest.raises(UserError, match="as sentences"):
        match_losses(job_of("dataset=[demo_sts]", "model=crops", *words))
    for more in (
        ["dataset=[demo_qmc]", "loss=info_nce", "training.stratify_by=length"],
        ["dataset=[demo_sts]", "training.stratify_by=label"],
        ["dataset=[]", "training.stratify_by=label"],
    ):
        match_losses(job_of(*more))
