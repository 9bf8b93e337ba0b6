"""What a loss cannot take, as an option or as a tensor, is refused by its name."""

import math

import pytest
import torch
from refusals import rows
from test_arguments import call

from juzhen import losses
from juzhen.core.errors import UserError
from juzhen.core.schema import ConfigError
from juzhen.losses.loss import Loss
from launch.job import check_target

HEAD = {"dim": 2, "num_classes": 2}
OPTIONS = [
    ("TripletMargin", {"distance": "cosin"}, r"distance=cosin: .*Did you mean cosine\?"),
    ("TripletMargin", {"margin": -1}, "margin=-1: expected "),
    ("TripletMargin", {"adaptive_margin": -1}, "adaptive_margin=-1: expected "),
    ("TripletOnline", {"mining": "hard"}, "mining=hard: expected .*batch_hard"),
    ("Quantile", {"quantile": 1}, "quantile=1: expected "),
    ("OnlineContrastive", {"reduction": "average"}, "reduction=average: expected .*mean.*sum"),
    ("OnlineContrastive", {"margin": 0}, "margin=0: expected "),
    ("Contrastive", {"margin": -0.5}, "margin=-0.5: expected "),
    ("CoSENT", {"temperature": 0}, "temperature=0: expected "),
    ("CoSENTLayers", {"depths": [1, 0.5]}, r"depths=\[1, 0.5\]: .* rising order"),
    ("CoSENTLayers", {"depths": [0.5, 6]}, r"depths\[1\]=6: expected "),
    ("CoSENTLayers", {"weights": [1]}, r"weights=\[1\]: .* each of depths"),
    ("InfoNCEPool", {"temperature": 0.0}, "temperature=0.0: expected .*0"),
    ("InfoNCE", {"false_negative_margin": 3}, "false_negative_margin=3: expected "),
    ("InfoNCEGuided", {"false_negative_margin": -3}, "false_negative_margin=-3: expected "),
    ("LambdaLoss", {"mu": -1}, "mu=-1: expected "),
    ("ListKL", {"teacher_temperature": 0}, "teacher_temperature=0: expected "),
    ("InfoNCE", {"temperature": math.inf}, "temperature=inf: expected "),
    ("CosineSimilarity", {"target_range": [0, 5]}, r"target_range\[1\]=5: expected "),
    ("CosineSimilarity", {"target_range": [0]}, r"target_range=\[0\]: .* 2"),
    ("CosineSimilarity", {"target_range": [1, 0]}, r"\[1, 0\]: .*lower number first"),
    ("CoSENTWeighted", {"temperature_unit": "spred"}, "temperature_unit=spred: .*Did you mean spread"),
    ("CoSENTSampled", {"num_comparisons": 0}, "num_comparisons=0: expected "),
    ("BinaryCrossEntropy", {"label_smoothing": 1.5}, "label_smoothing=1.5: expected "),
    ("CrossEntropy", {"focal_gamma": -1}, "focal_gamma=-1: expected "),
    ("SquaredError", {"activation": "tanh"}, "activation=tanh: expected .*identity.*sigmoid"),
    (
        "SquaredError",
        {"activation": "sigmoid", "target_range": [-1, 1]},
        r"=\[-1, 1\]: .* Type target_range=\[0,1\] too",
    ),
    ("SquaredError", {"target_range": [1, 1]}, "lower number first"),
    ("Huber", {"delta": 0}, "delta=0: expected "),
    ("CrossEntropyError", {"error_weight": -1}, "error_weight=-1: expected "),
    ("CrossEntropyError", {"temperature": 0}, "temperature=0: expected "),
    ("MarginRanking", {"margin": -1}, "margin=-1: expected "),
    ("Circle", {"margin": 2}, "margin=2: expected "),
    ("Circle", {"positive_goal": 5}, "positive_goal=5: expected "),
    ("Circle", {"positive_goal": 1, "negative_goal": 0}, "both goals. Type margin=null too"),
    ("Circle", {"margin": None, "negative_goal": 0}, "Type margin=0.25, or both goals"),
    ("ArcFace", {"margin": 4, **HEAD}, "margin=4: expected "),
    *(
        (name, {**HEAD, size: value}, f"{size}={value}: expected ")
        for name in ("ArcFace", "Bilinear", "SoftmaxClassifier", "InfoNCEQueue", "CoSENTAndSoftmax")
        for size, value in (("dim", 0), ("dim", -4), ("num_classes", -1))
    ),
    ("Clustering", {"separation_weight": -1}, "separation_weight=-1: expected "),
    ("Bilinear", {"objective": "cross", **HEAD}, "objective=cross: expected .*bce.*ce"),
    ("Bilinear", {"objective": "bce", "dim": 5, "num_classes": 3}, "bce is for 0/1 pairs.* 3 classes"),
    ("AnglE", {"angle_weight": 0}, "angle_weight=0, cosine_weight=0, batch_weight=0: .*above 0"),
]
VALUES = [
    *(("triplets.TripletMargin", "margin", value) for value in ("wide", None, True, math.nan, [1], -1)),
    *(("contrast.InfoNCE", "symmetric", value) for value in ("no", 1, None)),  # "no" would count as true
    *(("order.CoSENT", "temperature", value) for value in (0, -1, True, 1e-30, 1e30)),
    *(("sums.CoSENTAndBCE", "entropy_weight", value) for value in (1e-30, 1e30)),
    ("pairs.Contrastive", "margin", 1e-30),
    *(("lists.InfoNCEDrawn", "num_drawn", value) for value in (0, 2.0, True, "4")),
]


