"""Store of trained stages that runs share, and the digests that name its entries.

`stage_digest` covers all inputs that change the weights after a stage. `evaluation_digest` covers all inputs
that change their scores.
"""

import filecmp
import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import nn
from typing_extensions import TypedDict

from callbacks import CHECKPOINTS, IN_CHECKPOINTS
from conf.job import JobConfig
from conf.own_classes import declared_losses, own_class
from datamodules.datamodule import Stage, loss_weights, select
from juzhen.core.atomic_write import clear_leftovers, new_link, remove_folder, write_text
from juzhen.core.errors import UserError, command
from juzhen.core.examples import Examples, Side
from juzhen.core.file_guard import claim_dir, refuse_links
from juzhen.core.result import Score, Scores
from juzhen.core.row_scores import RowScores
from juzhen.core.safe_open import read_json, read_text, require_file
from juzhen.core.schema import require_form
from juzhen.core.secrets import redacted
from juzhen.core.text import short
from juzhen.data.loading import JobData
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.identity import deciding_model, stage_settings
from juzhen.models import settings_of
from juzhen.models.settings import INNER
from lightning_modules.loss_factory import Match

RECORD = "stage.json"
OWNER = "owner"
LARGE_BYTES = 2**16
POLL_SECONDS = 0.2


class Record(TypedDict):
    training: dict[str, Any]


@dataclass(frozen=True)
class StageEntry:
    """Folder for the files of one stage until its weights are final.

    Args:
        path: An entry of the store, or the folder of the stage without a store.
        shared: True for an entry of a store.
    """

    path: Path
    shared: bool

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def finished(self) -> bool:
        """The weights are final and there: the record of an entry is written last."""
        return self.shared and (self.path / RECORD).exists()

    def record(self) -> dict[str, Any]:
        """Read the record that `finish` kept.

        Returns:
            Facts of the stage.

        Raises:
            UserError: The record is missing or damaged.
        """
        path = self.path / RECORD
        try:
            record = read_json(path)
            require_form(record, Record, RECORD)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(
                f"{path}: not a record of a finished stage ({short(str(error))}). Type "
                f"{command('rm', '-r', self.path)} and the same command again: the stage is trained again"
            ) from error
        return record

    def finish(self, record: dict[str, Any]) -> None:
        """Write the record that makes the entry finished, and remove its checkpoints.

        Args:
            record: Training facts of the stage. Secrets are left out.
        """
        self._write(RECORD, record)
        remove_folder(self.checkpoints, IN_CHECKPOINTS)

    def measured(self, digest: str) -> tuple[dict[str, Score], RowScores] | None:
        """Read the scores that `keep_measured` wrote.

        Args:
            digest: `evaluation_digest` of the scores.

        Returns:
            Metric key → score, and the scores of rows. None if they are missing or unreadable.
        """
        folder = self.path / f"scores-{digest[:16]}"
        try:
            scores = read_json(folder.with_suffix(".json"))
            require_form(scores, Scores, "scores")
            rows = RowScores.read(require_file(folder.with_suffix(".parquet")))
            return {key: Score(**score) for key, score in scores.items()}, rows
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None

    def keep_measured(self, digest: str, scores: Mapping[str, Score], rows: RowScores) -> None:
        """Keep the scores of a finished entry, for runs that would measure the same again.

        Args:
            digest: `evaluation_digest` of the scores.
            scores: Metric key → score.
            rows: Scores of rows.
        """
        name = f"scores-{digest[:16]}"
        rows.write(self.path / f"{name}.parquet")
        self._write(f"{name}.json", {key: asdict(score) for key, score in scores.items()})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(redacted(content), ensure_ascii=False, indent=1, default=str)
        write_text(self.path / name, text, in_own_folder=True)


