"""Models that do not fit and numbers that cannot be meant are refused before anything is computed."""

import pytest
import torch
from jobs import tiny_encoder
from refusals import rows

import juzhen
from juzhen.core.errors import UserError
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.merging.methods import multislerp


def other(f, pooling="mean", quantised=None):
    encoder = juzhen.SentenceEncoder.load(f.encoder_folder)
    encoder.pooling = pooling
    if quantised:
        encoder.backbone.config.quantization_config = quantised
    return encoder


def deeper(f):
    return load_backbone(BackboneConfig(path=str(f.encoder_folder), layers=3), seed=0)


def joint(f):
    inner = tiny_encoder(f.tiny_backbone)
    return juzhen.CrossEncoder(inner, outputs=1, segments=False, symmetric=False, seed=0).eval()


A = torch.tensor([1.0, 0.0])
REFUSED = {
    "a model": [
        (lambda f: juzhen.merge([f.encoder_folder, deeper(f)]), r"layer\.1.* Merge models of equal shapes"),
        (lambda f: juzhen.merge([f.encoder_folder, "builtin/mini_zh"]), "their tokenizers differ"),
        (
            lambda f: juzhen.merge([f.encoder_folder, other(f, pooling="cls")]),
            "encoder and model 2: pooling is 'mean' and 'cls'",
        ),
        (lambda f: juzhen.merge([other(f, quantised={"bits": 8})] * 2), "quantised"),
        (lambda f: juzhen.merge([joint(f), other(f)]), "one is a cross-encoder and one a bi-encoder"),
    ],
    "a recipe": [
        (
            lambda f, models=models, recipe=recipe: juzhen.merge(
                [f"no/such/{n}" for n in range(models)], **recipe
            ),
            words,
        )
        for models, recipe, words in (
            (2, {"method": "ties"}, "as the base"),
            (3, {"method": "slerp"}, "method=slerp: 3 models .*Give 2"),
            (2, {"weights": ["a", "b"]}, "weights="),
            (2, {"weights": [1.0]}, "1 for 2 models"),
            (2, {"weights": [0.0, 0.0]}, "not all 0"),
            (2, {"weights": [1e30, 1.0]}, "weights=1e.30: "),
            (2, {"method": "ties", "base": "no/such/base", "scale": 1e30}, "scale=1e.30: "),
            (2, {"weights": [2.0, -1.0]}, "not negative"),
            (2, {"method": "tie"}, "Did you mean ties"),
            (2, {"density": 0.0}, "above 0"),
            (2, {"density": 0.1}, "density: not read by method=linear"),
            (2, {"scale": 3.0}, "scale: not read by method=linear"),
            (2, {"base": "no/such/base"}, "base: not read by method=linear"),
            (2, {"trials": 3}, r"trials \(without weights=dev\): not read"),
            (2, {"dataset": ["demo_qmc"]}, r"dataset \(without weights=dev\): not read"),
            (2, {"method": "greedy_soup", "weights": [0.5, 0.5]}, "weights: not read"),
            (2, {"method": "model_stock", "base": "no/such/base", "weights": "dev"}, "weights: not read"),
        )
    ],
    "directions": [(lambda f: multislerp([A, A, -A], [1, 1, 2]), "cancel")],
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_what_cannot_be_merged_is_refused_before_anything_is_computed(f, call, words, monkeypatch):
    monkeypatch.setattr("juzhen.merging.merge.Models.merge", lambda *given, **how: pytest.fail("computed"))
    with pytest.raises((UserError, ValueError), match=words):
        call(f)
