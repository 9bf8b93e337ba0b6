"""Folder of a run: its lock, its contents, and the records of its job and of the rows that it has read.

With `resume=auto` a finished run of the same command over the same data is shown again within a second. The same
command over other rows is another run. Needs no torch.
"""

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from omegaconf import DictConfig

from callbacks import CHECKPOINTS, RESUME_FILE
from conf.job import JobConfig
from conf.own_classes import declared_losses
from juzhen.core.aliases import current_key
from juzhen.core.atomic_write import KEPT_ASIDE, clear_leftovers, move, remove_file, write_json
from juzhen.core.errors import UserError, command
from juzhen.core.examples import Examples
from juzhen.core.file_guard import MARKER, mark_dir, refuse_links
from juzhen.core.machine import package_version
from juzhen.core.paths import DISTRIBUTION
from juzhen.core.result import PROGRESS_FILE, RESULT_FILE, STAGES, WEIGHT_FILES, Result, weights_digest
from juzhen.core.row_scores import ROWS_FILE
from juzhen.core.safe_open import read_bytes, read_json
from juzhen.core.schema import validated
from juzhen.core.text import short
from juzhen.data.readers import files_of
from juzhen.data.spec import DatasetConfig, Source
from juzhen.encoders.resolve_path import ENCODER_FOLDER, is_built_in
from juzhen.identity import key_of_settings
from launch.job import deciding_settings, targets_of

WANDB = "wandb"
OFFLINE_RUNS = f"{WANDB}/offline-run-*"
MOST_NAMED = 3
"""Offline runs of W&B that a command names one by one."""

STAYS = (".hydra", ".lock", "train.log", MARKER, KEPT_ASIDE)
"""What is there, or written to, before a run begins."""

LEFT_BY_RUNS = (
    STAGES,
    CHECKPOINTS,
    ENCODER_FOLDER,
    "metrics",
    WANDB,
    "mining",
    "health.jsonl",
    "mining.jsonl",
    "scores.jsonl",
    PROGRESS_FILE,
    "analysis",
    ROWS_FILE,
    RESULT_FILE,
)
"""What an attempt leaves: this and nothing else is moved aside."""

WITH_LINKS = (WANDB, KEPT_ASIDE, ENCODER_FOLDER)
"""What may hold links: nothing is written into files there."""


def is_helper() -> bool:
    """True in a process that Lightning started for a further device, of a run that holds the folder already.

    Returns:
        False in the first process, and in a job of one device.
    """
    return int(os.environ.get("LOCAL_RANK", "0")) > 0


