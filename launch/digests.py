"""Digests of all that decides the weights after a stage, and of all that decides what weights are scored to."""

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn

from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import Stage, select
from juzhen.core.examples import Examples, Side
from juzhen.core.named import deciding_callbacks, without_paths
from juzhen.core.places import ROOT
from juzhen.data.loading import JobData
from juzhen.encoders.pooled_encoder import PooledEncoder
from launch.naming import deciding_augmentation, deciding_model
from lightning_modules.chosen_losses import Match

ALREADY_IN_THE_START = ("name", "path", "revision", "learning_rate", "initialize")
"""Of the backbone: what the digest of the starting weights knows better, or the optimizer, and what it is called."""

DECIDING = (
    "juzhen/losses",
    "juzhen/encoders",
    "juzhen/backends",
    "lightning_modules",
    "juzhen/metrics",  # they choose the checkpoint, too
    "datamodules/datamodule.py",
    "juzhen/data/leaks",
    "juzhen/data/length_windows.py",
    "juzhen/data/sampler.py",
    "juzhen/data/rankings.py",
    "juzhen/data/retrieval.py",
    "juzhen/mining",
    "callbacks/mining.py",
    "callbacks/mining_phases.py",
    "callbacks/resume.py",
    "callbacks/trainer.py",
    "juzhen/evaluation",
    "launch/curriculum.py",
    "launch/stage_run.py",
    "juzhen/core/batch.py",
    "conf/job.py",
    "juzhen/core/constants.py",
    "juzhen/core/examples.py",
)
"""Files and folders of the maths. How rows are read and viewed is not among them: a stage's digest has the rows. A file
too many has a stage trained again for nothing; one too few gives the numbers of other code."""

LIBRARIES = ("torch", "transformers", "pytorch-lightning", "numpy")


def stage_digest(
    parent: str, stage: Stage, job: JobConfig, matches: Mapping[str, Match], data: JobData
) -> str:
    """Hex digits over all that decides the weights after a stage, the code of the maths included."""
    training = {key: one for key, one in vars(job.training).items() if key != "checkpoint_every"}
    schedule = job.schedule
    selection = select(
        data.evaluation,
        stage.datasets,
        monitor=job.training.monitor,
        metric=own_class(job.model["_target_"]).metric,
    )
    deciding = {
        "maths": maths_digest(),
        "parent": parent,
        "index": stage.index,
        "seed": job.seed,
        "precision": job.hardware.precision,
        "compile": job.hardware.compile,
        "model": deciding_model(job.model),
        "loss": {name: [match.kind, without_paths(match.loss)] for name, match in matches.items()},
        "training": training,
        "optimizer": vars(job.optimizer),
        "sampling": [
            schedule.sample_by,
            schedule.temperature,
            {name: [one.weight, one.batch_size] for name, one in schedule.sets.items()},
        ]
        if len(stage.datasets) > 1 or schedule.sets
        else [],
        "train": {name: examples_digest(data.train[name]) for name in stage.datasets},
        "selecting": [
            [key, examples_digest(one)] for key, one in zip(selection.columns, selection.sets, strict=True)
        ],
    }
    if augmentation := deciding_augmentation(vars(job.augmentation)):
        deciding["augmentation"] = augmentation
    if callbacks := deciding_callbacks(job.callbacks):
        deciding["callbacks"] = callbacks
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


def examples_digest(examples: Examples) -> str:
    """Hex digits over rows as they are learnt from: texts, order, targets."""
    digest = hashlib.sha256(f"{examples.kind} {examples.fingerprint} {len(examples)}".encode())
    if isinstance(examples.sentences, list):
        digest.update("\n".join(examples.sentences).encode())
    for column, rows in examples.columns.items():
        digest.update(column.encode() + np.ascontiguousarray(rows).tobytes())
    for values in (examples.targets, examples.teacher_scores):
        if values is not None:
            digest.update(np.ascontiguousarray(values).tobytes())
    if examples.symmetric is not None:
        digest.update(f"symmetric {examples.symmetric}".encode())
    return digest.hexdigest()


def start_digest(encoder: nn.Module | None, job: JobConfig) -> str:
    """Hex digits over the weights that a job starts from, and over how they are read."""
    backbone = {key: one for key, one in vars(job.backbone).items() if key not in ALREADY_IN_THE_START}
    backbone["prompt"] = [getattr(encoder, "prompt", ""), getattr(encoder, "unpooled", 0)]
    if isinstance(encoder, PooledEncoder) and encoder.sides.any():
        backbone["sides"] = [[one.prompt, one.unpooled] for one in map(encoder.reading, Side)]
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
    of_tasks = [(task.name, *one) for task in data.tasks for one in task.splits.items()]
    deciding = {
        "maths": maths_digest(),
        "sets": [[one.split, one.name, examples_digest(one)] for one in data.evaluation],
        "tasks": [[name, split, examples_digest(one)] for name, split, one in of_tasks],
        "evaluation": vars(job.evaluation),
        "seed": job.seed,
        "model": deciding_model(job.model),
        "hardware": [
            *(hardware.accelerator, hardware.precision, hardware.compile),
            *(hardware.eval_batch_tokens, hardware.devices),
        ],
    }
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


@cache
def maths_digest() -> str:
    """Hex digits over DECIDING and the versions of LIBRARIES, builds for other devices apart. Takes half a second."""
    digest = hashlib.sha256()
    for library in LIBRARIES:
        digest.update(f"{library} {version(library).partition('+')[0]}\n".encode())
    for file in source_files(ROOT, DECIDING):
        code = meaning(file.read_text(encoding="utf-8"))
        digest.update(f"{file.relative_to(ROOT).as_posix()}\n{code}\n".encode())
    return digest.hexdigest()


def source_files(root: Path, places: Iterable[str]) -> list[Path]:
    """Every Python file at or below the places, in a fixed order. Raises FileNotFoundError for a place that is gone."""
    found = []
    for place in places:
        path = root / place
        if not path.exists():
            raise FileNotFoundError(path)
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def meaning(source: str) -> str:
    """The code of a module without its comments, docstrings, line breaks and brackets that change nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [line for line in node.body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    """A statement that is a string alone: a docstring, of a function as well as of a constant above it."""
    value = line.value if isinstance(line, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
