"""Stages of a job, one after another, and the fit, test and result of each."""

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.exceptions import SIGTERMException
from pytorch_lightning.utilities.seed import isolate_rng
from torch import nn

from callbacks import RESUME_FILE
from callbacks.reporting import finish_wandb, leave_if_pruned
from callbacks.resume import read_checkpoint, saved_state
from callbacks.trainer import best_weights, build_trainer, chosen_callbacks, describe_training
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule, Stage, loss_weights
from juzhen.cli.program import Terminated
from juzhen.core.atomic_write import remove_file
from juzhen.core.errors import (
    INTERRUPTED,
    INTERRUPTED_STATUS,
    TERMINATED,
    TERMINATED_STATUS,
    UserError,
)
from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import RANKED
from juzhen.core.machine import describe_environment, limit_threads
from juzhen.core.result import Result, Score, weights_digest
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.core.text import counted, percent
from juzhen.core.text_warnings import Unknown
from juzhen.data.leaks import SeenRows
from juzhen.data.loading import JobData, load_stages
from juzhen.encoders.base_weights import parameter_counts
from juzhen.encoders.chunks import TruncationStats
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.evaluation.encoding_plan import EncodingPlan
from juzhen.evaluation.run import (
    cut_in_evaluation,
    cut_in_training,
    cut_line,
    describe_rows,
    read_in_evaluation,
    unknown_in_evaluation,
    unknown_in_training,
    unknown_line,
    with_leaks,
)
from juzhen.evaluation.scoring import fitted_thresholds
from juzhen.evaluation.settings import device_name
from juzhen.metrics.comparison import judge_training
from juzhen.models.settings import name_of
from launch.hydra_internals import words_of_job
from launch.job import history, plan_job
from launch.memory import fit_memory
from launch.run_folder import RunFolder, described_data, remember_data, require_free_space
from launch.stage_store import (
    POLL_SECONDS,
    StageEntry,
    StageStore,
    evaluation_digest,
    share_files,
    stage_digest,
    start_digest,
)
from launch.start_comparison import (
    CHEAP,
    Balancing,
    check_start_comparison,
    compared_sets,
    cost_of_scoring,
    gives_verdict,
)
from lightning_modules.base import SentenceModule
from lightning_modules.loss_factory import Match, build_losses, check_augmentation, match_losses
from lightning_modules.sharding import copy_to_shard, put_together
from lightning_modules.trainability import check_learnable, comparisons

log = logging.getLogger(__name__)

BYTES_PER_PARAMETER = 4 * (1 + 3 + 3 + 1)  # best, resume, the next resume while it is written, encoder


