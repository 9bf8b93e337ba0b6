"""Jobs of several sets whose losses are weighed anew: what they log, a kill in the middle of an update, refusals."""

import math
import signal
from types import SimpleNamespace

import pytest
import torch
from jobs import interrupt, logged, module_of, run_job, typed_job, weights

from callbacks.set_weights import GradNorm, LossRatio, Uncertainty, by_gradient_norm, by_mean_loss
from callbacks.trainer import SetCounts
from juzhen.core.result import Result
from launch.console import set_lines
from lightning_modules.loss_factory import build_losses, match_losses

TWO = (
    "dataset=[demo_sts,demo_qmc]",
    "debug_rows=24",
    "training.batch_size=4",
    "training.duration=6 steps",
    "training.validate_every=2 steps",
    "training.patience=null",
    "logger.every_steps=1",
)
BLEND = "schedule.sample_by=blend"
WAYS = {
    "mean_loss": ("callbacks.weights.every_steps=2", "schedule.sample_by=round_robin"),
    "loss_ratio": ("callbacks.weights.every_steps=1", BLEND),
    "uncertainty": ("+schedule.sets.demo_sts.loss_weight=2",),
    "gradnorm": (BLEND,),
    "pcgrad": (BLEND, "training.accumulate=2"),
    "focal": (),
}


def way(name: str) -> tuple[str, ...]:
    return (*TWO, f"weights={name}", *WAYS[name])


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.slow
def test_a_kill_between_two_updates_changes_no_bit(name, tmp_path, tiny_backbone):
    whole = run_job(tmp_path / "whole", tiny_backbone, *way(name))
    cut = (*way(name), "training.checkpoint_every=1 steps", "resume=auto")
    assert interrupt(tmp_path / "cut", tiny_backbone, 3, "SIGKILL", *cut) == -signal.SIGKILL
    again = run_job(tmp_path / "cut", tiny_backbone, *cut)
    assert weights(again) == weights(whole)
    sets = [Result.read(run).training["sets"] for run in (whole, again)]
    ends = [{key: each["weight"] for key, each in one.items()} for one in sets]
    assert ends[0] == ends[1]
    step = sets[0]["demo_sts"]["weight_step"]
    if name == "uncertainty":  # learnt with the encoder, whose best step is kept
        of_step = logged(whole, "train/demo_sts/weight")[step - 1]
        assert ends[0]["demo_sts"] == pytest.approx(of_step, rel=1e-5)
    else:
        assert step == 6
    if name != "pcgrad":
        assert len(set(logged(whole, "train/demo_sts/weight"))) > 1
        assert len(set(ends[0].values())) == 2


@pytest.mark.slow
def test_the_mean_loss_of_each_period_decides(tmp_path, tiny_backbone, capsys):
    words = ("training.duration=4 steps", BLEND, "callbacks.weights.every_steps=2", "logger.progress=true")
    run = run_job(tmp_path, tiny_backbone, *TWO, "weights=mean_loss", *words)
    losses = torch.tensor([logged(run, f"train/{name}/loss") for name in ("demo_sts", "demo_qmc")])
    of_sets = torch.tensor([logged(run, f"train/{name}/weight") for name in ("demo_sts", "demo_qmc")])
    first = by_mean_loss(torch.ones(2), losses[:, :2].mean(dim=1), alpha=0.5)
    second = by_mean_loss(first, losses[:, 2:].mean(dim=1), alpha=0.5)
    expected = torch.stack([torch.ones(2), first, first, second], dim=1)
    assert torch.allclose(of_sets, expected, atol=1e-5)
    assert logged(run) == pytest.approx(
        [(losses[:, step] * expected[:, max(0, step - 1)]).mean().item() for step in range(4)], rel=1e-4
    )
    assert f"4/4 steps, loss {logged(run)[-1]:#.4g} " in capsys.readouterr().err


def test_a_weight_is_shown_with_its_step():
    counts = {"batches": 1, "rows": 4, "share_of_batches": 0.5, "share_of_rows": 0.5, "weight": 0.25}
    lines = set_lines({"a": counts | {"weight_step": 4}, "b": counts})
    assert [line.rpartition("weight")[2] for line in lines] == [" 0.25 at step 4", " 0.25"]


