"""Adds columns to the results of finished runs, as the runs themselves would have written them."""

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.machine import describe_environment
from juzhen.core.result import Result, Score
from juzhen.core.row_scores import ROWS_FILE, RowScores
from juzhen.data.leaks import Seen, SeenRows
from juzhen.data.loading import JobData, load_job_data
from juzhen.encoders.base_weights import has_adapter
from juzhen.evaluation.run import Described, EvaluationRun, with_leaks
from juzhen.evaluation.saved_run import Descriptions, SavedRun, is_lexical, trained_rows
from juzhen.evaluation.scoring import STS_SETS, Evaluation, fitted_thresholds
from juzhen.evaluation.settings import EvaluationSettings, HardwareConfig, device_name
from juzhen.families.registry import FAMILIES, family_in, open_encoder
from juzhen.models.settings import name_of, numbers_of

Start = Callable[[SavedRun, Result], Any]
"""Loads the starting encoder of a stage. Raises UserError if it is missing."""


@dataclass
class Changes:
    """Changes of a result.

    Attributes:
        added: Metric keys that had no value before.
        moved: Metric key → value before and after, if an existing score was replaced.
        notes: Descriptions of failed steps.
    """

    added: list[str] = field(default_factory=list)
    moved: dict[str, list[float | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Backfill:
    """Score sets with the encoders of finished runs, and write the results again.

    Args:
        start: Loads the start of a run. None: scores before training are not added.
        hardware: Replaces the hardware of each run. Either way one device is used.
        data_dir: Folder of the sets. None: that of each run.
        cache_dir: Folder for token numbers, and for embeddings of runs that cache them. None: no cache.
        batch_tokens: Tokens in a batch. None: as in the hardware.
        again: Replace existing scores, too.
        without_leaks: Search for rows seen in training, as evaluation.without_leaks does. A set with such
            rows is scored again without them.
        progress: Show progress bars.
    """

    start: Start | None = None
    hardware: HardwareConfig | None = None
    data_dir: str | None = None
    cache_dir: str | None = None
    batch_tokens: int | None = None
    again: bool = False
    without_leaks: bool = False
    progress: bool = False
    _read: tuple[str, JobData | None] = ("", None)
    _adapted: Any = None

    def add(self, run: SavedRun, sets: Descriptions) -> Changes:
        """Score `sets` and write the result again. The caller holds the lock of the run.

        Args:
            run: A finished run or stage.
            sets: Name → description of a set, as in conf/dataset.

        Returns:
            New and changed scores, and notes on what was not scored.

        Raises:
            UserError: The encoder is gone or another one, the rows differ from those of the run, or these sets in its
                evaluation would have changed its training.
        """
        result = Result.read(run.folder)
        model, changes = result.config["model"], Changes()
        lexical = None
        if is_lexical(result):
            lexical = FAMILIES["lexical"].load(name_of(model), **numbers_of(model))
        unscored = _unscored(run) if lexical is None else lexical.unscored
        for name in [name for name, description in sets.items() if description["kind"] in unscored]:
            changes.notes.append(f"{name} is not scored: {unscored[sets[name]['kind']]}")
        sets = {
            name: description for name, description in sets.items() if description["kind"] not in unscored
        }
        sets = _with_companions(sets, result)
        if not sets:
            return changes
        settings = self._settings(result, sets)
        if lexical is None:
            changes.notes += self._keep_arithmetic(result, settings)
        digest = run.require_weights(result) if lexical is None else ""
        all_sets = {**settings.evaluate, **settings.dataset}
        chosen = {name: description for name, description in all_sets.items() if name in sets}
        data = self._load(replace(settings, dataset={}, evaluate=chosen), unscored)
        if not self.again:
            _require_same_rows(data, result)
        # What the run has learnt from keeps the run's own description, with its limit and its view.
        new_sets = {
            name: description for name, description in sets.items() if name not in result.config["dataset"]
        }
        seen = self._seen(run, result, settings, new_sets, data)
        changes.notes += _told(seen)
        if not self.again:
            data = _worth_scoring(data, result, seen)
        evaluation, before = Evaluation({}), dict[str, Score]()
        rows: Described = {}
        if data.evaluation:
            encoder = lexical or open_encoder(run.folder)
            evaluation, rows = self._scored(encoder, data, settings, seen)
            # The next run's adapter may belong to the same weights, which then are not read again.
            inner = getattr(encoder, "inner", encoder)
            self._adapted = encoder if has_adapter(getattr(inner, "backbone", None)) else None
        scores = evaluation.scores | data.missing
        if result.untrained and (
            self.again or any(_key(rows) not in result.data for rows in data.evaluation)
        ):
            before = self._before_training(run, result, data, settings, changes)
        for prefix, earlier, after in (("", result.scores, scores), ("untrained ", result.untrained, before)):
            self._merge(earlier, after, data, changes, place=prefix)
        result.data |= {
            key: description for key, description in rows.items() if self.again or key not in result.data
        }
        result.data = with_leaks(result.data, seen)
        result.thresholds |= {
            name: threshold
            for name, threshold in fitted_thresholds(evaluation.rows).items()
            if self.again or name not in result.thresholds
        }
        result.transfer |= {task.name: task.described() for task in data.tasks}
        result.filled.append(asdict(changes) | _record(settings, rows) | {"sets": sets, "weights": digest})
        kept_rows = RowScores.read(run.folder).with_sets(digest, evaluation.rows)
        kept_rows.write(run.folder / ROWS_FILE)
        result.write(run.folder)
        return changes

    def _settings(self, result: Result, sets: Descriptions) -> EvaluationSettings:
        """Settings of a run with `sets` in its evaluation, on one device."""
        config = copy(result.config)  # which names the file where a key is missing
        config["dataset"] = {
            name: sets.get(name, description) for name, description in config["dataset"].items()
        }
        added = {name: description for name, description in sets.items() if name not in config["dataset"]}
        config["evaluate"] = config["evaluate"] | added
        if self.hardware is not None:
            config["hardware"] = asdict(self.hardware)
        settings = EvaluationSettings.of(config)
        settings.data_dir = self.data_dir or settings.data_dir
        settings.hardware.devices, settings.hardware.num_nodes, settings.hardware.strategy = 1, 1, "auto"
        settings.hardware.eval_batch_tokens = self.batch_tokens or settings.hardware.eval_batch_tokens
        settings.evaluation.transfer = []  # asked of the run itself
        settings.evaluation.without_leaks |= self.without_leaks
        return settings

    def _keep_arithmetic(self, result: Result, settings: EvaluationSettings) -> list[str]:
        """Compute new scores as the others of the row were. Raises UserError if other hardware cannot.

        In bf16, and in 8 bits, a text's numbers depend on the tokens that share its batch.
        """
        then, now = result.config.get("hardware") or {}, settings.hardware
        for key in ("precision", "compile"):
            before, now_wanted = then.get(key, getattr(now, key)), getattr(now, key)
            if before != now_wanted:
                raise UserError(
                    f"{key}={str(now_wanted).lower()}: the scores of this row were computed with "
                    f"{key}={str(before).lower()}, so other numbers would not fit in. Leave --hardware out, or "
                    "name one of "
                    f"conf/hardware with {key}: {str(before).lower()}. Or evaluate "
                    "the encoder of the run as another row"
                )
        tokens = then.get("eval_batch_tokens", now.eval_batch_tokens)
        if now.precision != "32-true" or settings.evaluation.backend.endswith(("int8", "bf16")):
            if self.batch_tokens not in (None, tokens):
                raise UserError(
                    f"--batch-tokens {self.batch_tokens}: this row was computed in batches of {tokens} tokens. "
                    "Numbers in 16 and 8 bits depend on the batch. Leave the option out"
                )
            now.eval_batch_tokens = tokens
        device = then.get("accelerator", now.accelerator)
        return (
            []
            if device == now.accelerator
            else [f"computed on {now.accelerator}, the run itself on {device}"]
        )

    def _load(self, settings: EvaluationSettings, unscored: Mapping[Kind, str]) -> JobData:
        """The rows to score. Those of the last run are kept, because runs of one sweep share them."""
        classified = any(description.kind == Kind.LABELLED_TEXT for description in settings.evaluate.values())
        deciding = asdict(settings) | {"hardware": None, "unscored": list(unscored)}
        deciding["evaluation"] = [
            getattr(settings.evaluation, key) for key in ("splits", "limit", "transfer_limit")
        ]
        if settings.debug_rows is None and not classified:
            del deciding["seed"]  # else it decides which rows are kept
        key = json.dumps(deciding)
        earlier_key, data = self._read
        if data is None or earlier_key != key:
            data = load_job_data(settings, {}, unscored=unscored)
            self._read = (key, data)
        return data

    def _seen(
        self,
        run: SavedRun,
        result: Result,
        settings: EvaluationSettings,
        others: Descriptions,
        data: JobData,
    ) -> dict[str, Seen]:
        """Rows of each split that training has seen, if the run or the caller asks for it."""
        counts = settings.evaluation.without_leaks
        if not result.trained_on or not (settings.filter_leaks or counts):
            return {}
        rows = SeenRows(data.evaluation)
        for index in range(result.stage + 1):
            stage_result = result if index == result.stage else Result.read(run.earlier(index).folder)
            rows.learn(trained_rows(self._settings(stage_result, others), stage_result, _unscored(run)))
        # Under filter_leaks all that was asked is that the rows are those that were learnt from.
        return rows.seen() if counts else {}

    def _scored(
        self, encoder: Any, data: JobData, settings: EvaluationSettings, seen: Mapping[str, Seen]
    ) -> tuple[Evaluation, Described]:
        run = EvaluationRun(open_encoder(encoder), settings, self.cache_dir, self.progress)
        return run(data.evaluation, data.tasks, seen=seen)

    def _before_training(
        self, run: SavedRun, result: Result, data: JobData, settings: EvaluationSettings, changes: Changes
    ) -> dict[str, Score]:
        """Scores of the stage's initial weights. None, with a note, if these are gone."""
        if self.start is None:
            return {}
        try:
            before, _ = self._scored(self.start(run, result), data, settings, {})
            return before.scores | data.missing
        except UserError as error:
            changes.notes.append(f"the scores before training are not filled in: {error}")
            return {}

    def _merge(
        self,
        earlier: dict[str, Score],
        after: Mapping[str, Score],
        data: JobData,
        changes: Changes,
        *,
        place: str,
    ) -> None:
        """Merge new scores into the result. An existing one is replaced only when asked for."""
        for key, score in after.items():
            old, is_read = earlier.get(key), key.rpartition("/")[0] not in data.absent
            if old is None or (old.value is None and is_read):
                earlier[key] = score
                changes.added += [f"{place}{key}"] if score.value is not None else []
            elif self.again and is_read and old != score:
                earlier[key] = score
                changes.moved[f"{place}{key}"] = [old.value, score.value]


def _unscored(run: SavedRun) -> Mapping[Kind, str]:
    """Kinds of sets without a metric for the encoder of a run, and why."""
    return (family_in(run.encoder) or FAMILIES["bi_encoder"]).unscored


def _with_companions(sets: Descriptions, result: Result) -> Descriptions:
    """The sets, and scored sets without which a number over several sets would be missing."""
    read = {key.split("/")[1] for key in result.data if not key.startswith("train/")}
    if set(sets).isdisjoint(STS_SETS) or not set(STS_SETS) <= read | set(sets):
        return sets
    described = {name: result.described(name) for name in STS_SETS if name not in sets}
    return sets | {name: description for name, description in described.items() if description is not None}


def _require_same_rows(data: JobData, result: Result) -> None:
    for dataset in data.evaluation:
        then = result.data.get(_key(dataset))
        if then is not None and then["fingerprint"] != dataset.fingerprint:
            raise UserError(
                f"{dataset.name}/{dataset.split} holds other rows than the run has seen. Point --data-dir at the same "
                f"files, or type --again --dataset {dataset.name} to score it again"
            )


def _worth_scoring(data: JobData, result: Result, seen: Mapping[str, Seen]) -> JobData:
    """Drop scored splits of which training has seen nothing, and which nothing new needs.

    A threshold needs the dev split of its set, and a number over several sets all of them.
    """
    fresh = {dataset.name for dataset in data.evaluation if _key(dataset) not in result.data}
    if not fresh.isdisjoint(STS_SETS):
        fresh.update(STS_SETS)
    worthy = [
        dataset
        for dataset in data.evaluation
        if dataset.name in fresh or _key(dataset) not in seen or len(seen[_key(dataset)].rows)
    ]
    names = {dataset.name for dataset in worthy}
    return replace(
        data, evaluation=worthy, tasks=[dataset for dataset in data.tasks if dataset.name in names]
    )


def _key(dataset: Examples) -> str:
    return f"{dataset.split}/{dataset.name}"


def _told(seen: Mapping[str, Seen]) -> list[str]:
    """Describe the search for training rows, one line a set. Empty without a search."""
    notes = [
        f"training has seen {len(rows.rows):,} rows of {key} ({100 * rows.share:.1f} %)"
        for key, rows in seen.items()
        if len(rows.rows)
    ]
    return notes or (["training has seen no row of any set"] if seen else [])


def _record(settings: EvaluationSettings, rows: Described) -> dict[str, Any]:
    device = {"device": device_name(settings.hardware)} if rows else {}
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": rows,
        "hardware": asdict(settings.hardware),
        "environment": describe_environment() | device,
    }