class RunFolder:
    """Folder of one run as a context manager: one process locks it, and earlier files are moved, not deleted.

    With resume="never", files of an earlier attempt are moved to `previous/<number>/`. With resume="auto",
    the attempt is continued. `finished` is True if nothing is left to do.

    Processes that Lightning starts for further devices (`is_helper`) neither lock nor clear. They have no
    result to show, because the first process may still be writing it.

    With `fills`, scores are added to the result in the folder, and the form of the folder is not checked.

    Args:
        path: The folder. It is made if it is missing.
        resume: auto or never.
        fills: Add scores to a finished run.

    Raises:
        UserError: Another process works in the folder, or no run has made the folder.
    """

    def __init__(self, path: str | Path, *, resume: str, fills: bool = False) -> None:
        self.path = Path(path)
        self.resume = resume
        self.fills = fills
        self.is_helper = is_helper()
        self._lock = None

    def __enter__(self) -> "RunFolder":
        if self.is_helper:
            return self
        if self.fills:  # a result is there, and its encoders are only read
            refuse_links(self.path, [*STAYS, *LEFT_BY_RUNS], within=WITH_LINKS, read=[ENCODER_FOLDER])
            mark_dir(self.path.resolve())
        else:
            take_folder(self.path)
        self._lock = (self.path / ".lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(
                f"{self.path}: another process is running this very job. Wait for it, or change something (seed=…)."
            ) from None
        # A DataLoader's workers outlive a killed run by seconds: with the lock, they would keep the next one out.
        os.register_at_fork(after_in_child=self._lock.close)
        clear_leftovers(self.path)
        # A kill may come between the result of a stage and the removal of its resume file.
        for result in (self.path / RESULT_FILE, *self.path.glob(f"{STAGES}/*/{RESULT_FILE}")):
            if result.exists():
                remove_file(result.parent / CHECKPOINTS / RESUME_FILE)
        if self.resume == "never":
            self._set_aside()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            if self.finished:
                remove_file(self.path / PROGRESS_FILE, in_own_folder=True)
            self._lock.close()  # which gives the lock up

    @property
    def finished(self) -> bool:
        """A result is there: every stage was trained and tested."""
        return self.is_done(self.path)

    @staticmethod
    def is_done(stage_folder: Path) -> bool:
        """True if the stage's Result exists, which is written last.

        Args:
            stage_folder: Folder of a stage, or of a run.

        Returns:
            False for a folder without a result.
        """
        return (stage_folder / RESULT_FILE).exists()

    def result(self) -> Result:
        """Read the result of the run.

        Returns:
            The result of its last stage.
        """
        return Result.read(self.path)

    def earlier_results(self) -> list[Result]:
        """Results of the stages before the last one, in order. Empty for a job of one stage.

        Returns:
            Results by position of their stage.
        """
        files = self.path.glob(f"{STAGES}/*/{RESULT_FILE}")
        return sorted((Result.read(file.parent) for file in files), key=lambda result: result.stage)

    def stage_folder(self, stage: int, num_stages: int, name: str) -> Path:
        """Make the folder of a stage: the run folder for the last stage, a subfolder for those before.

        Args:
            stage: Position of the stage, from 0.
            num_stages: Number of stages of the job.
            name: Name of the stage.

        Returns:
            An existing folder.
        """
        folder = self.path if stage == num_stages - 1 else self.path / STAGES / f"{stage}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _set_aside(self) -> None:
        leftovers = [self.path / name for name in LEFT_BY_RUNS if (self.path / name).exists()]
        if not leftovers:
            return
        attic = self.path / KEPT_ASIDE
        attic.mkdir(exist_ok=True)
        last = max((int(folder.name) for folder in attic.iterdir() if folder.name.isdigit()), default=0)
        folder = attic / str(last + 1)
        folder.mkdir()
        for item in leftovers:
            move(item, folder)
        print(f"what an earlier run left in {self.path} is kept in {folder}", file=sys.stderr)


def offline_line(run_folders: Iterable[str | Path]) -> str | None:
    """Where the files of W&B wait that were written offline, and what to type to upload them. None without any.

    Args:
        run_folders: Of one run, or of all runs of a sweep. Uploaded files, and those of an earlier attempt that was set
            aside, do not count.

    Returns:
        One line, with the command.
    """
    runs = [Path(folder) for folder in run_folders]
    waiting, patterns = list[Path](), dict[str, None]()
    for run in runs:
        whole = command(run) if len(runs) == 1 else f"{command(run.parent)}/*"
        for below in (OFFLINE_RUNS, f"{STAGES}/*/{OFFLINE_RUNS}"):
            found = [folder for folder in sorted(run.glob(below)) if _is_to_upload(folder)]
            waiting += found
            patterns |= {f"{whole}/{below}": None} if found else {}
    if not waiting:
        return None
    places = dict.fromkeys(str(folder.parent) for folder in waiting)
    words = [command(folder) for folder in waiting]
    if len(words) > MOST_NAMED:
        places, words = dict.fromkeys(word.rpartition("/")[0] for word in patterns), [*patterns]
    sync = command("wandb", "sync", unquoted=words)
    return f"W&B was offline, its files are in {', '.join(places)}. Upload them: {sync}"


