"""The shapes in the signatures are true: right ones pass the type checker, wrong ones are caught by it."""

from functools import partial

import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

from juzhen.losses.angle import angle_scores
from juzhen.losses.arcface import arcface
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.bilinear import bilinear_logits
from juzhen.losses.ce import class_cross_entropy
from juzhen.losses.circle import circle
from juzhen.losses.clustering import clustering
from juzhen.losses.contrastive import contrastive
from juzhen.losses.cosent import cosent
from juzhen.losses.cosent_sampled import cosent_sampled
from juzhen.losses.cosent_weighted import cosent_weighted
from juzhen.losses.cosine import cosine_regression, rescale
from juzhen.losses.huber import huber
from juzhen.losses.info_nce import false_negatives, info_nce, ranking_summary
from juzhen.losses.info_nce_own import info_nce_own
from juzhen.losses.margin_ranking import margin_ranking
from juzhen.losses.mse import squared_error
from juzhen.losses.online_contrastive import hard_rows, online_contrastive
from juzhen.losses.prototype import prototype_entropy
from juzhen.losses.quantile import pinball
from juzhen.losses.score_order import spread
from juzhen.losses.scores import all_cosines, mean_where, row_cosine
from juzhen.losses.softmax import cross_entropy, pair_features
from juzhen.losses.triplet import adapted_margin, row_nearness, triplet_margin
from juzhen.losses.triplet_online import mined


def floats(*shape):
    return torch.rand(*shape)


def marks(*shape):
    return torch.rand(*shape) > 0.5


def numbers(*shape):
    return torch.randint(0, 9, shape)


GOALS = {"positive_goal": 0.8, "negative_goal": 0.2, "weighted": True}
CALLS = [
    # function, its options, arguments that fit, arguments that do not
    (cosent, {"temperature": 0.05}, (floats(4), floats(4)), (floats(4), floats(5))),
    (cosine_regression, {}, (floats(4), floats(4)), (floats(4), floats(4, 1))),
    (rescale, {"low": -1.0, "high": 1.0}, (floats(4),), (numbers(4),)),
    (contrastive, {"margin": 0.5}, (floats(4), floats(4)), (floats(4), numbers(4))),
    (
        online_contrastive,
        {"margin": 0.5, "reduction": "mean"},
        (floats(4), floats(4)),
        (floats(4), floats(1)),
    ),
    (hard_rows, {}, (floats(4), marks(4)), (floats(4), floats(4))),
    (
        pair_features,
        {"use_difference": True, "use_product": True},
        (floats(4, 3), floats(4, 3)),
        (floats(4, 3), floats(4, 2)),
    ),
    (cross_entropy, {}, (floats(4, 3), torch.ones(4)), (floats(4, 3), torch.ones(3))),
    (
        info_nce,
        {"temperature": 0.05, "symmetric": True},
        (floats(4, 8), marks(4, 8)),
        (floats(4, 8), marks(4, 4)),
    ),
    (false_negatives, {}, (numbers(4), numbers(4), numbers(8)), (numbers(4), numbers(3), numbers(8))),
    (
        ranking_summary,
        {},
        (floats(4, 8), marks(4, 8), numbers(4)),
        (floats(4, 8), marks(8, 4), numbers(4)),
    ),
    (
        info_nce_own,
        {"temperature": 0.05},
        (floats(4, 3), marks(4, 3)),
        (floats(4, 3), marks(4, 2)),
    ),
    (triplet_margin, {"margin": 0.2}, (floats(4), floats(4, 2)), (floats(4), floats(4))),
    (adapted_margin, {"margin": 0.2, "share": 0.5}, (torch.rand(()),), (floats(2),)),
    (mined, {"mining": "semi_hard"}, (floats(4, 8), marks(4, 8)), (floats(4, 8), marks(4, 4))),
    (row_nearness, {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(1, 3))),
    (row_cosine, {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(1, 3))),
    (all_cosines, {}, (floats(4, 3), floats(8, 3)), (floats(4, 3), floats(8, 2))),
    (mean_where, {}, (floats(4, 3), marks(4, 3)), (floats(4, 3), marks(4))),
    (cosent_weighted, {"temperature": 0.05}, (floats(4), floats(4)), (floats(4), floats(5))),
    (
        cosent_sampled,
        {"temperature": 0.05},
        (floats(4), floats(4), floats(4, 2)),
        (floats(4), floats(4), floats(3, 2)),
    ),
    (spread, {}, (floats(4),), (floats(4, 1),)),
    (angle_scores, {}, (floats(4, 3), floats(4, 3)), (floats(4, 3), floats(4, 2))),
    (
        binary_cross_entropy,
        {"smoothing": 0.1, "focal_gamma": 1.0},
        (floats(4), floats(4)),
        (floats(4, 1), floats(4)),
    ),
    (
        class_cross_entropy,
        {"smoothing": 0.1, "focal_gamma": 1.0},
        (floats(4, 3), torch.ones(4)),
        (floats(4), torch.ones(4)),
    ),
    (squared_error, {"activation": "sigmoid"}, (floats(4), floats(4)), (floats(4), floats(4, 1))),
    (huber, {"delta": 0.5, "activation": "identity"}, (floats(4), floats(4)), (floats(4), floats(3))),
    (
        pinball,
        {"quantile": 0.5, "activation": "identity"},
        (floats(4), floats(4)),
        (floats(4), floats(3)),
    ),
    (margin_ranking, {"margin": 0.2}, (floats(4), floats(4)), (floats(4), floats(5))),
    (circle, GOALS | {"temperature": 0.1}, (floats(4), floats(4)), (floats(4), marks(4))),
    (
        arcface,
        {"margin": 0.2, "temperature": 0.1},
        (floats(4, 3), torch.ones(4)),
        (floats(4, 3), torch.ones(3)),
    ),
    (prototype_entropy, {"temperature": 0.1}, (floats(4, 3), torch.ones(4)), (floats(4), torch.ones(4))),
    (
        clustering,
        {"separation_weight": 1.0, "separation_margin": 0.0},
        (floats(4, 3), torch.ones(4)),
        (floats(4, 3), torch.ones(3)),
    ),
    (
        bilinear_logits,
        {},
        (floats(4, 3), floats(4, 3), floats(2, 3, 3), floats(2)),
        (floats(4, 3), floats(4, 3), floats(2, 3, 2), floats(2)),
    ),
]


@pytest.mark.parametrize(
    ("function", "options", "fitting", "wrong"), CALLS, ids=lambda value: getattr(value, "__name__", "")
)
def test_shapes_are_what_the_signature_says(function, options, fitting, wrong):
    checked = partial(jaxtyped(function, typechecker=beartype), **options)
    checked(*fitting)
    with pytest.raises(TypeCheckError):
        checked(*wrong)