def test_learnt_weights_of_sets_are_no_weights_of_the_model(tiny_backbone):
    module, counts = module_of(tiny_backbone), SetCounts()
    expected = {name for name, _ in module.named_parameters()}
    weighing = Uncertainty(lr=0.1)
    weighing.names = ["demo_sts", "demo_qmc"]
    weighing.begin(module)
    assert {name for name, _ in module.named_weights()} == expected
    for name, values in module.named_parameters():
        values.grad = torch.full_like(values, 100.0 if name.startswith("log_variances") else 0.0)
    module.encoder.backbone.embeddings.word_embeddings.weight.grad[5, 7] = -3.0
    counts._is_due, counts._task = True, "demo_sts"
    counts._before = [None for _ in expected]
    module.log = lambda *given, **options: None
    trainer = SimpleNamespace(precision_plugin=None, accumulate_grad_batches=2)
    counts.on_after_backward(trainer, module)
    assert counts.lengths["demo_sts"][0] == 6.0  # of the batch, which is half of a step


def test_sets_with_names_of_methods_are_trained_and_weighed(tiny_backbone):
    module, weighing = module_of(tiny_backbone), Uncertainty(lr=0.1)
    weighing.names = ["train", "values"]  # train.csv is the usual name of a table
    matches = match_losses(typed_job("benchmark=none", "dataset=[demo_sts]"))
    losses = build_losses(
        dict.fromkeys(weighing.names, matches["demo_sts"]), dim=4, num_classes={"train": 2, "values": 2}
    )
    assert list(losses) == weighing.names
    assert losses["train"] is losses["values"]
    weighing._fixed = [1.0, 2.0]
    weighing.begin(module)
    assert weighing.current().tolist() == [1.0, 2.0]
    weighing.weigh("values", torch.tensor(3.0)).backward()
    assert module.state_dict()["log_variances.train"].item() == 0.0
    assert [one.grad is None for one in module.log_variances.parameters()] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("weighing", ["uncertainty", "gradnorm", "pcgrad"])
def test_a_weighed_set_pulls_as_hard_as_it_does_unweighed(weighing, tmp_path, tiny_backbone):
    """At the first step, where all weights are 1 yet."""
    words = [word for word in way(weighing)[len(TWO) + 1 :] if not word.startswith("callbacks.")]
    plain = run_job(tmp_path / "plain", tiny_backbone, *TWO, *words)
    weighed = run_job(tmp_path / "weighed", tiny_backbone, *way(weighing))
    for name in ("demo_sts", "demo_qmc"):
        lengths = [logged(run, f"train/{name}/gradient_norm")[0] for run in (plain, weighed)]
        assert lengths[1] == pytest.approx(lengths[0], rel=0.05), name


def test_a_step_of_float16_is_read_by_its_own_scale_and_not_at_all_if_it_overflows():
    layer, weighing, scale = torch.nn.Linear(2, 2, bias=False), GradNorm(alpha=1.5, lr=0.025), [4.0]
    weighing.names, weighing.values = ["a", "b"], torch.ones(2)
    weighing.begin(layer)
    module = SimpleNamespace(encoder=layer)
    scaler = SimpleNamespace(get_scale=lambda: scale[0])
    strategy = SimpleNamespace(reduce=lambda values, reduce_op: values)
    trainer = SimpleNamespace(precision_plugin=SimpleNamespace(scaler=scaler), strategy=strategy)

    def step(*lengths):
        layer.weight.grad = torch.zeros(2, 2)
        for place, length in enumerate(lengths):
            weighing._task = weighing.names[place]
            weighing.on_before_backward(trainer, module, torch.ones(()))
            layer.weight.grad[place, place] += scale[0] * length / 2  # a batch is half of a step
            weighing.on_after_backward(trainer, module)
            weighing.record(place, torch.ones(()))
        scale[0] *= 2  # as the scaler does at the end of a step
        weighing.update(trainer)
        return weighing.values

    ones, norms = torch.ones(2), torch.tensor([1.0, 2.0])
    expected = by_gradient_norm(ones, norms, ones, ones, alpha=1.5, rate=0.025)
    torch.testing.assert_close(step(1.0, 2.0), expected)
    torch.testing.assert_close(step(1.0, math.inf), expected)


def test_means_of_a_set_leave_out_steps_that_overflow():
    counts, numbers = SetCounts(), [torch.tensor(value) for value in (math.inf, 2.0, 4.0)]
    counts.load_state_dict({"batches": {"a": 3}, "rows": {"a": 12}})
    counts.losses, counts.lengths = {"a": numbers[1:]}, {"a": numbers}
    means = counts.summary()["a"]
    assert (means["batches"], means["loss"], means["gradient_norm"]) == (3, 3.0, 3.0)


def test_a_stage_of_one_set_is_left_alone():
    assert LossRatio(every_steps=1, temperature=2).state_dict() == {}