def _is_to_upload(folder: Path) -> bool:
    """True if W&B has a run here without its mark for uploaded runs."""
    return any(folder.glob("*.wandb")) and not any(folder.glob("*.wandb.synced"))


def require_free_space(path: Path, *, needed_bytes: int) -> None:
    """Check that the disk has room for the files of a run.

    Args:
        path: An existing folder on the disk.
        needed_bytes: Bytes of weights and checkpoints.

    Raises:
        UserError: Too little room.
    """
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise UserError(
            f"{os.fspath(path)}: {free / 2**20:.0f} MiB free, but weights and checkpoints need about "
            f"{needed_bytes / 2**20:.0f} MiB. Free some space, or set output_dir=… to another disk."
        )


def take_folder(path: Path) -> None:
    """Make the folder of a run, or check that a run has made it and that it is writable. Needs no torch.

    Args:
        path: The folder.

    Raises:
        UserError: The folder holds something else. Nothing is changed then.
    """
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        refuse_links(path, [*STAYS, *LEFT_BY_RUNS], within=WITH_LINKS)
        if MARKER not in names and (foreign := sorted(names - {*STAYS})):
            raise UserError(
                f"{path}: no run of juzhen has made this folder, and it holds {', '.join(foreign[:3])}"
                f"{' …' if len(foreign) > 3 else ''}. Nothing was changed. Take a new or empty folder, "
                "run_dir=<folder>, or leave run_dir out"
            )
    path.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path / ".lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666))
    mark_dir(path.resolve())


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
    """Return True if a run has started training in a folder, or is finished there.

    Args:
        folder: Folder of a run.

    Returns:
        False for a missing folder.
    """
    return any(next(folder.glob(pattern), None) for pattern in HAS_BEGUN)


def remember_job(folder: Path, deciding: Mapping[str, Any], job: JobConfig | None = None) -> None:
    """Write the `deciding_settings` of a job to its run folder, and digests of the code of its losses.

    Args:
        folder: Folder of the run.
        deciding: Settings that make the run key.
        job: The typed job. None: no digests of code.
    """
    code = {} if job is None else _code(job)
    record = {"key": key_of_settings(deciding), "settings": _plain(deciding), "code": code}
    write_json(folder / JOB_FILE, record, in_own_folder=True)


def require_same_job(config: DictConfig, job: JobConfig) -> None:
    """Check that resume=auto would not resume the run of another job, or show its result.

    Jobs with equal run keys are the same: hardware, loggers and folders may differ. A longer
    `training.duration` is another job, since warm-up and decay are parts of it.

    Args:
        config: Composition of the job.
        job: The typed job. Its `run_dir` and `resume` are read.

    Raises:
        UserError: The folder has the run of another job, or its record is damaged, or the code of a loss or of a
            callback has changed since.
    """
    folder = Path(job.run_dir)
    if is_helper() or job.resume != "auto" or not has_begun(folder):
        return
    deciding, recorded = deciding_settings(config), list(_recorded(folder))
    if not recorded:
        raise _unreadable(folder / JOB_FILE, "which job has begun here")
    for key, settings in recorded:
        if key == key_of_settings(deciding):
            changed = [] if RunFolder.is_done(folder) else changed_code(folder, job)
            if changed:
                raise UserError(
                    f"{folder}: {', '.join(changed)}: the code has changed since this run began. Restore it, give the "
                    f"new run another folder (run_dir=…), or start again with resume=never. If the change keeps the "
                    f'numbers, such as an upgrade of juzhen, remove "code" from {JOB_FILE} to go on'
                )
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
            f"run_dir={folder}: it has the run of another job, with {', '.join(named)}"
            f"{f' and {more} more' if more > 0 else ''}. Repeat its command to continue it, or give this "
            f"job another folder (run_dir=…{further}). resume=never starts again here and keeps the old files in "
            f"{KEPT_ASIDE}/"
        )


def _unreadable(path: Path, unknown: str) -> UserError:
    return UserError(
        f"{path}: this file is missing or damaged, so {unknown} is unknown. Restore it, give the new run another "
        f"folder (run_dir=…), or start again with resume=never, which keeps the old files in {KEPT_ASIDE}/"
    )


