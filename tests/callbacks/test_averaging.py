"""EMA and SWA: what is validated, kept and saved is the average, and a killed run ends with the same one."""

import copy

import pytest
import pytorch_lightning as pl
import torch
from jobs import compose_job, interrupt, run_job, weights
from safetensors.torch import load_file

import callbacks.trainer as assembly
from juzhen.core.result import Result
from launch.job import run_key

QUICK = (
    "training.duration=6 steps",
    "training.validate_every=3 steps",
    "evaluation.splits=[dev]",
    "backbone.dropout=0",
)
NAME = "encoder.layer.0.output.dense.weight"


class Seen(pl.Callback):
    """The weights after each step, as training has them."""

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer, module, *step) -> None:
        self.steps.append(copy.deepcopy(dict(module.encoder.backbone.named_parameters())[NAME].detach()))


def averaged(tmp_path, backbone, monkeypatch, *words):
    """What a run keeps, and the weights of its steps."""
    seen, build = Seen(), assembly.build_callbacks
    monkeypatch.setattr(assembly, "build_callbacks", lambda *given: [seen, *build(*given)])
    run = run_job(tmp_path, backbone, *QUICK, *words)
    kept = load_file(run / "encoder" / "model.safetensors")
    return next(values for name, values in kept.items() if name.endswith(NAME)), seen.steps, run


def test_the_mean_of_the_last_steps_is_kept(tmp_path, tiny_backbone, monkeypatch):
    kept, steps, _ = averaged(
        tmp_path, tiny_backbone, monkeypatch, "callbacks=[swa]", "callbacks.swa.start_percent=50", "benchmark=none",
        "training.monitor=auto", "dataset.demo_sts.layouts.tsv.files.dev=null",
    )  # fmt: skip
    assert torch.allclose(kept, torch.stack(steps[3:]).mean(dim=0), atol=1e-7)
    assert not torch.allclose(kept, steps[-1], atol=1e-5)


@pytest.mark.slow
def test_the_moving_average_is_validated_and_kept(tmp_path, tiny_backbone, monkeypatch):
    kept, steps, run = averaged(
        tmp_path, tiny_backbone, monkeypatch, "callbacks=[ema]", "callbacks.ema.decay=0.25"
    )
    after, average = [], steps[0]
    for number, values in enumerate(steps, start=1):
        decay = min(0.25, number / (number + 9))
        average = values if number == 1 else decay * average + (1 - decay) * values
        after.append(average)
    result = Result.read(run)
    assert any(torch.allclose(kept, after[step], atol=1e-6) for step in (2, 5)), (
        "one of the two validated averages"
    )
    best = result.training["best_dev_spearman"]
    assert result.scores["dev/demo_sts/spearman"].value == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
def test_killed_after_a_validation_it_ends_with_the_same_average(tmp_path, tiny_backbone):
    job = (*QUICK, "callbacks=[ema]", "training.checkpoint_every=1 steps", "training.patience=null")
    whole = run_job(tmp_path / "whole", tiny_backbone, *job)
    assert interrupt(tmp_path / "cut", tiny_backbone, 4, "SIGKILL", *job, "resume=auto") == -9
    assert weights(run_job(tmp_path / "cut", tiny_backbone, *job, "resume=auto")) == weights(whole)


def test_it_is_part_of_the_key():
    keys = {
        run_key(compose_job("benchmark=none", word))
        for word in ("callbacks=default", "callbacks=[default,ema]")
    }
    assert len(keys) == 2
