"""Checkpoints that are either whole or not there."""

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from callbacks.snapshot import SUFFIX
from callbacks.snapshot_file import read_snapshot
from schema.errors import UserError
from schema.whole import whole_file


class AtomicCheckpointIO(TorchCheckpointIO):
    """A kill leaves the old checkpoint or the new one (`schema.whole`).

    Lightning's own goes through the temporary folder, which may be another file system, where a move copies.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with whole_file(path, "wb") as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError of its zip writer.
            raise UserError(
                f"{path}: the checkpoint could not be written ({error}). The one before it is untouched; "
                f"free some space or set output_dir=… and continue with resume=auto."
            ) from error

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict:
        if Path(path).suffix == SUFFIX:
            return read_snapshot(Path(path))
        return super().load_checkpoint(path, map_location=map_location, weights_only=True)
