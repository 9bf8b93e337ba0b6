"""`juzhen memory`, and the line before training: memory of a step, and changes to make if it does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from juzhen.core.errors import require_number
from juzhen.core.paths import CONFIGURATION

if TYPE_CHECKING:  # it loads torch
    from transformers import PretrainedConfig

    from conf.job import JobConfig
    from datamodules.datamodule import SentenceDataModule
    from juzhen.training.memory import StepMemory, StepPlan

LOOKED_AT = 32
"""Batches from the start of a stage among which the one with the most tokens is looked for."""

WORTH_A_LOOK = 64 * 2**20
"""Bytes: a step that surely takes less is taken without an estimate, which costs a second."""

SHARE = 0.9
"""Of the memory that is free, which a step may fill by its estimate."""

WAYS = {
    "hardware.micro_batch_tokens=auto": "the same numbers, 1.4 to 1.9 times as long on a CPU",
    "hardware.gradient_checkpointing=true": "the same numbers, one more forward pass",
    "adapter=lora": "a few matrices learn: other numbers",
}
"""What makes a step smaller, and at what cost."""


def memory(
    words: Annotated[
        list[str] | None, Argument(help="as of train.py: backbone=…, adapter=lora, hardware=cuda")
    ] = None,
    *,
    length: Annotated[
        int | None, Option(min=1, help="tokens of a text", show_default="the most that the backbone reads")
    ] = None,
    texts: Annotated[int, Option(min=1, help="of each row")] = 2,
) -> None:
    """How much memory a training step takes, from config.json alone: no weights are loaded and no rows are read.

    juzhen memory backbone=mini_zh training.batch_size=256 --length 32
    juzhen memory backbone=bert_zh adapter=lora hardware.gradient_checkpointing=true
    """
    from launch.check import checked_job

    job = checked_job(words or [], conf_dir=CONFIGURATION, extra=None)
    from juzhen.core.progress import console_table, for_people
    from juzhen.encoders.backbone import read_architecture, set_attention
    from juzhen.encoders.preflight import find_encoder

    files = find_encoder(replace(job.backbone, initialize="random"))
    architecture = read_architecture(files.layout.transformer, dropout=job.backbone.dropout)
    set_attention(architecture, job.backbone.attention)
    if job.backbone.layers is not None:
        architecture.num_hidden_layers = job.backbone.layers
    longest = (
        length or job.backbone.max_length or getattr(architecture, "max_position_embeddings", None) or 512
    )
    require_number("training.batch_size", job.training.batch_size, 1, 10**6)
    processes = job.hardware.processes
    count = -(-job.training.batch_size // processes) * texts
    parts = ("weights", "gradients", "optimizer", "activations", "peak")
    rows = [
        [name, *(f"{getattr(taken, part) / 2**30:.2f}" for part in parts)]
        for name, taken in _ways(job, architecture, [longest] * count).items()
    ]
    head = ["", "weights", "gradients", "optimizer", "activations", "most at a time"]
    each = f" in each of {processes} processes" if processes > 1 else ""
    title = f"GiB of a step over {count:,} texts of {longest:,} tokens{each}; free here: {_words(free_bytes(job))}"
    if console := for_people():
        console.print(title)
        console.print(console_table(head, rows, numbers=head[1:]))
    else:
        print("\n".join([title, *("\t".join(row) for row in [head, *rows])]))


def _ways(
    job: "JobConfig", architecture: "PretrainedConfig", lengths: Sequence[int]
) -> dict[str, "StepMemory"]:
    """The step of the job, and of each way to make it smaller that it does not go yet."""
    from juzhen.training.memory import largest_micro_batch, step_memory

    plan, free = plan_of(job), _room(job)
    taken: dict[str, StepMemory] = {}
    if job.hardware.micro_batch_tokens == "auto":
        size, taken["as configured"] = largest_micro_batch(architecture, lengths, plan, free=free)
        plan = replace(plan, micro_batch_tokens=size)
    else:
        taken["as configured"] = step_memory(architecture, lengths, plan)
        if plan.micro_batch_tokens is None:
            size, pieces = largest_micro_batch(architecture, lengths, plan, free=free)
            taken |= {f"hardware.micro_batch_tokens=auto ({size:,})": pieces} if size is not None else {}
    changes = {
        "hardware.gradient_checkpointing=true": {"checkpointing": True},
        "adapter=lora": {"adapter": _lora()},
    }
    for name, change in changes.items():
        (key,) = change
        if not getattr(plan, key):
            taken[name] = step_memory(architecture, lengths, replace(plan, **change))
    return taken


def _lora() -> Any:
    from juzhen.encoders.backbone_config import AdapterConfig

    return AdapterConfig()


def plan_of(job: "JobConfig") -> "StepPlan":
    """Collect the settings of a job that decide the memory of a step.

    Args:
        job: A typed job.

    Returns:
        The settings for `juzhen.training.memory`. `auto` micro-batches are None.
    """
    from juzhen.encoders.pooling import POOLINGS
    from juzhen.training.memory import StepPlan

    hardware, budget = job.hardware, job.hardware.micro_batch_tokens
    pooling = job.backbone.pooling or "mean"
    return StepPlan(
        pooling=pooling if pooling in POOLINGS else "mean",
        adapter=job.backbone.adapter if not job.init_from else None,
        micro_batch_tokens=None if budget == "auto" else budget,
        checkpointing=hardware.gradient_checkpointing,
        precision=hardware.precision,
        optimizer_bytes=8 if job.optimizer.state_bits == 32 else 2 + 8 / 256,
        on_cuda=hardware.accelerator == "cuda",
        sparse=(job.model.get("pooling") or "max") if job.model["name"] == "splade" else None,
        sharing=hardware.processes if hardware.strategy == "fsdp" else 1,
    )


def free_bytes(job: "JobConfig") -> float | None:
    """Measure the free memory of a job's device for each process.

    Args:
        job: Its `hardware` is read.

    Returns:
        Bytes. None if they are unknown.
    """
    import torch

    from juzhen.core.machine import free_mib

    hardware = job.hardware
    if hardware.accelerator == "cuda":
        return float(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else None
    free = free_mib()
    return None if free is None else free * 2**20 / hardware.devices


def _room(job: "JobConfig") -> float:
    free = free_bytes(job)
    return float("inf") if free is None else SHARE * free


def _words(count: float | None) -> str:
    return "not known" if count is None else f"{count / 2**30:.1f}"


def _heaviest(data: "SentenceDataModule", processes: int = 1) -> list[int]:
    """Tokens of each text that one process encodes of the batch with the most of them, of the first of a stage."""
    from juzhen.encoders.collate import SentenceCollator

    make = data.collate.training_batch
    if getattr(data.collate, "asks_teacher", False):  # what the teacher says is not known yet
        make = partial(SentenceCollator.training_batch, data.collate)
    lengths: list[int] = []
    for number, chosen in enumerate(data.stream):
        if number == LOOKED_AT:
            break
        for process in range(processes):
            rows = chosen.rows[process::processes]
            if len(rows):
                batch = make(data.train[chosen.task], rows, index=chosen.number)
                lengths = max(lengths, batch.tokens.lengths.tolist(), key=sum)
    return lengths


def fit_memory(
    job: "JobConfig", encoder: Any, data: "SentenceDataModule", chosen: int | None
) -> dict[str, Any]:
    """Set the micro-batches of `auto`, print the notes about memory, and return the memory of a step.

    Args:
        job: The job.
        encoder: Its encoder.
        data: Its data.
        chosen: Micro-batches of the run that is resumed. Others would change its weights. None: a new run.

    Returns:
        Memory of a step, as in a Result.
    """
    from juzhen.encoders.base_weights import has_adapter
    from juzhen.training.memory import largest_micro_batch, rough_bytes, step_memory

    inner, is_auto = encoder.inner, job.hardware.micro_batch_tokens == "auto"
    architecture, lengths = inner.backbone.config, _heaviest(data, job.hardware.processes)
    if is_auto and chosen is not None:
        inner.micro_batch_tokens = chosen or None
    free = free_bytes(job)
    if not lengths or (rough_bytes(architecture, lengths) < WORTH_A_LOOK and not is_auto):
        return {}
    plan = replace(plan_of(job), micro_batch_tokens=inner.micro_batch_tokens)
    if has_adapter(inner.backbone) and plan.adapter is None:
        plan = replace(plan, adapter=_lora())
    if is_auto and chosen is None:
        inner.micro_batch_tokens, taken = largest_micro_batch(architecture, lengths, plan, free=_room(job))
    else:
        taken = step_memory(architecture, lengths, plan)
    messages = [f"memory of a step: about {taken.words()}, of {_words(free)} GiB free"]
    if is_auto:
        messages[0] += f"; micro-batches of {inner.micro_batch_tokens or 'all'} tokens"
    if free is not None and taken.peak > free:
        messages.append(
            f"warning: {messages[0]}: it does not fit. {_advice(job, architecture, lengths, free)}"
        )
        messages = messages[1:]
    return {"memory_estimate_mib": round(taken.peak / 2**20, 1), "lines": messages}


def _advice(job: "JobConfig", architecture: "PretrainedConfig", lengths: Sequence[int], free: float) -> str:
    taken = _ways(job, architecture, lengths)
    fitting = [
        name.partition(" (")[0]
        for name, memory in taken.items()
        if memory.peak <= free and name != "as configured"
    ]
    if fitting:
        return "Type " + " or ".join(f"{name} ({WAYS[name]})" for name in fitting)
    return "Choose a smaller backbone, or fewer and shorter texts: training.batch_size, backbone.max_length"