def changed_code(folder: Path, job: JobConfig) -> list[str]:
    """Name the losses and deciding callbacks of a job whose file has changed since its run began.

    An upgrade changes files of juzhen, and a release says itself if numbers change. Losses of other packages always
    count.

    Args:
        folder: Folder of the run, with its record.
        job: The job of today.

    Returns:
        Dotted names of the classes. [] if the record cannot be read.
    """
    try:
        then, now = read_json(folder / JOB_FILE)["code"], _code(job)
        counts = now.keys() if then.get(DISTRIBUTION) == now[DISTRIBUTION] else declared_losses()
        changed = [target for target, digest in now.items() if then.get(target, digest) != digest]
        return [target for target in changed if target in counts and target != DISTRIBUTION]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _code(job: JobConfig) -> dict[str, str]:
    """The version of juzhen, and class → digest of its file without comments, for losses and deciding callbacks."""
    nodes = [node for key, node in targets_of(job) if key != "model"]
    decide = [node for node in nodes if node.get("decides_weights", True)]
    digests = {node["_target_"]: _digest_of_code(node["_target_"].rpartition(".")[0]) for node in decide}
    return {DISTRIBUTION: package_version(DISTRIBUTION) or "", **digests}


def _digest_of_code(module: str) -> str:
    spec = find_spec(module)
    tree = ast.parse(read_bytes(Path((spec and spec.origin) or "")))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:16]


