"""Finished stages that runs share, each in a folder named after a digest of everything that decides its weights."""

import filecmp
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from typing_extensions import TypedDict

from callbacks import CHECKPOINTS, IN_CHECKPOINTS
from juzhen.core.atomic_write import clear_leftovers, new_link, remove_folder, write_text
from juzhen.core.errors import UserError, command
from juzhen.core.file_guard import claim_dir, refuse_links
from juzhen.core.result import Score, Scores
from juzhen.core.row_scores import RowScores
from juzhen.core.safe_open import read_json, read_text, require_file
from juzhen.core.schema import require_form
from juzhen.core.secrets import redacted
from juzhen.core.text import short
from juzhen.encoders.resolve_path import ENCODER_FOLDER

RECORD = "stage.json"
OWNER = "owner"
LARGE_BYTES = 2**16
POLL_SECONDS = 0.2


class Record(TypedDict):
    training: dict[str, Any]


@dataclass(frozen=True)
class StageEntry:
    """Where the work on one stage is kept until its weights are final.

    path    an entry of the store, or the stage's own folder where no store is used
    shared  it is an entry of a store
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
        """What `finish` kept. Raises UserError where it is damaged."""
        path = self.path / RECORD
        try:
            record = read_json(path)
            require_form(record, Record, RECORD)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(
                f"{path}: no record of a finished stage ({short(str(error))}); type "
                f"{command('rm', '-r', self.path)} and the same command again: the stage is trained anew"
            ) from error
        return record

    def finish(self, record: dict[str, Any]) -> None:
        """Makes the entry a finished one; checkpoints are of no more use."""
        self._write(RECORD, record)
        remove_folder(self.checkpoints, IN_CHECKPOINTS)

    def measured(self, digest: str) -> tuple[dict[str, Score], RowScores] | None:
        """What `keep_measured` kept under that digest; None if nothing, or nothing that can be read."""
        folder = self.path / f"scores-{digest[:16]}"
        try:
            scores = read_json(folder.with_suffix(".json"))
            require_form(scores, Scores, "scores")
            rows = RowScores.read(require_file(folder.with_suffix(".parquet")))
            return {key: Score(**score) for key, score in scores.items()}, rows
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None

    def keep_measured(self, digest: str, scores: Mapping[str, Score], rows: RowScores) -> None:
        """Keeps what the weights of a finished entry reach, for runs that would measure the same again."""
        name = f"scores-{digest[:16]}"
        rows.write(self.path / f"{name}.parquet")
        self._write(f"{name}.json", {key: asdict(score) for key, score in scores.items()})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(redacted(content), ensure_ascii=False, indent=1, default=str)
        write_text(self.path / name, text, in_own_folder=True)


class StageStore:
    """The entries below `root`; without a root each stage is kept in its own folder."""

    def __init__(self, root: str | Path | None) -> None:
        self.root = None if root is None else Path(root)

    @contextmanager
    def entry(self, digest: str, run_folder: Path, *, name: str, is_helper: bool) -> Iterator[StageEntry]:
        """The entry of that digest, held until the end of the block: a second process waits and finds it finished.

        run_folder  folder of this run's stage
        is_helper  a process that Lightning started for a further device: it goes along with the one that holds
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
    """Lets large files that are equal in both folders occupy the disk once, where the file system can do that."""
    for file in (path for path in copy.rglob("*") if path.is_file() and path.stat().st_size >= LARGE_BYTES):
        twin = source / file.relative_to(copy)
        if twin.is_file() and not twin.samefile(file) and filecmp.cmp(twin, file, shallow=False):
            try:
                new_link(twin, file)
            except OSError:
                return
