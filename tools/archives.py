"""The runs behind the pages of results/: `results/<page>/runs.tar.xz` holds all of one page."""

import fcntl
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from juzhen.core.atomic_write import atomic_write, atomic_write_dir
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from juzhen.core.result import RESULT_FILE

RESULTS = ROOT / "results"
CACHE = ROOT / ".cache" / "results"
ARCHIVE = "runs.tar.xz"
METRICS = {"decide": ("spearman", "triplet_accuracy")}
"""Page → the metrics that it reads. Its archive has no others and no thresholds: they were three quarters of it."""


def archives() -> dict[str, Path]:
    """Page → its archive."""
    return {path.parent.name: path for path in sorted(RESULTS.glob(f"*/{ARCHIVE}"))}


@cache
def unpacked() -> Path:
    """Return a folder with the runs of all pages, `<page>/runs/…`; it is written once for the bytes of the archives."""
    digest = hashlib.sha256()
    for page, path in archives().items():
        digest.update(f"{page}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    folder = CACHE / digest.hexdigest()[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of the tests come at once
        if not folder.is_dir():
            with atomic_write_dir(folder) as part:
                for page in archives():
                    extract(page, part / page)
    return folder


def extract(page: str, folder: Path) -> None:
    """Write the runs of a page below a folder, and nothing outside of it."""
    with tarfile.open(archives()[page], "r:xz") as archive:
        archive.extractall(folder, filter="data")


def pack(page: str, folder: Path) -> None:
    """Write the archive of a page from the runs below a folder, whose files are those below each result.json.

    Equal files give equal bytes.

    Raises:
        UserError: The folder holds no run, or lacks a file of the present archive.
    """
    runs = {path.parent for path in folder.rglob(RESULT_FILE)}
    if not runs:
        raise UserError(f"{folder}: no {RESULT_FILE} below it. Copy runs: juzhen archive RUNS {folder}/runs")
    paths = {path for run in runs for path in run.rglob("*") if path.is_file() and path.name[0] != "."}
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    target = RESULTS / page / ARCHIVE
    if target.is_file():
        with tarfile.open(target) as archive:
            lost = [name for name in archive.getnames() if name not in files]
        if lost:
            raise UserError(
                f"{folder}: {len(lost)} files of {target} are missing there, the first {lost[0]}. Begin with "
                f"python -m tools.results unpack {page}, or remove the archive."
            )
    content = io.BytesIO()
    with tarfile.TarFile(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)  # without times, owners and modes of this machine
            kept = path.read_bytes()
            if page in METRICS and path.name == RESULT_FILE:
                kept = _read_alone(kept, METRICS[page])
            member.size = len(kept)
            archive.addfile(member, io.BytesIO(kept))
    target.parent.mkdir(exist_ok=True)
    with atomic_write(target, "wb", in_own_folder=True) as file:
        file.write(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _read_alone(content: bytes, metrics: Sequence[str]) -> bytes:
    result = json.loads(content)
    scores = {key: score for key, score in result["scores"].items() if key.rpartition("/")[2] in metrics}
    return (json.dumps(result | {"scores": scores, "thresholds": {}}, ensure_ascii=False) + "\n").encode()