@dataclass
class StageRun:
    """Inputs of one stage. `run` makes the module, the data and the trainer from them.

    Args:
        job: Job of the stage (see `launch.job`).
        stage: The stage.
        rows: Rows of the stage.
        matches: Matches of losses and sets.
        encoder: Encoder, trained in place.
        folder: `encoder/` and `result.json` are written here.
        entry: Entry for checkpoints. If it is finished, its weights are loaded and nothing is trained.
        settings: The job's configuration in plain containers, as loggers and the Result store it.
        key: Run key of the job.
        seen: Training rows of this stage and of the earlier ones. None: not requested.
    """

    job: JobConfig
    stage: Stage
    rows: JobData
    matches: Mapping[str, Match]
    encoder: nn.Module | None
    folder: Path
    entry: StageEntry
    settings: dict[str, Any]
    key: str
    seen: SeenRows | None = None

    def run(self) -> None:
        """Train and test the encoder, and write the encoder and its Result."""
        try:
            self._run()
        except (KeyboardInterrupt, SIGTERMException, Terminated) as end:
            stopped, status = INTERRUPTED, INTERRUPTED_STATUS
            if not isinstance(end, KeyboardInterrupt):
                # Lightning would let the process end with status 0, and a scheduler would take it for finished.
                stopped, status = TERMINATED, TERMINATED_STATUS
            newest = saved_state(self.entry.checkpoints)
            saved = " before anything was saved"
            if newest is not None:
                saved = f"; step {newest.steps} is saved. Continue with resume=auto"
            _say(f"{stopped}{saved}")
            raise SystemExit(status) from None

    def _run(self) -> None:
        job, stage = self.job, self.stage
        limit_threads(job.hardware.threads)
        pl.seed_everything(job.seed + stage.index, workers=True, verbose=False)
        self.data = data = SentenceDataModule(self.rows, stage, job=job)
        self.module = module = self._build_module()
        data.serve(module.collate, module.plan)
        if module.input_kind is None:  # what is made of texts is not known by their rows
            data.stream.comparisons = comparisons(data, module.losses)
        self.trainer = trainer = build_trainer(
            job,
            data,
            folder=self.folder,
            checkpoints=self.entry.checkpoints,
            run_id=f"{self.key}-{stage.index}",
            settings=self.settings,
        )
        untrained: dict[str, Score] = {}
        before: dict[str, SetRows] = {}
        if job.evaluation.untrained and data.train and data.test_plan is not None:
            self._test()
            untrained, before = module.scores, module.rows
        elif data.train and data.test_plan is not None:
            before = self._start_rows()
        balancing = self._balancing() if job.training.keep == "balanced" and data.train else None
        training: dict[str, Any] = {}
        step: int | None = None
        for line in getattr(module.encoder, "load_warnings", ()) if stage.index == 0 else ():
            _say(f"backbone: {line}", trainer)
        _say(_prompts_line(module.encoder, data.train), trainer)
        cut = cut_in_training(module.encoder, module.collate, data.train)
        _say(cut_line(cut, "training"), trainer)
        unknown = unknown_in_training(module.encoder, module.collate, data.train)
        _say(unknown_line(unknown, "training"), trainer)
        if self.entry.finished:
            training = self._take_over()
        elif data.train:
            estimate = self._fit_memory()
            for line in [*_planned_lines(data, self.matches), *estimate.pop("lines", ())]:
                _say(line, trainer)
            log.info("stage %s: %s", stage.name, _chooses(data))
            step = self._fit()
            training = describe_training(trainer, data, kept_step=step) | estimate
            _say(early_stop_line(training, job.training.patience), trainer)
            _say(_trained_line(training), trainer)
            log.info("stage %s: the weights of step %d are kept: %s", stage.name, step, training["chosen_by"])
            if balancing is not None:
                balance = balancing.choose()
                training["balance"] = balance.facts()
                _say(balance.line(), trainer)
                step = step if balance.ratio == 1 else None
            if self.entry.shared and trainer.is_global_zero:
                self._hand_over(training)
        if data.test_plan is not None:
            module.seen = self.seen.seen() if self.seen is not None and stage.history else {}
            self._measure(step)
            verdict = judge_training(module.rows, before, self.stage.datasets)
            if verdict is not None and job.evaluation.verdict != "never":
                training["verdict"] = verdict.line()
                _say(verdict.line(), trainer)
            evaluated = cut_in_evaluation(module.encoder, module.collate, data.test_plan)
            _say(cut_line(evaluated, "evaluation"), trainer)
            cut |= evaluated
            read = read_in_evaluation(module.encoder, module.collate, data.test_plan)
            unread = unknown_in_evaluation(module.encoder, data.test_plan, read)
            _say(unknown_line(unread, "evaluation"), trainer)
            unknown |= unread
        self._finish(untrained, training, cut, unknown)
        finish_wandb()

    @property
    def _model(self) -> type[SentenceModule]:
        return own_class(self.job.model["_target_"])

    def _build_module(self) -> SentenceModule:
        losses = nn.ModuleDict()
        if self.encoder is not None and self.stage.datasets:
            losses = build_losses(
                {name: self.matches[name] for name in self.stage.datasets},
                dim=self.encoder.dim,
                num_classes={name: examples.num_classes for name, examples in self.data.train.items()},
            )
        steps = {"total_steps": self.data.total_steps, "warmup_steps": self.data.warmup_steps}
        return self._model(encoder=self.encoder, losses=losses, job=self.job, **steps)

    def _fit(self) -> int:
        """Train, and return the optimizer step of the kept weights."""
        parameters = parameter_counts(self.module.parameters())["learnt"]
        require_free_space(self.entry.path, needed_bytes=parameters * BYTES_PER_PARAMETER)
        newest = saved_state(self.entry.checkpoints)
        if newest is not None:
            message = f"stage {self.stage.name}: goes on after step {newest.steps} ({newest.path})"
            _say(message, self.trainer)
        start = None if newest is None else newest.path
        is_sharded = self.job.hardware.strategy == "fsdp"
        module = copy_to_shard(self.module) if is_sharded else self.module
        with _ctrl_c_of(self.trainer):
            self.trainer.fit(module, datamodule=self.data, ckpt_path=start)
        leave_if_pruned(self.trainer)
        best = best_weights(self.trainer)
        if best is None:
            if is_sharded:
                put_together(self.module, module)
            return self.trainer.global_step
        checkpoint = read_checkpoint(best)
        self.module.load_state_dict(checkpoint["state_dict"])
        return int(checkpoint["global_step"])

    def _fit_memory(self) -> dict[str, Any]:
        """Estimate the memory of a step, and set the micro-batches of `auto`. A resumed run keeps its own."""
        newest = saved_state(self.entry.checkpoints)
        chosen = (
            read_checkpoint(newest.path, mmap=True).get("micro_batch_tokens") if newest is not None else None
        )
        return fit_memory(self.job, self.module.encoder, self.data, chosen)

    def _finish(
        self,
        untrained: dict[str, Score],
        training: dict[str, Any],
        cut: Mapping[str, TruncationStats],
        unknown: Mapping[str, Unknown],
    ) -> None:
        """Write the Result of the stage that was just tested. `training` comes from `describe_training`."""
        job, data, read = self.job, self.data, self.rows
        rows: dict[str, Examples] = {}
        for name, examples in data.train.items():
            rows[f"train/{name}"] = examples
        for examples in read.evaluation:
            rows[f"{examples.split}/{examples.name}"] = examples
        temperature = None if data.test_plan is None else data.test_plan.temperature
        described = describe_rows(rows, cut, unknown, temperature=temperature)
        result = Result(
            name=job.name,
            key=self.key,
            trained_on=list(self.stage.history),
            scores=self.module.scores | read.missing,
            untrained=untrained,
            config=self.settings,
            data=with_leaks(described, self.module.seen),
            training=training,
            environment=describe_environment() | words_of_job() | {"device": device_name(job.hardware)},
            seed=job.seed,
            stage=self.stage.index,
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            thresholds=fitted_thresholds(self.module.rows),
            transfer={task.name: task.described() for task in read.tasks},
            unscored=read.unscored,
        )
        # Lightning has logged dev while training; this is what the chosen weights reach, on every set.
        values = {key: score.value for key, score in result.scores.items() if score.value is not None}
        for logger in self.trainer.loggers:
            logger.log_metrics(values, step=self.trainer.global_step)
            logger.save()
        if self.trainer.is_global_zero:
            self._leave_behind(result)

    def _measure(self, step: int | None) -> None:
        """Score the module. A shared stage is scored once for all runs with the same sets.

        Args:
            step: Training step of the current weights. None: they were not trained in this run.
        """
        digest = evaluation_digest(self.job, self.rows) if self.entry.shared else ""
        measured = self.entry.measured(digest) if self.entry.finished else None
        if measured is not None:
            self.module.scores, rows = measured
            self.module.rows = dict(rows.sets)
            return
        if step is None or not self.module.score_as_validated(self.data.test_plan, step=step):
            self._test()
        if self.entry.finished and self.trainer.is_global_zero:
            self.entry.keep_measured(digest, self.module.scores, RowScores(sets=self.module.rows))

    def _test(self) -> None:
        with _ctrl_c_of(self.trainer):
            self.trainer.test(self.module, datamodule=self.data, verbose=False)

    def _start_rows(self) -> dict[str, SetRows]:
        """Score each row with the initial weights, for the verdict. {} if `evaluation.verdict` needs none."""
        asked, data = self.job.evaluation.verdict, self.data
        sets = compared_sets(self.rows.evaluation)
        if asked == "never" or not sets:
            return {}
        plan = self.module.plan(sets)
        if asked == "auto":
            if self.entry.finished or not gives_verdict(self.job, stage=self.stage.index):
                return {}
            cost = cost_of_scoring(plan, data)
            if cost > CHEAP:
                _say(
                    f"no verdict: to score the start takes about {cost:.0%} of the training. For one, type "
                    "evaluation.verdict=always",
                    self.trainer,
                )
                return {}
        since = time.monotonic()
        self._score_apart(plan)
        log.info("stage %s: the start is scored in %.1f s", self.stage.name, time.monotonic() - since)
        return dict(self.module.rows)

    def _score_apart(self, plan: EncodingPlan) -> dict[str, Score]:
        """Score the current weights on a plan, without intervals and without a draw that training would notice."""
        data, module = self.data, self.module
        tested, samples = data.test_plan, module.bootstrap_samples
        data.test_plan, module.bootstrap_samples = plan, 0
        try:
            with isolate_rng():
                self._test()
        finally:
            data.test_plan, module.bootstrap_samples = tested, samples
        return module.scores

    def _balancing(self) -> Balancing:
        dev = [examples for examples in self.rows.evaluation if examples.split == "dev"]
        plan = self.module.plan([examples for examples in dev if examples.kind is not Kind.LABELLED_TEXT])
        return Balancing(self.module.encoder, lambda: self._score_apart(plan), self.stage.datasets)

    def _take_over(self) -> dict[str, Any]:
        """Load the weights of a finished stage into the encoder, and return the record of their training."""
        trained = self._model.load_encoder(self.job, folder=self.entry.path / ENCODER_FOLDER)
        self.encoder.load_state_dict(trained.state_dict())
        _say(f"stage {self.stage.name}: its weights are there already and are reused ({self.entry.path})")
        return self.entry.record()["training"]

    def _hand_over(self, training: dict[str, Any]) -> None:
        """Store the weights of this stage for all runs with the same stages up to here."""
        training["weights"] = self.entry.path.name
        card = {"name": self.job.name, "trained_on": list(self.stage.history), "seed": self.job.seed}
        self._model.save_encoder(self.encoder, self.entry.path / ENCODER_FOLDER, card=card)
        self.entry.finish({"training": training, "settings": self.settings, **card})

    def _leave_behind(self, result: Result) -> None:
        """Write the encoder first and the Result last: a Result means that all other files exist."""
        if self.encoder is not None:
            ours = self.folder / ENCODER_FOLDER
            spearman = {
                key: round(100 * score.value, 2)
                for key, score in result.scores.items()
                if key.endswith("/spearman") and score.value is not None
            }
            card = {"name": result.name, "trained_on": result.trained_on, "seed": result.seed}
            card |= {"spearman_percent": spearman, "git_commit": result.environment["git_commit"]}
            if result.thresholds:
                card["thresholds"] = {name: threshold.value for name, threshold in result.thresholds.items()}
            self._model.save_encoder(self.encoder, ours, card=card)
            share_files(self.entry.path / ENCODER_FOLDER, ours)
            result.weights = weights_digest(ours)
        RowScores(result.weights, self.module.rows).write(self.folder / ROWS_FILE)
        result.write(self.folder)
        remove_file(self.entry.checkpoints / RESUME_FILE)


