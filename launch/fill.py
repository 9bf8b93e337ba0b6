"""Scores sets with the encoder that a finished stage left behind, as the stage itself would have scored them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from omegaconf import DictConfig, OmegaConf

from callbacks.result_writer import with_leaks
from conf.job import JobConfig
from juzhen.core.environment import describe_environment
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result, Score
from juzhen.data.leaks import Seen, SeenRows
from juzhen.data.loading import JobData, load_job_data
from juzhen.metrics.together import STS_SETS
from launch.judge import Judge
from launch.lacking import Described, FinishedStage
from launch.learnt import learnt_sets, stage_job
from launch.stored import stored_job


@dataclass
class Filled:
    """What scoring has changed in a result.

    added  metric keys that have a value and had none
    moved  metric key → value before and after, where an existing score was replaced by another
    notes  what could not be done, in words
    """

    added: list[str] = field(default_factory=list)
    moved: dict[str, list[float | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Filler:
    """Fills results in.

    defaults      a typed job of today: it has what a stored job lacks
    own_hardware  each run's own hardware, else that of `defaults`; of either one device is used
    data_dir      where sets are read from; None: where each run read them
    batch_tokens  tokens at a time; None: as the hardware says
    again         scores that exist are replaced too
    without_leaks  rows that training has seen are looked for, as under evaluation.without_leaks; a set that has some is
                   scored again without them
    progress      bars are shown
    """

    defaults: DictConfig
    own_hardware: bool = True
    data_dir: str | None = None
    batch_tokens: int | None = None
    again: bool = False
    without_leaks: bool = False
    progress: bool = False
    _read: tuple[str, JobData | None] = ("", None)

    def fill(self, stage: FinishedStage, sets: Described) -> Filled:
        """Scores `sets` and writes the result again; the caller holds the lock of the run.

        Raises UserError when the encoder is gone or another one, when rows are others than the run has seen, and when
        the run would have learnt something else with these sets in its evaluation.
        """
        result = Result.read(stage.folder)
        whole: JobConfig = OmegaConf.to_object(self._stored(result, sets))
        judge = Judge(whole, stage, result)
        unscored = judge.model.unscored
        reasons = [
            f"{name} is not scored: {unscored[one['kind']]}"
            for name, one in sets.items()
            if one["kind"] in unscored
        ]
        sets = {name: one for name, one in sets.items() if one["kind"] not in unscored}
        sets = _with_companions(sets, result)
        if not sets:
            return Filled(notes=reasons)
        digest = judge.require_weights()
        data = self._load(replace(whole, dataset={}, evaluate=_chosen(whole, sets)), unscored)
        if not self.again:
            _require_same_rows(data, result)
        # What the run has learnt from keeps the run's own description, with its limit and its view.
        others = {name: one for name, one in sets.items() if name not in result.config["dataset"]}
        seen = self._seen(stage, result, whole, others, data)
        filled = Filled(notes=[*reasons, *_told(seen)])
        if not self.again:
            data = _worth_scoring(data, result, seen)
        found = replace(result, scores={}, data={}, environment=describe_environment())  # nothing to encode
        if data.evaluation or any(f"{key}/{name}" not in result.scores for key, name in data.absent.items()):
            found = judge.scored(data, judge.encoder(), seen=seen)
        before: dict[str, Score] = {}
        if result.untrained and (self.again or any(_key(one) not in result.data for one in data.evaluation)):
            first = stage_job(self._stored(result, others), result.stage)
            before = self._before_training(judge, data, first, filled)
        self._merge(result, found.scores, before, data, filled)
        _add(result.data, found.data, again=self.again)
        result.data = with_leaks(result.data, seen)
        result.transfer |= found.transfer
        result.filled.append(_record(found, sets, filled, weights=digest, hardware=asdict(whole.hardware)))
        result.write(stage.folder)
        return filled

    def _stored(self, result: Result, sets: Described) -> DictConfig:
        """The typed job of a result with `sets` in its evaluation, on one device and without loggers."""
        config = dict(result.config)
        config["dataset"] = {name: sets.get(name, one) for name, one in config["dataset"].items()}
        config["evaluate"] = config["evaluate"] | {
            name: one for name, one in sets.items() if name not in config["dataset"]
        }
        job = stored_job(config, self.defaults, own_hardware=self.own_hardware)
        job.data_dir = self.data_dir or job.data_dir
        # One process is enough, and Lightning would start this program again for each of the others.
        job.hardware.devices, job.hardware.num_nodes, job.hardware.strategy = 1, 1, "auto"
        job.hardware.eval_batch_tokens = self.batch_tokens or job.hardware.eval_batch_tokens
        job.evaluation.transfer = []  # asked of the run itself
        job.evaluation.without_leaks = job.evaluation.without_leaks or self.without_leaks
        job.logger.csv, job.logger.wandb, job.logger.progress = False, "off", self.progress
        return job

    def _load(self, job: JobConfig, unscored: Mapping[Kind, str]) -> JobData:
        """The rows of the job's evaluation; those of the last job are kept, since runs of one sweep are alike."""
        classified = any(one.kind == Kind.LABELLED_TEXT for one in job.evaluate.values())
        seed = (
            job.seed if job.debug_rows is not None or classified else None
        )  # then it decides which rows are kept
        deciding = [
            job.source,
            job.data_dir,
            job.on_bad_row,
            job.debug_rows,
            seed,
            job.evaluation.splits,
            job.evaluation.transfer_limit,
            list(unscored),
        ]
        key = json.dumps([deciding, {name: asdict(one) for name, one in job.evaluate.items()}])
        if self._read[0] != key:
            self._read = (key, load_job_data(job, {}, unscored=unscored))
        return self._read[1]

    def _seen(
        self, stage: FinishedStage, result: Result, whole: JobConfig, others: Described, data: JobData
    ) -> dict[str, Seen]:
        """What training has seen of each split, where the job asks for it. Raises UserError as `learnt_sets` does."""
        counts = whole.evaluation.without_leaks
        if not result.trained_on or not (whole.filter_leaks or counts):
            return {}
        learnt = learnt_sets(stage, result, lambda told: self._stored(told, others))
        if not counts:
            return {}  # filter_leaks: that the rows are those that were learnt from is all that was asked
        rows = SeenRows(data.evaluation)
        for sets in learnt:
            rows.learn(sets)
        return rows.seen()

    def _before_training(
        self, judge: Judge, data: JobData, job: JobConfig, filled: Filled
    ) -> dict[str, Score]:
        """Scores of the weights that the stage started from; none, with a note, where these are gone."""
        try:
            return judge.scored(data, judge.start(job), seen={}).scores
        except UserError as error:
            filled.notes.append(f"the scores before training are not filled in: {error}")
            return {}

    def _merge(
        self,
        result: Result,
        found: Mapping[str, Score],
        before: Mapping[str, Score],
        data: JobData,
        filled: Filled,
    ) -> None:
        """Puts new scores into the result; one that exists is touched only when it is to be replaced."""
        for place, scores, new in (("", result.scores, found), ("untrained ", result.untrained, before)):
            for key, score in new.items():
                old, is_read = scores.get(key), key.rpartition("/")[0] not in data.absent
                if old is None or (old.value is None and is_read):
                    scores[key] = score
                    filled.added += [f"{place}{key}"] if score.value is not None else []
                elif self.again and is_read and old != score:
                    scores[key] = score
                    filled.moved[f"{place}{key}"] = [old.value, score.value]


