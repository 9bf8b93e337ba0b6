"""Digests of all that decides the weights after a stage, and of all that decides what weights are scored to."""

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import nn

from conf.job import JobConfig
from conf.own_classes import declared_losses, own_class
from datamodules.datamodule import Stage, loss_weights, select
from juzhen.core.examples import Examples, Side
from juzhen.core.nodes import INNER
from juzhen.data.loading import JobData
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.identity import deciding_model, stage_settings
from juzhen.models import settings_of
from lightning_modules.chosen_losses import Match

ALREADY_IN_THE_START = ("name", "path", "revision", "learning_rate", "initialize")
"""Of the backbone: what the digest of the starting weights knows better, or the optimizer, and what it is called."""

MATHS = 1
"""Raised by hand with every change of the code that gives other weights or scores: a golden curve tells of most."""

LIBRARIES = ("torch", "transformers", "pytorch-lightning", "numpy", "juzhen-embeddings")


def stage_digest(
    parent: str, stage: Stage, job: JobConfig, matches: Mapping[str, Match], data: JobData
) -> str:
    """Hex digits over all that decides the weights after a stage."""
    model = settings_of(job.model)
    selection = select(data.evaluation, stage.datasets, monitor=job.training.monitor, metric=model.metric)
    rows = {
        "train": {name: examples_digest(data.train[name]) for name in stage.datasets},
        "selecting": [
            [key, examples_digest(examples)]
            for key, examples in zip(selection.columns, selection.sets, strict=True)
        ],
    }
    losses = {name: (match.kind, match.loss) for name, match in matches.items()}
    deciding = {"maths": maths(), "parent": parent, "index": stage.index}
    deciding |= stage_settings(job, losses, rows, loss_weights(job, stage.datasets))
    targets = {target for match in matches.values() for target in _targets(match.loss)} & declared_losses()
    if targets:  # whoever edits a loss of their own does not raise a version
        deciding["sources"] = [
            inspect.getsource(sys.modules[own_class(target).__module__]) for target in sorted(targets)
        ]
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


def _targets(loss: Mapping[str, Any]) -> list[str]:
    """The class of a loss, and that of the one that it is made around."""
    return [loss["_target_"], *(_targets(loss[INNER]) if INNER in loss else [])] if loss else []


def examples_digest(examples: Examples) -> str:
    """Hex digits over rows as they are learnt from: texts, order, targets."""
    digest = hashlib.sha256(f"{examples.kind} {examples.fingerprint} {len(examples)}".encode())
    if isinstance(examples.sentences, list):
        digest.update("\n".join(examples.sentences).encode())
    for column, rows in examples.columns.items():
        digest.update(column.encode() + np.ascontiguousarray(rows).tobytes())
    for values in (examples.targets, examples.teacher_scores, examples.missing):
        if values is not None:
            digest.update(np.ascontiguousarray(values).tobytes())
    if examples.symmetric is not None:
        digest.update(f"symmetric {examples.symmetric}".encode())
    return digest.hexdigest()


def start_digest(encoder: nn.Module | None, job: JobConfig) -> str:
    """Hex digits over the weights that a job starts from, and over how they are read."""
    backbone = {key: value for key, value in vars(job.backbone).items() if key not in ALREADY_IN_THE_START}
    if (adapter := backbone.pop("adapter")) is not None:
        backbone["adapter"] = vars(adapter)
    backbone["prompt"] = [getattr(encoder, "prompt", ""), getattr(encoder, "unpooled", 0)]
    if isinstance(encoder, PooledEncoder) and encoder.sides.any():
        backbone["sides"] = [[reader.prompt, reader.unpooled] for reader in map(encoder.reading, Side)]
    digest = hashlib.sha256(json.dumps(backbone, sort_keys=True).encode())
    for name, tensor in encoder.state_dict().items() if encoder is not None else ():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def evaluation_digest(job: JobConfig, data: JobData) -> str:
    """Hex digits over all that decides the scores of given weights: sets, rows, numbers, device, code.

    Which rows training has seen (`evaluation.without_leaks`) follows from the weights' own digest and the rows.
    """
    hardware = job.hardware
    of_tasks = [(task.name, *part) for task in data.tasks for part in task.splits.items()]
    deciding = {
        "maths": maths(),
        "sets": [[examples.split, examples.name, examples_digest(examples)] for examples in data.evaluation],
        "tasks": [[name, split, examples_digest(examples)] for name, split, examples in of_tasks],
        "evaluation": vars(job.evaluation),
        "seed": job.seed,
        "model": deciding_model(job.model),
        "hardware": [
            *(hardware.accelerator, hardware.precision, hardware.compile),
            *(hardware.eval_batch_tokens, hardware.devices),
        ],
    }
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


def maths() -> list[str]:
    """MATHS and the versions of LIBRARIES; builds for other devices are the same maths."""
    versions = {library: version(library).partition("+")[0] for library in LIBRARIES}
    return [str(MATHS), *(f"{library} {number}" for library, number in versions.items())]