def _recorded(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and deciding settings of the run in a folder, from its record, or from its results without one."""
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
    """Compare two deciding settings, the weightiest groups first.

    Args:
        then: Settings of the run in the folder.
        now: Settings of the new job.

    Yields:
        Key, value then and value now, as on the command line.
    """
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
        {} if value is ABSENT and isinstance(other, Mapping) and "name" not in other else value
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


def _text(value: Any) -> str:
    """Format a value as on the command line."""
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
TRANSLATIONS, BACKBONE = "model.translations", "backbone.path"
"""A file of rows, and a folder of weights, that are no data set and go by their keys."""

Record = dict[str, dict[str, Any]]
"""`split/dataset` → fingerprint of the rows, and of each of the files the path, size and times."""


class GoneError(UserError):
    """The data of a finished run cannot be read from the folder that this command names."""


def is_finished(job: JobConfig) -> bool:
    """True if a job is finished and must not run again (`resume`).

    Args:
        job: Its `run_dir` and `resume` are read.

    Returns:
        False with another `resume`.
    """
    return job.resume == "auto" and RunFolder.is_done(Path(job.run_dir))


def described_data(job: JobConfig, read: Iterable[Examples]) -> Record:
    """Record the rows that a job has read, and other files that decide its numbers.

    Args:
        job: A typed job.
        read: Rows of its sets and splits.

    Returns:
        The record.
    """
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
    if (start := _start(job)) is not None:
        record[BACKBONE] = start
    return record


def remember_data(folder: Path, record: Record) -> None:
    """Write a record to a run folder.

    Args:
        folder: Folder of the run.
        record: Result of `described_data`.

    Raises:
        UserError: The run in the folder has started training with other rows.
    """
    if has_begun(folder):
        recorded = _read(folder) or _of_results(folder)
        if not recorded and record:
            raise _unreadable(folder / RECORD_FILE, "what rows it was trained with")
        for key in {**recorded, **record}:
            _require_same(folder, key, recorded.get(key), record.get(key))
    write_json(folder / RECORD_FILE, record, in_own_folder=True)


def require_same_data(folder: Path, job: JobConfig) -> None:
    """Check that the job would read the same rows that the finished run was made from.

    Files with unchanged path, size and times are not opened. The others are read and compared. Sets of the
    hub are not compared, because their revision is part of the key of a run.

    Args:
        folder: Folder of the finished run. Its record is updated.
        job: The job of today.

    Raises:
        UserError: The rows differ.
        GoneError: The rows cannot be read any more.
    """
    recorded, sets = _read(folder), _sets(job)
    record = _of_results(folder) | (recorded or {})
    for key, then in record.items():
        split, _, name = key.partition("/")
        if key == TRANSLATIONS:
            record[key] = {"fingerprint": _digest(job.model["translations"])}
        elif key == BACKBONE:
            record[key] = _start(job, then) or then  # its result can be read without it
        elif name in sets and (sets[name]["source"] or job.source) != Source.HUB:
            record[key] = _now(folder, sets[name], split, job, then)
        _require_same(folder, key, then, record[key])
    if record != recorded:  # the same rows lie elsewhere, or are a copy: the next time they are not opened
        write_json(folder / RECORD_FILE, record, in_own_folder=True)


def _now(
    folder: Path, described: Mapping[str, Any], split: str, job: JobConfig, then: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the current record of a split: the old one if its files were not touched."""
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
    """Fingerprint of the rows that a job reads of a split. `facts` of its files are only a cache key."""
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
    return None if files is None else _stats(files)


def _stats(files: Iterable[Path]) -> list[dict[str, Any]]:
    return [
        {
            "path": os.path.abspath(path),
            "bytes": stat.st_size,
            "modified_ns": stat.st_mtime_ns,
            "changed_ns": stat.st_ctime_ns,
        }
        for path, stat in [(path, path.stat()) for path in files]
    ]


def _start(job: JobConfig, then: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Record weights, tokenizer and settings below `backbone.path`, by path, size, times and digest.

    None for an encoder of the package or the hub, which a name or revision decides, and for files as in `then`.
    """
    path = job.backbone.path
    if job.init_from or job.backbone.initialize != "pretrained" or is_built_in(path):
        return None
    folder = Path(path).expanduser()
    weights = sorted(file for pattern in WEIGHT_FILES for file in folder.rglob(pattern))
    further = [file for name in ("config.json", "tokenizer.json") if (file := folder / name).is_file()]
    others = [file for name in ("*.json", "*.txt", "*.model") for file in folder.rglob(name)]
    others = sorted(file for file in {*others} - {*further} if "/." not in f"/{file.relative_to(folder)}")
    facts = _stats([*weights, *further, *others])
    if not facts or (then is not None and facts == then.get("files")):
        return None
    fingerprint = "".join([weights_digest(folder), *map(_digest, further)])
    return {"fingerprint": fingerprint, "others": "".join(map(_digest, others)), "files": facts}


def _digest(path: str) -> str:
    return hashlib.blake2b(read_bytes(Path(path).expanduser()), digest_size=16).hexdigest()


def _read(folder: Path) -> Record | None:
    """Read the record of a run folder. None if it is missing or cannot be read."""
    try:
        record = read_json(folder / RECORD_FILE)
        return {key: entry for key, entry in record.items() if isinstance(entry["fingerprint"], str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _of_results(folder: Path) -> Record:
    """Make a missing record from the results of the run, without later evaluations."""
    record: Record = {}
    for path in [*folder.glob(f"{STAGES}/*/{RESULT_FILE}"), *folder.glob(RESULT_FILE)]:
        result = Result.read(path)
        record |= {
            key: {"fingerprint": facts["fingerprint"]}
            for key, facts in result.data.items()
            if not any(key in fill["data"] for fill in result.filled)
        }
    return record


def _require_same(
    folder: Path, key: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> None:
    if (
        then
        and now
        and all(now.get(part) == then[part] for part in ("fingerprint", "others") if part in then)
    ):
        return
    change = "was not there" if then is None else "is not there any more" if now is None else "has changed"
    raise UserError(
        f"{folder}: the run of this command was made from other data: {key} {change}. Restore the data, give the new "
        "run another folder (run_dir=…), or start again with resume=never (a run of a sweep: move its folder "
        "away)"
    )