@contextmanager
def _ctrl_c_of(trainer: pl.Trainer) -> Iterator[None]:
    """Raises KeyboardInterrupt after Ctrl-C. Lightning saves, and then exits with status 1."""
    try:
        yield
    except SystemExit as end:
        if trainer.interrupted and not isinstance(end, SIGTERMException):
            raise KeyboardInterrupt from None
        raise


def _say(line: str | None, trainer: pl.Trainer | None = None) -> None:
    if line is not None and (trainer is None or trainer.is_global_zero):
        print(line, file=sys.stderr, flush=True)


def _chooses(data: SentenceDataModule) -> str:
    """Describe, before training, how the kept weights are chosen."""
    if data.selection.sets:
        return f"the weights are chosen by {data.selection.in_words}"
    return (
        "the weights of the last step are kept, and training does not stop early: no dev set is scored that could "
        "choose. A benchmark adds some, such as benchmark=demo"
    )


def early_stop_line(training: Mapping[str, Any], patience: int | None) -> str | None:
    """Describe an early stop by patience.

    Args:
        training: `training` of a Result.
        patience: `training.patience` of the job. None: no patience.

    Returns:
        One line. None if training took all its steps.
    """
    steps, planned = training["steps"], training["planned_steps"]
    if patience is None or steps >= planned:
        return None
    validations = "1 validation" if patience == 1 else f"{patience} validations"
    return (
        f"stopped after {steps} of {planned} steps: no better dev score in {validations} (training.patience)"
    )


