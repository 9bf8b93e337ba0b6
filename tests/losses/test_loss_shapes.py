"""The shapes in the signatures are true: right ones pass the type checker, wrong ones are caught by it."""

from functools import partial

import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

import juzhen.losses


def floats(*shape):
    return torch.rand(*shape)


def marks(*shape):
    return torch.rand(*shape) > 0.5


def numbers(*shape):
    return torch.randint(0, 9, shape)


FOCAL = {"label_smoothing": 0.1, "focal_gamma": 1.0}
CALLS = [
    # function, its options, arguments that fit, arguments that do not
    ("cosent", {}, (floats(4), floats(4)), (floats(4), floats(5))),
    ("cosine_regression", {}, (floats(4), floats(4)), (floats(4), floats(4, 1))),
    ("contrastive", {}, (floats(4), floats(4)), (floats(4), numbers(4))),
    ("online_contrastive", {}, (floats(4), floats(4)), (floats(4), floats(1))),
    ("hard_rows", {}, (floats(4), marks(4)), (floats(4), floats(4))),
    ("pair_features", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4, 2))),
    ("cross_entropy", {}, (floats(4, 3), torch.ones(4)), (floats(4, 3), torch.ones(3))),
    ("info_nce", {"symmetric": True}, (floats(4, 8), marks(4, 8)), (floats(4, 8), marks(4, 4))),
    ("false_negatives", {}, (numbers(4), numbers(4), numbers(8)), (numbers(4), numbers(3), numbers(8))),
    (
        "ranking_summary",
        {},
        (floats(4, 8), marks(4, 8), numbers(4) % 8),
        (floats(4, 8), marks(8, 4), numbers(4) % 8),
    ),
    ("likely_positives", {"margin": 0.1}, (floats(4, 8),), (floats(4),)),
    ("left_out", {}, (marks(4, 8), marks(4, 8)), (marks(4, 8), marks(4, 4))),
    ("margin_mse", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4, 2))),
    ("list_kl", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4))),
    ("list_mle", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(3, 3))),
    ("lambda_loss", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4, 2))),
    ("info_nce_own", {}, (floats(4, 3), marks(4, 3)), (floats(4, 3), marks(4, 2))),
    ("triplet_margin", {}, (floats(4), floats(4, 2)), (floats(4), floats(4))),
    ("adapted_margin", {"margin": 0.2, "share": 0.5}, (torch.rand(()),), (floats(2),)),
    ("mined", {"mining": "semi_hard"}, (floats(4, 8), marks(4, 8)), (floats(4, 8), marks(4, 4))),
    ("row_cosine", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(1, 3))),
    ("all_cosines", {}, (floats(4, 3), floats(8, 3)), (floats(4, 3), floats(8, 2))),
    ("mean_where", {}, (floats(4, 3), marks(4, 3)), (floats(4, 3), marks(4))),
    ("cosent_weighted", {}, (floats(4), floats(4)), (floats(4), floats(5))),
    ("cosent_sampled", {}, (floats(4), floats(4), floats(4, 2)), (floats(4), floats(4), floats(3, 2))),
    ("spread", {}, (floats(4),), (floats(4, 1),)),
    ("angle_scores", {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4, 2))),
    ("binary_cross_entropy", FOCAL, (floats(4), floats(4)), (floats(4, 1), floats(4))),
    ("class_cross_entropy", FOCAL, (floats(4, 3), torch.ones(4)), (floats(4), torch.ones(4))),
    ("squared_error", {"activation": "sigmoid"}, (floats(4), floats(4)), (floats(4), floats(4, 1))),
    ("huber", {}, (floats(4), floats(4)), (floats(4), floats(3))),
    ("pinball", {}, (floats(4), floats(4)), (floats(4), floats(3))),
    ("margin_ranking", {}, (floats(4), floats(4)), (floats(4), floats(5))),
    ("circle", {}, (floats(4), floats(4)), (floats(4), marks(4))),
    ("arcface", {}, (floats(4, 3), torch.ones(4)), (floats(4, 3), torch.ones(3))),
    ("prototype_entropy", {}, (floats(4, 3), torch.ones(4)), (floats(4), torch.ones(4))),
    ("clustering", {}, (floats(4, 3), torch.ones(4)), (floats(4, 3), torch.ones(3))),
    (
        "bilinear_logits",
        {},
        (floats(4, 3), floats(4, 3), floats(2, 3, 3), floats(2)),
        (floats(4, 3), floats(4, 3), floats(2, 3, 2), floats(2)),
    ),
]


@pytest.mark.parametrize(("name", "options", "fitting", "wrong"), CALLS, ids=[call[0] for call in CALLS])
def test_shapes_are_what_the_signature_says(name, options, fitting, wrong):
    checked = partial(jaxtyped(getattr(juzhen.losses, name), typechecker=beartype), **options)
    checked(*fitting)
    with pytest.raises(TypeCheckError):
        checked(*wrong)
