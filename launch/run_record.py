"""What a run folder remembers of its run: its job, with which alone resume=auto goes on, and the rows it was made from.

A finished run of the same command over the same data is shown again, in a second; the same command over other rows is
another run. Needs no torch.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from callbacks import CHECKPOINTS
from conf.job import JobConfig
from juzhen.core.aliases import current_key
from juzhen.core.atomic_write import KEPT_ASIDE, write_json
from juzhen.core.errors import UserError, command
from juzhen.core.examples import Examples
from juzhen.core.result import PROGRESS_FILE, RESULT_FILE, STAGES, Result
from juzhen.core.safe_open import read_bytes, read_json
from juzhen.core.schema import validated
from juzhen.core.text import short
from juzhen.data.readers import files_of
from juzhen.data.spec import DatasetConfig, Source
from juzhen.identity import key_of_settings
from launch.naming import deciding_settings
from launch.run_folder import RunFolder

JOB_FILE = "job.json"
HAS_BEGUN = (
    RESULT_FILE,
    PROGRESS_FILE,
    f"{CHECKPOINTS}/*",
    f"{STAGES}/*/{CHECKPOINTS}/*",
    f"{STAGES}/*/{RESULT_FILE}",
)
"""What says that a run has begun to learn: its checkpoints may be in a store of stages, its progress is not."""

ORDER = ("model", "backbone", "dataset", "loss", "schedule", "training", "optimizer")
"""Groups whose differences are named first."""
GROUPS_OF_SETS = ("dataset", "evaluate")
OF_HARDWARE = ("precision", "compile")
MOST_DIFFERENCES = 6
ABSENT = object()


def has_begun(folder: Path) -> bool:
    """Whether a run has begun to learn in a folder, or is finished there."""
    return any(next(folder.glob(pattern), None) for pattern in HAS_BEGUN)


def remember_job(folder: Path, deciding: Mapping[str, Any]) -> None:
    """Keeps in a run folder what decides the numbers of its job, as `deciding_settings` gives it."""
    record = {"key": key_of_settings(deciding), "settings": _plain(deciding)}
    write_json(folder / JOB_FILE, record, in_own_folder=True)


def require_same_job(config: DictConfig, job: JobConfig) -> None:
    """Raises UserError where resume=auto would go on with the run of another job, or show its result.

    Two jobs are the same when their run keys are: hardware, loggers and places may differ. A longer
    `training.duration` is another job, since warm-up and decay are parts of it.
    """
    folder = Path(job.run_dir)
    is_helper = int(os.environ.get("LOCAL_RANK", "0")) > 0
    if is_helper or job.resume != "auto" or not has_begun(folder):
        return
    deciding = deciding_settings(config)
    for key, settings in _recorded(folder):
        if key == key_of_settings(deciding):
            continue
        changes = list(differences(_plain(settings), _plain(deciding)))
        if not changes:  # a key of an earlier version
            continue
        more = len(changes) - MOST_DIFFERENCES
        named = [f"{current_key(name)}={then} (now {now})" for name, then, now in changes[:MOST_DIFFERENCES]]
        further = ""
        if RunFolder.is_done(folder) and all(name.startswith("training.") for name, *_ in changes):
            further = f", and init_from={folder} to train its weights further"
        raise UserError(
            f"run_dir={folder}: another job has run here, with {', '.join(named)}"
            f"{f' and {more} more' if more > 0 else ''}. Type its words again to go on with it, or give this job a "
            f"folder of its own (another run_dir=…{further}); resume=never starts afresh here and keeps what is there "
            f"in {KEPT_ASIDE}/"
        )


def _recorded(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and deciding settings of the run in a folder: as its record says, or its results where it has none."""
    try:
        record = read_json(folder / JOB_FILE)
        if isinstance(record["key"], str) and isinstance(record["settings"], Mapping):
            yield record["key"], record["settings"]
            return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    for path in (folder / RESULT_FILE, *sorted(folder.glob(f"{STAGES}/*/{RESULT_FILE}"))):
        if path.exists():
            result = Result.read(path)
            yield result.key, deciding_settings(result.config | result.config.get("earlier", {}))
            return


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Key, value then and value now of what differs between two deciding settings, the weightiest groups first."""
    groups = sorted({**then, **now}, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    for name in groups:
        key = f"hardware.{name}" if name in OF_HARDWARE else name
        before, after = then.get(name, ABSENT), now.get(name, ABSENT)
        if name in GROUPS_OF_SETS:
            before, after = then.get(name) or {}, now.get(name) or {}
            if list(before) != list(after):
                yield key, _text([*before]), _text([*after])
        yield from _differing(key, before, after)


def _differing(key: str, then: Any, now: Any) -> Iterator[tuple[str, str, str]]:
    then, now = (
        {} if value is ABSENT and _has_no_name(other) else value
        for value, other in ((then, now), (now, then))
    )
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        if then != now:
            yield key, _text(then), _text(now)
        return
    if then.get("name") != now.get("name"):  # the numbers of another loss or model follow from its name
        yield key, _text(then.get("name", then)), _text(now.get("name", now))
        return
    both = then.keys() & now.keys() if key in GROUPS_OF_SETS else {**then, **now}
    for name in (name for name in {**then, **now} if name in both):
        yield from _differing(f"{key}.{name}", then.get(name, ABSENT), now.get(name, ABSENT))


def _has_no_name(value: Any) -> bool:
    return isinstance(value, Mapping) and "name" not in value


def _text(value: Any) -> str:
    """A value as it is typed."""
    if value is ABSENT:
        return "null"
    if isinstance(value, Mapping):
        return short(str(value.get("name", "set")))
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return f"weights {value[:8]}"
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False).replace('"', ""))


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file of JSON gives them back."""
    return dict(json.loads(json.dumps(settings, ensure_ascii=False, default=str)))


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
