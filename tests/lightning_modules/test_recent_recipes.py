"""Two passes, a queue, layers that learn slower or later, and layers computed again, in whole jobs."""

import pytest
import torch
from jobs import interrupt, key_of, logged, module_of, run_job, typed_job, weights
from safetensors.torch import load_file

from juzhen.encoders import load_backbone
from juzhen.losses import InfoNCEQueue
from juzhen.training.optimizer import layer_of
from lightning_modules.loss_factory import build_losses, match_losses

UNFREEZING = ("callbacks=[default,unfreezing]", "training.patience=null", "evaluation.splits=[dev]")


def test_each_layer_learns_at_its_share_of_the_rate(tiny_backbone):
    module = module_of(tiny_backbone, "optimizer.layer_decay=0.5", "optimizer.lr=1e-3")
    optimizer = module.configure_optimizers()["optimizer"]
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    layers = max(layer_of(name) or 0 for name in names.values())
    seen = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            seen[names[id(parameter)]] = group["initial_lr"]
            assert group["weight_decay"] == (0.01 if parameter.ndim > 1 else 0)
    assert seen.keys() == {name for name, one in module.named_parameters() if one.requires_grad}
    for name, rate in seen.items():
        layer = layer_of(name)
        assert rate == pytest.approx(1e-3 * 0.5 ** (0 if layer is None else layers - layer)), name


def test_what_is_off_leaves_runs_their_keys():
    nli = ("dataset=[demo_nli]", "loss=softmax")
    assert key_of(*nli, "loss.label_smoothing=0") == key_of(*nli) != key_of(*nli, "loss.label_smoothing=0.1")
    assert key_of("optimizer.layer_decay=null") == key_of() != key_of("optimizer.layer_decay=0.9")
    assert key_of("hardware.gradient_checkpointing=true") == key_of()
    assert key_of("callbacks=[default,unfreezing]") != key_of()


@pytest.mark.parametrize("words", [(), ("model=crossencoder", "loss=bce")], ids=["biencoder", "crossencoder"])
@pytest.mark.slow
def test_layers_that_are_computed_again_learn_the_same(tmp_path, tiny_backbone, words):
    words = ("training.duration=3 steps", "evaluation.splits=[]", *words)
    plain = run_job(tmp_path / "plain", tiny_backbone, *words)
    again = run_job(tmp_path / "again", tiny_backbone, *words, "hardware.gradient_checkpointing=true")
    assert weights(again) == weights(plain)


@pytest.mark.slow
def test_a_queue_and_frozen_layers_go_on_after_a_kill(tmp_path, tiny_backbone):
    words = (*UNFREEZING, "dataset=[demo_qmc]", "loss=info_nce_queue", "loss.size=24", "resume=auto")
    words += ("callbacks.unfreezing.layer_every=4 steps", "optimizer.layer_decay=0.8")
    words += ("training.duration=10 steps", "training.checkpoint_every=1 steps")
    whole = run_job(tmp_path / "whole", tiny_backbone, *words)
    interrupt(tmp_path / "cut", tiny_backbone, 5, "SIGKILL", *words)
    assert weights(run_job(tmp_path / "cut", tiny_backbone, *words)) == weights(whole)
    assert logged(whole, "train/demo_qmc/queue_share")[-1] > 0
    assert logged(whole, "train/layers")[0] == 1


@pytest.mark.slow
def test_frozen_layers_stay_as_they_are(tmp_path, tiny_backbone):
    words = (*UNFREEZING, "training.duration=4 steps", "callbacks.unfreezing.layer_every=100 steps")
    words += ("dataset=[demo_nli]", "loss=softmax", "hardware.micro_batch_tokens=40", "backbone.layers=3")
    job = typed_job(
        "benchmark=none", "backbone=random_small", f"backbone.path={tiny_backbone}", "backbone.layers=3"
    )
    start = load_backbone(job.backbone, seed=job.seed).backbone.state_dict()
    for head, moved in (("0 steps", "top"), ("100 steps", "none")):
        run = run_job(tmp_path / moved, tiny_backbone, *words, f"callbacks.unfreezing.head_warmup={head}")
        learnt = load_file(run / "encoder" / "model.safetensors")
        layers = {name: layer_of(f"backbone.{name}") for name in learnt}
        assert max(layer for layer in layers.values() if layer) == 3
        changed = {layers[name] for name, values in learnt.items() if not torch.equal(values, start[name])}
        assert changed == ({3} if moved == "top" else set())


def test_sets_do_not_share_a_queue():
    job = typed_job(
        "benchmark=none", "dataset=[demo_qmc,demo_order]", "loss=spread_out", "loss@loss.of=info_nce_queue"
    )
    built = build_losses(match_losses(job), dim=4, num_classes={"demo_qmc": 2, "demo_order": 2})
    queues = [
        next(part for part in loss.modules() if isinstance(part, InfoNCEQueue)) for loss in built.values()
    ]
    assert queues[0] is not queues[1]


@pytest.mark.parametrize(
    "words",
    [
        ("dataset=[demo_nli]", "loss=r_drop", "loss@loss.of=softmax"),
        ("dataset=[demo_nli]", "loss=r_drop", "loss@loss.of=ce", "model=crossencoder"),
        ("dataset=[demo_qmc]", "loss=r_drop", "loss@loss.of=info_nce", "hardware.micro_batch_tokens=60"),
    ],
    ids=["head", "crossencoder", "contrast"],
)
@pytest.mark.sampled(3)
def test_two_passes_disagree_by_their_dropout(tmp_path, tiny_backbone, words):
    run = run_job(tmp_path, tiny_backbone, "training.duration=2 steps", "evaluation.splits=[]", *words)
    name = words[0].removeprefix("dataset=[").removesuffix("]")
    assert all(value > 1e-6 for value in logged(run, f"train/{name}/disagreement"))
