"""Which job a run folder belongs to, kept in it: resume=auto goes on with that job alone. Needs no torch."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from callbacks import CHECKPOINTS
from conf.job import JobConfig
from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.core.result import RESULT_FILE, STAGES, Result
from juzhen.core.run_progress import PROGRESS_FILE
from juzhen.core.texts import short
from juzhen.core.whole import KEPT_ASIDE, write_json
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
        named = [f"{name}={then} (now {now})" for name, then, now in changes[:MOST_DIFFERENCES]]
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
