"""Jobs whose encoders learn by an adapter: every model, less memory in every way, stages, resume, keys, refusals."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from jobs import interrupt, key_of, logged, run_job, weights
from safetensors.torch import load_file

from juzhen import MultiVectorEncoder, SparseEncoder
from juzhen.core.paths import BUILTIN
from juzhen.core.row_scores import RowScores
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.base_weights import has_adapter
from juzhen.encoders.resolve_path import ADAPTER_WEIGHTS

pytest.importorskip("peft")

LORA = ("adapter=lora", "backbone.adapter.rank=4", "backbone.initialize=pretrained", "optimizer.lr=1e-2")
STEPS = ("training.duration=4 steps", "logger.every_steps=1")


def adapter_of(run: Path) -> dict[str, torch.Tensor]:
    assert not (run / "encoder" / "model.safetensors").exists()
    return load_file(run / "encoder" / ADAPTER_WEIGHTS)


def moved(run: Path) -> bool:
    return any(values.any() for name, values in adapter_of(run).items() if "lora_B" in name)


@pytest.fixture(scope="module")
def plain(tmp_path_factory, encoder_folder) -> Path:
    """A run of a bi-encoder."""
    return run_job(tmp_path_factory.mktemp("plain"), encoder_folder, *LORA, *STEPS, "backbone.dropout=0.0")


@pytest.mark.slow
def test_a_run_tells_what_has_learnt(plain):
    training = json.loads((plain / "result.json").read_text())["training"]
    sizes = {name: values.numel() for name, values in adapter_of(plain).items()}
    assert training["parameters"]["learnt"] == sum(sizes.values()) < training["parameters"]["all"] / 10
    assert 0 < training["memory_before_mib"] <= training["peak_memory_mib"]
    assert moved(plain)


@pytest.mark.parametrize(
    "words",
    [
        ("hardware.micro_batch_tokens=40",),
        ("hardware.gradient_checkpointing=true",),
        ("hardware.gradient_checkpointing=true", "hardware.micro_batch_tokens=40"),
    ],
    ids=["micro-batches", "checkpointing", "both"],
)
@pytest.mark.slow
def test_less_memory_gives_the_same_weights(tmp_path, encoder_folder, plain, words):
    run = run_job(tmp_path, encoder_folder, *LORA, *STEPS, "backbone.dropout=0.0", *words)
    assert run.name == plain.name
    assert logged(run) == pytest.approx(logged(plain), rel=1e-5)
    torch.testing.assert_close(adapter_of(run), adapter_of(plain), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "words",
    [
        ("model=crossencoder", "loss=cosent"),
        ("model=cot", "loss=info_nce_pool", "model.untrained_mask=true"),
        ("model=distill", "loss=distill", "model.teacher=builtin/mini_zh@2"),
        ("hardware.precision=bf16-mixed", "adapter=dora"),
        ("backbone.adapter.base=bfloat16", "callbacks=[default,ema]"),
    ],
    ids=["cross-encoder", "templates", "a student", "dora in bf16", "bf16 base"],
)
@pytest.mark.slow
def test_models_and_kinds(tmp_path, encoder_folder, words):
    run = run_job(tmp_path, encoder_folder, *LORA, "training.duration=2 steps", *words)
    learnt = adapter_of(run)
    assert any(values.abs().max() > 0 for name, values in learnt.items() if "lora_B" in name)


@pytest.mark.slow
def test_stages_go_on_with_the_adapter_and_share_it(tmp_path, encoder_folder):
    words = (*LORA, "training.duration=2 steps", "schedule=serial", "dataset=[demo_sts,demo_qmc]")
    words += (f"schedule.store={tmp_path / 'store'}",)
    first = run_job(tmp_path / "first", encoder_folder, *words)
    again = run_job(tmp_path / "again", encoder_folder, *words)
    before = load_file(next((first / "stages").glob("0-*")) / "encoder" / ADAPTER_WEIGHTS)
    after = adapter_of(first)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in after)
    assert weights(first, "adapter_model") == weights(again, "adapter_model")


@pytest.mark.slow
def test_init_from_a_run_goes_on_with_its_adapter(tmp_path, encoder_folder, plain):
    run = run_job(
        tmp_path, encoder_folder, f"init_from={plain}", "optimizer.lr=1e-2", "training.duration=2 steps"
    )
    before, after = adapter_of(plain), adapter_of(run)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in after)
    assert has_adapter(SentenceEncoder.load(run).backbone)


MERGED = {
    "colbert": (MultiVectorEncoder, ("model.dim=8", "model.query_length=12")),
    "splade": (SparseEncoder, ("model.query_flops=0",)),
}
"""Models whose folders other programs read whole: the adapter is merged when they are saved."""


@pytest.mark.parametrize("model", MERGED)
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_a_model_whose_folder_is_read_whole_saves_the_adapter_merged(tmp_path, encoder_folder, model):
    reader, words = MERGED[model]
    words += (f"model={model}", "dataset=[demo_qmc]", "loss=info_nce", "evaluation.splits=[dev]")
    run = run_job(tmp_path, encoder_folder, *LORA, "training.duration=3 steps", *words)
    learnt = load_file(run / "encoder" / "model.safetensors")
    learnt = {name.removeprefix("bert."): values for name, values in learnt.items()}
    base = load_file(encoder_folder / "model.safetensors")
    changed = [
        name for name in base.keys() & learnt if not torch.equal(learnt[name][: len(base[name])], base[name])
    ]
    assert changed
    assert all(".attention.self." in name or ".attention.output.dense" in name for name in changed)
    frame = RowScores.read(run).sets["dev/demo_qmc"].frame
    lines = (BUILTIN / "data" / "demo_qmc" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    first, second = zip(*(lines[line - 1].split("\t")[:2] for line in frame["line"]), strict=True)
    np.testing.assert_allclose(
        reader.load(run).score([*first], [*second]), frame["score"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MERGED)
def test_a_model_that_saves_it_merged_is_killed_and_continued(tmp_path, encoder_folder, model):
    words = (
        *LORA,
        *MERGED[model][1],
        f"model={model}",
        "dataset=[demo_qmc]",
        "loss=info_nce",
        "backbone.dropout=0.1",
    )
    words += ("training.duration=8 steps", "training.checkpoint_every=2 steps")
    whole = run_job(tmp_path / "whole", encoder_folder, *words)
    (tmp_path / "cut").mkdir()
    assert interrupt(tmp_path / "cut", encoder_folder, 5, "SIGKILL", *words, "resume=auto") == -signal.SIGKILL
    finished = run_job(tmp_path / "cut", encoder_folder, *words, "resume=auto")
    assert weights(finished) == weights(whole)


@pytest.mark.slow
@pytest.mark.parametrize("model", MERGED)
def test_stages_of_a_model_that_saves_it_merged(tmp_path, encoder_folder, model):
    words = (*LORA, *MERGED[model][1], f"model={model}", "loss=cosent", "training.duration=2 steps")
    stages = ("schedule=serial", "dataset=[demo_sts,demo_qmc]", f"schedule.store={tmp_path / 'store'}")
    first, again = (run_job(tmp_path / name, encoder_folder, *words, *stages) for name in ("first", "again"))
    before = (next((first / "stages").glob("0-*")) / "encoder" / "model.safetensors").read_bytes()
    assert weights(first) == weights(again) != before


@pytest.mark.slow
def test_killed_and_continued_bit_by_bit(tmp_path, encoder_folder):
    words = (
        *LORA,
        "training.duration=8 steps",
        "training.checkpoint_every=2 steps",
        "training.validate_every=3 steps",
    )
    words += ("backbone.dropout=0.1", "backbone.adapter.dropout=0.1", "hardware.micro_batch_tokens=60")
    whole = run_job(tmp_path / "whole", encoder_folder, *words)
    (tmp_path / "cut").mkdir()
    assert interrupt(tmp_path / "cut", encoder_folder, 5, "SIGKILL", *words, "resume=auto") == -signal.SIGKILL
    (checkpoint,) = (tmp_path / "cut").glob("*/checkpoints/resume.ckpt")
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert not [name for name in state if "embeddings" in name]  # the base lies in its own files
    finished = run_job(tmp_path / "cut", encoder_folder, *words, "resume=auto")
    assert weights(finished, "adapter_model") == weights(whole, "adapter_model")


def test_the_key_holds_the_adapter():
    words = [
        (),
        ("backbone.adapter.rank=8",),
        ("backbone.adapter.alpha=8",),
        ("backbone.adapter.targets=[query]",),
    ]
    keys = {key_of("adapter=lora", *more) for more in words} | {
        key_of(),
        key_of("adapter=dora"),
    }
    assert len(keys) == 6


@pytest.mark.slow
def test_memory_is_told_before_training(tmp_path, encoder_folder, monkeypatch, capsys):
    import launch.memory
    from juzhen.training.memory import StepMemory

    taken = {None: 9.0, 64: 1.5, 32: 1.0}
    gib = 2**30
    monkeypatch.setattr(launch.memory, "WORTH_A_LOOK", 0)
    monkeypatch.setattr(launch.memory, "free_bytes", lambda job: 2.0 * gib)
    monkeypatch.setattr(
        "juzhen.training.memory.step_memory",
        lambda architecture, lengths, plan: StepMemory(
            0, 0, 0, gib * taken.get(plan.micro_batch_tokens, 3.0)
        ),
    )
    words = (*LORA, "training.duration=2 steps")
    run = run_job(tmp_path / "auto", encoder_folder, *words, "hardware.micro_batch_tokens=auto")
    assert "memory of a step: about 1.50 GiB" in (said := capsys.readouterr().err)
    assert "of 2.0 GiB free; micro-batches of 64 tokens" in said
    assert json.loads((run / "result.json").read_text())["training"]["memory_estimate_mib"] == 1536.0
    pieces = run_job(tmp_path / "pieces", encoder_folder, *words, "hardware.micro_batch_tokens=64")
    assert weights(pieces, "adapter_model") == weights(run, "adapter_model")
    run_job(tmp_path / "whole", encoder_folder, *words)
    assert (
        "it does not fit. Type hardware.micro_batch_tokens=auto (the same numbers" in capsys.readouterr().err
    )