def _chosen(job: JobConfig, sets: Described) -> dict[str, Any]:
    return {name: one for name, one in {**job.evaluate, **job.dataset}.items() if name in sets}


def _with_companions(sets: Described, result: Result) -> Described:
    """The sets, and those scored before without which a number over several sets would lack."""
    read = {key.split("/")[1] for key in result.data if not key.startswith("train/")}
    if set(sets).isdisjoint(STS_SETS) or not set(STS_SETS) <= read | set(sets):
        return sets
    return sets | {name: result.described(name) for name in STS_SETS if name not in sets}


def _require_same_rows(data: JobData, result: Result) -> None:
    for one in data.evaluation:
        then = result.data.get(_key(one))
        if then is not None and then["fingerprint"] != one.fingerprint:
            raise UserError(
                f"{one.name}/{one.split} holds other rows than the run has seen; point --data-dir at the same "
                f"files, or type --again --dataset {one.name} to score it anew"
            )


def _worth_scoring(data: JobData, result: Result, seen: Mapping[str, Seen]) -> JobData:
    """Without the splits that were scored, of which training has seen nothing, and that nothing new has need of.

    A threshold needs the dev split of its set, and a number over several sets all of them.
    """
    fresh = {one.name for one in data.evaluation if _key(one) not in result.data}
    if not fresh.isdisjoint(STS_SETS):
        fresh.update(STS_SETS)
    wanted = [
        one
        for one in data.evaluation
        if one.name in fresh or _key(one) not in seen or len(seen[_key(one)].rows)
    ]
    names = {one.name for one in wanted}
    return replace(data, evaluation=wanted, tasks=[one for one in data.tasks if one.name in names])


def _key(one: Examples) -> str:
    return f"{one.split}/{one.name}"


def _told(seen: Mapping[str, Seen]) -> list[str]:
    """What was looked for, in words; nothing where nobody has looked."""
    found = [
        f"training has seen {len(one.rows):,} rows of {key} ({100 * one.share:.1f} %)"
        for key, one in seen.items()
        if len(one.rows)
    ]
    return found or (["training has seen no row of any set"] if seen else [])


def _add(known: dict[str, Any], found: Mapping[str, Any], *, again: bool) -> None:
    for key, rows in found.items():
        if again or key not in known:
            known[key] = rows


def _record(
    found: Result, sets: Described, filled: Filled, *, weights: str, hardware: dict[str, Any]
) -> dict[str, Any]:
    """What a result remembers of having been filled in."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "added": filled.added,
        "moved": filled.moved,
        "notes": filled.notes,
        "data": found.data,
        "sets": sets,
        "weights": weights,
        "hardware": hardware,
        "environment": found.environment,
    }
