"""What rows a run was made from, kept beside it: the same command over other rows is another run. Needs no torch.

A finished run of the same command over the same data is shown again, in a second.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from conf.job import JobConfig
from juzhen.core.commands import command
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.opened import read_bytes, read_json
from juzhen.core.result import RESULT_FILE, STAGES, Result
from juzhen.core.schema import validated
from juzhen.core.whole import write_json
from juzhen.data.files import files_of
from juzhen.data.spec import DatasetConfig, Source
from launch.job_record import has_begun
from launch.run_folder import RunFolder

RECORD_FILE = "data.json"
TRANSLATIONS = "model.translations"
"""A file of rows that is no data set, and goes by its key."""

Record = dict[str, dict[str, Any]]
"""`split/dataset` → fingerprint of the rows, and of each of the files the path, size and times."""


class GoneError(UserError):
    """The data of a finished run cannot be read from where this command says it lies."""


def is_finished(job: JobConfig) -> bool:
    """Nothing is left to do for a job, and nothing is to be done afresh."""
    return job.resume == "auto" and RunFolder.is_done(Path(job.run_dir))


def show_finished(job: JobConfig) -> bool:
    """Shows the result of a job that is finished; False where something is left to do, or all is to be done afresh.

    Raises UserError where the run was made from other data than the job would read now.
    """
    is_helper = int(os.environ.get("LOCAL_RANK", "0")) > 0
    if is_helper or not is_finished(job):
        return False
    from launch.console import show_result  # every start of the program would wait for it

    with RunFolder(job.run_dir, resume="auto") as folder:
        result = folder.result()
        require_same_data(folder.path, job)
        print(f"already finished ({result.finished_at}), shown again; resume=never trains anew")
        show_result(result, folder=str(folder.path), earlier=folder.earlier_results())
    return True


def described_data(job: JobConfig, read: Iterable[Examples]) -> Record:
    """The record of a job that has read these rows."""
    sets = _sets(job)
    record: Record = {
        f"{examples.split}/{examples.name}": {
            "fingerprint": examples.fingerprint,
            "files": _facts(sets[examples.name], examples.split, job),
        }
        for examples in read
    }
    if job.model.get("translations"):
        record[TRANSLATIONS] = {"fingerprint": _digest(job.model["translations"])}
    return record


def remember_data(folder: Path, record: Record) -> None:
    """Keeps a record in a run folder. A run that has begun to learn must have had the same rows.

    Raises UserError where it had others.
    """
    recorded = _read(folder)
    if recorded is not None and has_begun(folder):
        for key, then in recorded.items():
            _require_same(folder, key, then, record.get(key))
    write_json(folder / RECORD_FILE, record, in_own_folder=True)


def require_same_data(folder: Path, job: JobConfig) -> None:
    """Raises UserError where a finished run was made from other rows than the job would read now.

    GoneError is raised where they cannot be read any more. Files whose path, size and times are as they were are not
    opened; the others are read and compared. What comes from the hub is not looked at: its revision is part of the key
    of a run.
    """
    recorded, sets = _read(folder), _sets(job)
    record = _of_results(folder) if recorded is None else dict(recorded)
    for key, then in record.items():
        split, _, name = key.partition("/")
        if key == TRANSLATIONS:
            record[key] = {"fingerprint": _digest(job.model["translations"])}
        elif name in sets and (sets[name]["source"] or job.source) != Source.HUB:
            record[key] = _now(folder, sets[name], split, job, then)
        _require_same(folder, key, then, record[key])
    if record != recorded:  # the same rows lie elsewhere, or are a copy: the next time they are not opened
        write_json(folder / RECORD_FILE, record, in_own_folder=True)


def _now(
    folder: Path, described: Mapping[str, Any], split: str, job: JobConfig, then: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The record of a split as it is now: the old one where its files were not touched."""
    facts = _facts(described, split, job)
    if facts is not None and facts == then.get("files"):
        return then
    reading = (job.source, job.data_dir, job.on_bad_row)
    limit = None if split == "train" else job.evaluation.limit
    try:
        fingerprint = _fingerprint(json.dumps(described), split, *reading, limit, json.dumps(facts))
    except UserError as error:
        raise GoneError(
            f"{folder}: the run of this command is finished, but {split}/{described['name']}, which it was made from, "
            f"cannot be read again: {error}. To see its numbers all the same: {command('juzhen', 'table', folder)}"
        ) from error
    return {"fingerprint": fingerprint, "files": facts}


@cache
def _fingerprint(
    described: str, split: str, source: str, data_dir: str, on_bad_row: str, limit: int | None, facts: str
) -> str:
    """Fingerprint of the rows that a job reads of a split. `facts` of its files only tell the cache its age."""
    from juzhen.data.loading import sampled
    from juzhen.data.source import load_examples

    config = validated(DatasetConfig, json.loads(described))
    reading = {"source": source, "data_dir": data_dir, "on_bad_row": on_bad_row}
    return sampled(load_examples(config, split, required=True, **reading), limit).fingerprint


def _sets(job: JobConfig) -> dict[str, dict[str, Any]]:
    """Name → what each set of the job is read by, as plain containers."""
    return {config.name: asdict(config) for config in [*job.evaluate.values(), *job.dataset.values()]}


def _facts(described: Mapping[str, Any], split: str, job: JobConfig) -> list[dict[str, Any]] | None:
    """Path, size and times of the files of a split: where none of them has changed, no byte has."""
    files = files_of(described, split, source=job.source, data_dir=job.data_dir)
    if files is None:
        return None
    stats = [(path, path.stat()) for path in files]
    return [
        {
            "path": os.path.abspath(path),
            "bytes": stat.st_size,
            "modified_ns": stat.st_mtime_ns,
            "changed_ns": stat.st_ctime_ns,
        }
        for path, stat in stats
    ]


def _digest(path: str) -> str:
    return hashlib.blake2b(read_bytes(Path(path).expanduser()), digest_size=16).hexdigest()


def _read(folder: Path) -> Record | None:
    """The record of a run folder; None where there is none, or none that can be read."""
    try:
        record = read_json(folder / RECORD_FILE)
        return {key: entry for key, entry in record.items() if isinstance(entry["fingerprint"], str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _of_results(folder: Path) -> Record:
    """The record of a run that kept none, from its results, without what was filled in later, from anywhere."""
    record: Record = {}
    for path in [*folder.glob(f"{STAGES}/*/{RESULT_FILE}"), folder / RESULT_FILE]:
        result = Result.read(path)
        record |= {
            key: {"fingerprint": facts["fingerprint"]}
            for key, facts in result.data.items()
            if not any(key in fill["data"] for fill in result.filled)
        }
    return record


def _require_same(folder: Path, key: str, then: Mapping[str, Any], now: Mapping[str, Any] | None) -> None:
    if now is not None and now["fingerprint"] == then["fingerprint"]:
        return
    change = "is not there any more" if now is None else "has changed"
    raise UserError(
        f"{folder}: the run of this command was made from other data: {key} {change}. Put the data back, give the new "
        "run a folder of its own (run_dir=…), or start afresh with resume=never (a run of a sweep: move its folder "
        "away)"
    )