def of_one_document(name):
    loss, tensors = call(name)
    return loss(**{argument: values[:, :1] for argument, values in tensors.items()})


def of_a_silent_teacher(name):
    loss, tensors = call(name)
    silent = tensors["teacher_scores"].clone()
    silent[2, 1] = math.nan
    return loss(**tensors | {"teacher_scores": silent})


def of_a_short_teacher():
    nested = losses.Nested(of=losses.DistillMSE(), dims=[2, 6], smaller_weight=1)
    return nested(projected=torch.rand(5, 6), teacher=torch.rand(5, 4))


GIVEN = torch.tensor([0.9, 0.2, 0.4]), torch.tensor([1.0, 0.0, 1.0])
REFUSED = {
    "an option": [
        (lambda f, name=name, given=given: getattr(losses, name)(**given), words)
        for name, given, words in OPTIONS
    ],
    "a function": [
        *(
            (lambda f, value=value: losses.cosent(*GIVEN, temperature=value), "temperature=")
            for value in ("x", math.nan, 0.0, -1.0, True, None)
        ),
        *(
            (lambda f, value=value: losses.cosent_extremes(*GIVEN, num_extremes=value), "num_extremes=")
            for value in ("x", 1.5, 0, True)
        ),
        (lambda f: losses.info_nce(torch.eye(3), symmetric="no"), "symmetric="),
        (lambda f: losses.CoSENT(scale=20), r"Type temperature=0\.05"),
    ],
    "a value of a file": [
        (
            lambda f, target=target, key=key, value=value: check_target(
                {"_target_": f"juzhen.losses.{target}", "name": "x", key: value}, "loss"
            ),
            f"loss.{key}=.*: expected",
        )
        for target, key, value in VALUES
    ],
    "nested": [
        (lambda f: losses.Nested(of=losses.CoSENT(), dims=[]), r"dims=\[\]: expected distinct sizes"),
        (lambda f: losses.Nested(of=losses.CoSENT(), dims=[8, 8]), r"dims=\[8, 8\]: expected distinct sizes"),
        (lambda f: losses.Nested(of=losses.CoSENT(), dims=[0]), r"dims\[0\]=0: expected .* 1"),
        (lambda f: losses.Nested(of=losses.CoSENT(), weights=[1]), r"weights=\[1.0\]: .* each of dims"),
        (
            lambda f: losses.Nested(of=losses.CoSENT(), dims=[64, 512]).dims_of(384),
            r"dims=\[64, 512\]: .* 384 .* dims=\[64, 384\], or null for \[32, 64, ",
        ),
        (lambda f: losses.Nested(of=losses.SoftmaxClassifier(dim=2, num_classes=2)), "a head of one size"),
        (lambda f: losses.Nested(of=losses.CoSENTLayers()), "^of: CoSENTLayers reads layers.* .*CoSENT$"),
        (lambda f: losses.NestedLayers(of=losses.CoSENT(), depths=[1]), "shares below 1 in rising order"),
        (lambda f: of_a_short_teacher(), r"teacher has the shape \(5, 4\)"),
    ],
    "a tensor": [
        (lambda f: losses.CrossEntropy()(torch.rand(3, 2), torch.tensor([0.0, 0.5, 1.0])), "whole numbers"),
        *(
            (lambda f, name=name: of_one_document(name), "Expected 2 documents or more")
            for name in ("list_kl", "list_mle", "margin_mse", "lambda_loss")
        ),
        *(
            (lambda f, name=name: of_a_silent_teacher(name), "teacher_scores: 1 of 36 are NaN")
            for name in ("list_kl", "list_mle", "margin_mse")
        ),
        (lambda f: losses.LambdaLoss(graded=True, k=2)(torch.rand(1, 3)), "graded=true"),
        (
            lambda f: losses.DistillCosine()(torch.rand(5, 3), torch.rand(4, 3)),
            r"teacher has the shape \(4, 3\). Expected \(batch, teacher\), batch = 5",
        ),
        (
            lambda f: losses.InfoNCEWeighted(hardness_strength=1, hardness_mode="own")(
                torch.rand(3, 5), torch.rand(3, 5)
            ),
            "hardness_mode=own: .*no hard negatives",
        ),
        (
            lambda f: type("Odd", (Loss,), {"with_logs": lambda self, scores, gold: (scores, gold)}),
            r"Odd\.with_logs: gold not in juzhen/core/batch\.py",
        ),
    ],
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_what_a_loss_cannot_take_is_refused_by_its_name(f, call, words):
    with pytest.raises((UserError, ConfigError, TypeError), match=words):
        call(f)