def _trained_line(training: Mapping[str, Any]) -> str | None:
    """Describe the share of trained parameters and the memory of the process in MiB. None if all were trained."""
    parameters, before, peak = (
        training[key] for key in ("parameters", "memory_before_mib", "peak_memory_mib")
    )
    if parameters["learnt"] == parameters["all"] or before is None:
        return None
    share = percent(parameters["learnt"], parameters["all"])
    return (
        f"{parameters['learnt']:,} of {parameters['all']:,} parameters were trained ({share}). Memory {before:,.0f} "
        f"MiB before the first step, {peak:,.0f} at most"
    )


def _prompts_line(encoder: Any, training: Mapping[str, Examples]) -> str | None:
    """Name the training sets that leave out the encoder's prompts for queries and documents, if there are any."""
    sides = getattr(encoder, "sides", None)
    names = [name for name, rows in training.items() if rows.kind in RANKED and rows.symmetric is None]
    if not names or sides is None or not sides.any() or encoder.prompt:
        return None
    return (
        f"{', '.join(names)}: the prompts of the encoder for queries and documents are left out. If the first text "
        f"of a row asks, type ++dataset.{names[0]}.symmetric=false"
    )


def _planned_lines(data: SentenceDataModule, matches: Mapping[str, Match]) -> list[str]:
    """Describe how many batches a mixture will draw, one line per set. Empty for a single set."""
    stream, schedule = data.stream, data.job.schedule
    if len(data.train) < 2:
        return []
    total = stream.batches_per_epoch
    batches = {name: stream.num_batches * count / total for name, count in stream.mean_batches.items()}
    rows = {name: count * stream.batch_sizes[name] for name, count in batches.items()}
    weights = loss_weights(data.job, data.stage.datasets)
    messages = [
        f"{name}: {100 * count / stream.num_batches:.1f} % of the batches, "
        f"of {counted(stream.batch_sizes[name], 'rows')}"
        + (f", loss {name_of(matches[name].loss)}" if matches[name].loss else "")
        + (f" × {weights[name]:g}" if weights else "")
        + f"; {100 * rows[name] / sum(rows.values()):.1f} % of the examples: each of its {len(data.train[name]):,} "
        f"rows {rows[name] / len(data.train[name]):.1f} times"
        for name, count in batches.items()
    ]
    step = "every step has a batch of each set" if data.blends else "every batch has rows of one set"
    return [
        f"stage {data.stage.name} samples by {schedule.sample_by}; {step}",
        *(f"  {line}" for line in messages),
    ]