class StageStore:
    """The entries below `root`. Without a root each stage is kept in its own folder.

    Args:
        root: Folder of the store. None: no store.
    """

    def __init__(self, root: str | Path | None) -> None:
        self.root = None if root is None else Path(root)

    @contextmanager
    def entry(self, digest: str, run_folder: Path, *, name: str, is_helper: bool) -> Iterator[StageEntry]:
        """Lock the entry of a digest until the end of the block. Another process waits and finds it finished.

        Args:
            digest: The `stage_digest`.
            run_folder: Folder of this run's stage.
            name: Name of the stage, for messages.
            is_helper: This process was started by Lightning for a further device, and shares the first one's
                lock.

        Yields:
            The entry. Without a store it is the folder of this run's stage.
        """
        if self.root is None:
            yield StageEntry(run_folder, shared=False)
            return
        entry = StageEntry(self.root / digest[:16], shared=True)
        owner, ours = entry.path / OWNER, str(run_folder.resolve())
        if is_helper:
            while not entry.finished and not (owner.exists() and read_text(owner) == ours):
                time.sleep(POLL_SECONDS)
            yield entry
            return
        claim_dir(entry.path)
        refuse_links(entry.path, os.listdir(entry.path), within=[ENCODER_FOLDER])
        lock = FileLock(entry.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print(f"stage {name}: another run trains it; waiting for it", file=sys.stderr, flush=True)
            lock.acquire()
        try:
            clear_leftovers(entry.path)
            if entry.finished:  # and killed before `finish` had cleared up
                remove_folder(entry.checkpoints, IN_CHECKPOINTS)
            write_text(owner, ours, in_own_folder=True)
            yield entry
        finally:
            lock.release()


def share_files(source: Path, copy: Path) -> None:
    """Let equal large files of two folders occupy the disk once, if the file system can do that.

    Args:
        source: Folder with the files.
        copy: Folder whose equal files become hard links. Files below LARGE_BYTES stay.
    """
    for file in (path for path in copy.rglob("*") if path.is_file() and path.stat().st_size >= LARGE_BYTES):
        twin = source / file.relative_to(copy)
        if twin.is_file() and not twin.samefile(file) and filecmp.cmp(twin, file, shallow=False):
            try:
                new_link(twin, file)
            except OSError:
                return


ALREADY_IN_THE_START = ("name", "path", "revision", "learning_rate", "initialize")
"""Of the backbone: what the digest of the starting weights knows better, or the optimizer, and what it is called."""

MATHS = 1
"""Raised by hand with every change of the code that gives other weights or scores: a golden curve tells of most."""

LIBRARIES = ("torch", "transformers", "pytorch-lightning", "numpy", "juzhen-embeddings")


def stage_digest(
    parent: str, stage: Stage, job: JobConfig, matches: Mapping[str, Match], data: JobData
) -> str:
    """Return a digest of all inputs that change the weights after a stage.

    Args:
        parent: Digest of the stage before, or `start_digest`.
        stage: The stage.
        job: Job of the stage.
        matches: Dataset key → its loss and row kind.
        data: Training and evaluation rows of the stage.

    Returns:
        64 hex digits.
    """
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
    """The class of a loss, and of the loss that it wraps."""
    return [loss["_target_"], *(_targets(loss[INNER]) if INNER in loss else [])] if loss else []


def examples_digest(examples: Examples) -> str:
    """Return a digest of training rows: texts, order, targets.

    Args:
        examples: Rows of one set and split.

    Returns:
        64 hex digits.
    """
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
    """Return a digest of the weights that a job starts from, and of the settings by which they are read.

    Args:
        encoder: The starting encoder. None: a model without weights.
        job: Its `backbone` is read.

    Returns:
        64 hex digits.
    """
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
    """Return a digest of all inputs of the scores of given weights: sets, rows, numbers, device, code.

    The rows that training has seen (`evaluation.without_leaks`) follow from the digest of the weights and the
    rows.

    Args:
        job: Job of the stage.
        data: Evaluation rows and classifier tasks.

    Returns:
        64 hex digits.
    """
    hardware = job.hardware
    of_tasks = [(task.name, *part) for task in data.tasks for part in task.splits.items()]
    deciding = {
        "maths": maths(),
        "sets": [[examples.split, examples.name, examples_digest(examples)] for examples in data.evaluation],
        "tasks": [[name, split, examples_digest(examples)] for name, split, examples in of_tasks],
        "evaluation": {key: value for key, value in vars(job.evaluation).items() if key != "verdict"},
        "seed": job.seed,
        "model": deciding_model(job.model),
        "hardware": [
            *(hardware.accelerator, hardware.precision, hardware.compile),
            *(hardware.eval_batch_tokens, hardware.devices),
        ],
    }
    return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()


def maths() -> list[str]:
    """MATHS and the versions of LIBRARIES. Builds for other devices are the same maths.

    Returns:
        MATHS, then `library version` for each library.
    """
    versions = {library: version(library).partition("+")[0] for library in LIBRARIES}
    return [str(MATHS), *(f"{library} {number}" for library, number in versions.items())]