class Curriculum:
    """The stages of a job, from reading their rows to the last Result.

    Args:
        job: The typed job.
        settings: Its configuration in plain containers, as loggers and Results store it.
        key: Run key of the job.
    """

    def __init__(self, job: JobConfig, settings: dict[str, Any], key: str) -> None:
        self.model = own_class(job.model["_target_"])
        self.job = job if self.model.trains else replace(job, dataset={})
        self.plans = plan_job(self.job)
        self.jobs = [plan.job for plan in self.plans]
        self.stages = [
            Stage(index, plan.name, plan.datasets, history(self.plans, index))
            for index, plan in enumerate(self.plans)
        ]
        self.settings = settings | {"model": job.model}
        self.key = key
        self.store = StageStore(self.job.schedule.store)

    def run(self, folder: RunFolder) -> None:
        """Run every unfinished stage. All rows are read and checked before the first.

        Args:
            folder: Locked folder of the run, for stages and results.

        Raises:
            UserError: The first mistake in the job or its rows, or a stage that cannot learn.
        """
        matches = [match_losses(job) for job in self.jobs]
        for job in self.jobs:
            self.model.check_start(job)
        check_start_comparison(self.jobs)
        for callback in chosen_callbacks(self.job.callbacks):  # what is wrong is told before rows are read
            if check := getattr(callback, "check_job", None):
                check(self.job, matches)
        for stage in matches:
            check_augmentation(self.job, stage, model=self.model)
        kinds = [{name: match.kind for name, match in stage.items()} for stage in matches]
        data = load_stages(self.job, self.jobs, kinds, unscored=self.model.unscored)
        for name, reason in data[0].unscored.items():
            log.warning("%s is not scored. %s", name, reason)
        self._require_learnable(folder, matches, data)
        if not folder.is_helper:
            read = list(data[0].evaluation)
            for rows in data:
                read += rows.train.values()
            remember_data(folder.path, described_data(self.job, read))
        start, previous = self.model.load_encoder(self.jobs[0]), None
        shares = self.store.root is not None  # only then are digests worth their time
        digest = start_digest(start, self.job) if shares else ""
        seen = SeenRows(data[0].evaluation) if self.job.evaluation.without_leaks else None
        for job, stage, losses, rows in zip(self.jobs, self.stages, matches, data, strict=True):
            stage_folder = folder.stage_folder(stage.index, len(self.stages), stage.name)
            if shares:
                digest = stage_digest(digest, stage, job, losses, rows)
            if seen is not None:
                seen.learn(rows.train)  # a stage that was finished before has been learnt from too
            if not folder.is_done(stage_folder):
                encoder = start if previous is None else self._carried_on(job, previous)
                parts = (job, stage, rows, losses, encoder, stage_folder)
                # Weights to evaluate and nothing to train are no stage that anybody could share.
                store = self.store if stage.datasets else StageStore(None)
                with store.entry(digest, stage_folder, name=stage.name, is_helper=folder.is_helper) as entry:
                    StageRun(*parts, entry, self._settings(stage.index), self.key, seen).run()
            previous = stage_folder

    def _require_learnable(
        self, folder: RunFolder, matches: Sequence[Mapping[str, Match]], data: Sequence[JobData]
    ) -> None:
        """Raises UserError for a stage that could not learn anything. Smaller problems are warnings."""
        for job, stage, losses, read in zip(self.jobs, self.stages, matches, data, strict=True):
            if folder.is_done(folder.stage_folder(stage.index, len(self.stages), stage.name)):
                continue
            rows = SentenceDataModule(read, stage, job=job)
            for line in check_learnable(job, rows, losses):
                if not folder.is_helper:
                    stage_name = f"stage {stage.name}: " if len(self.stages) > 1 else ""
                    print(f"warning: {stage_name}{line}", file=sys.stderr)

    def _carried_on(self, job: JobConfig, previous: Path) -> nn.Module:
        """Load the encoder of the stage before for this stage, whose loss may need another head.

        Read from the disk also by the process that has it in memory, so that a continued run has the same.

        Raises:
            UserError: Its weights have changed since.
        """
        while not RunFolder.is_done(previous):  # a helper may be here before the first process has written
            time.sleep(POLL_SECONDS)
        folder = previous / ENCODER_FOLDER
        if weights_digest(folder) != Result.read(previous).weights:
            raise UserError(
                f"{folder}: the weights have changed since this stage ended. Restore them, give the new run another "
                "folder (run_dir=…), or start again with resume=never"
            )
        return self.model.load_encoder(job, folder=folder)

    def _settings(self, index: int) -> dict[str, Any]:
        """Return the job's configuration with the numbers of this stage.

        Different numbers of earlier stages are kept as `earlier`.
        """
        groups = ("loss", "training", "optimizer")
        numbers = {group: asdict(self.plans[index].job)[group] for group in groups}
        stages = self.job.schedule.stages
        by_job = [
            group
            for group in groups
            if numbers[group] != self.settings[group]
            and not all(getattr(stages.get(plan.name), group, None) for plan in self.plans[:index])
        ]
        return (
            self.settings
            | numbers
            | ({"earlier": {group: self.settings[group] for group in by_job}} if by_job else {})
        )
