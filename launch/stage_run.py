"""One stage from start to end: fit, take the best weights, test, leave an encoder and a Result behind."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import nn

from callbacks.checkpoint_io import read_checkpoint
from callbacks.pruning import leave_if_pruned
from callbacks.resume import newest_state
from callbacks.snapshots import RESUME_FILE, forget_snapshot
from callbacks.tracking import finish_wandb
from callbacks.trainer import build_trainer
from callbacks.training_record import best_weights, describe_training
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule, Stage
from juzhen.core.environment import describe_environment
from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS
from juzhen.core.result import Result, Score
from juzhen.core.weights import weights_digest
from juzhen.data.leaks import SeenRows
from juzhen.data.loading import JobData
from juzhen.encoders.cut import Cut
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.evaluation.describe import cut_in_evaluation, cut_in_training, cut_line, describe_rows, with_leaks
from juzhen.evaluation.devices import device_name
from launch.digests import evaluation_digest
from launch.run_folder import require_free_space
from launch.stage_store import StageEntry, share_files
from lightning_modules.base import SentenceModule
from lightning_modules.chosen_losses import Match
from lightning_modules.matching import build_losses

log = logging.getLogger(__name__)

SIGTERM_STATUS = 128 + 15
BYTES_PER_PARAMETER = 4 * (1 + 3 + 3 + 1)  # best, resume, the next resume while it is written, encoder


@dataclass(frozen=True)
class StageRun:
    """What a stage needs: its job (see `launch.stages`), its rows, its losses.

    settings  the job's configuration in plain containers, as loggers and the Result store it
    key       run key of the job
    seen      account of what this stage and those before it learn from; None: it is not asked for
    """

    job: JobConfig
    data: JobData
    matches: Mapping[str, Match]
    settings: dict[str, Any]
    key: str
    seen: SeenRows | None = None

    def __call__(self, stage: Stage, encoder: nn.Module | None, folder: Path, entry: StageEntry) -> Result:
        """Trains `encoder` in place on `stage`, tests it, and writes `encoder/` and `result.json` into `folder`.

        entry  where checkpoints go; a finished one gives its weights, and nothing is trained
        """
        try:
            return self._run(stage, encoder, folder, entry)
        except SIGTERMException:
            # Lightning would let the process end with status 0, and a scheduler would take it for finished.
            _say("stopped by SIGTERM; continue with resume=auto")
            raise SystemExit(SIGTERM_STATUS) from None
        except KeyboardInterrupt:
            newest = newest_state(entry.checkpoints)
            saved = " before anything was saved"
            if newest is not None:
                saved = f"; step {newest.steps} is saved; continue with resume=auto"
            _say(f"{INTERRUPTED}{saved}")
            raise SystemExit(INTERRUPTED_STATUS) from None

    def _run(self, stage: Stage, encoder: nn.Module | None, folder: Path, entry: StageEntry) -> Result:
        job = self.job
        if job.hardware.threads is not None:
            torch.set_num_threads(job.hardware.threads)
        pl.seed_everything(job.seed + stage.index, workers=True, verbose=False)
        data = SentenceDataModule(self.data, stage, job=job)
        module = self._build_module(stage, encoder, data)
        data.serve(module.collate, module.plan)
        trainer = build_trainer(
            job,
            data,
            folder=folder,
            checkpoints=entry.checkpoints,
            run_id=f"{self.key}-{stage.index}",
            settings=self.settings,
        )
        untrained: dict[str, Score] = {}
        if job.evaluation.untrained and data.train and data.test_plan is not None:
            self._test(trainer, module, data)
            untrained = module.scores
        training: dict[str, Any] = {}
        step: int | None = None
        cut = cut_in_training(module.encoder, module.collate, data.train)
        _say(cut_line(cut, "training"), trainer)
        if entry.finished:
            training = self._take_over(encoder, stage, entry)
        elif data.train:
            log.info("stage %s: %s", stage.name, _chooses(data))
            step = self._fit(trainer, module, data, entry)
            training = describe_training(trainer, data)
            if entry.shared and trainer.is_global_zero:
                self._hand_over(encoder, stage, entry, training)
        if data.test_plan is not None:
            module.seen = self.seen.seen() if self.seen is not None and stage.history else {}
            self._measure(trainer, module, data, entry, step=step)
            evaluated = cut_in_evaluation(module.encoder, module.collate, data.test_plan)
            _say(cut_line(evaluated, "evaluation"), trainer)
            cut |= evaluated
        result = self._result(module, data, untrained=untrained, training=training, cut=cut)
        # Lightning has logged dev while training; this is what the chosen weights reach, on every set.
        found = {key: score.value for key, score in result.scores.items() if score.value is not None}
        for logger in trainer.loggers:
            logger.log_metrics(found, step=trainer.global_step)
            logger.save()
        if trainer.is_global_zero:
            self._leave_behind(result, encoder, folder, entry)
        finish_wandb()
        return result

    @property
    def _model(self) -> type[SentenceModule]:
        return own_class(self.job.model["_target_"])

    def _build_module(
        self, stage: Stage, encoder: nn.Module | None, data: SentenceDataModule
    ) -> SentenceModule:
        losses = nn.ModuleDict()
        if encoder is not None and stage.datasets:
            losses = build_losses(
                {name: self.matches[name] for name in stage.datasets},
                dim=encoder.dim,
                num_classes={name: examples.num_classes for name, examples in data.train.items()},
            )
        return self._model(
            encoder=encoder,
            losses=losses,
            job=self.job,
            total_steps=data.total_steps,
            warmup_steps=data.warmup_steps,
        )

    def _fit(
        self, trainer: pl.Trainer, module: SentenceModule, data: SentenceDataModule, entry: StageEntry
    ) -> int:
        """Gives the step whose weights are kept."""
        parameters = sum(parameter.numel() for parameter in module.parameters())
        require_free_space(entry.path, needed_bytes=parameters * BYTES_PER_PARAMETER)
        newest = newest_state(entry.checkpoints)
        if newest is not None:
            _say(f"stage {data.stage.name}: goes on after step {newest.steps} ({newest.path})", trainer)
        with _ctrl_c_of(trainer):
            trainer.fit(module, datamodule=data, ckpt_path=None if newest is None else newest.path)
        leave_if_pruned(trainer)
        best = best_weights(trainer)
        if best is None:
            return trainer.global_step
        checkpoint = read_checkpoint(best)
        module.load_state_dict(checkpoint["state_dict"])
        return int(checkpoint["global_step"])

    def _result(
        self,
        module: SentenceModule,
        data: SentenceDataModule,
        *,
        untrained: dict[str, Score],
        training: dict[str, Any],
        cut: Mapping[str, Cut],
    ) -> Result:
        """Everything measured in the stage that was just tested; `training` as `describe_training` gives it."""
        job = self.job
        rows = {f"train/{name}": examples for name, examples in data.train.items()}
        rows |= {f"{one.split}/{one.name}": one for one in data.data.evaluation}
        temperature = None if data.test_plan is None else data.test_plan.temperature
        described = describe_rows(rows, cut, temperature=temperature)
        return Result(
            name=job.name,
            key=self.key,
            trained_on=list(data.stage.history),
            scores=module.scores | data.data.missing,
            untrained=untrained,
            config=self.settings,
            data=with_leaks(described, module.seen),
            training=training,
            environment=describe_environment() | {"device": device_name(job.hardware)},
            seed=job.seed,
            stage=data.stage.index,
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            transfer={task.name: task.described() for task in data.data.tasks},
            unscored=data.data.unscored,
        )

    def _measure(
        self,
        trainer: pl.Trainer,
        module: SentenceModule,
        data: SentenceDataModule,
        entry: StageEntry,
        *,
        step: int | None,
    ) -> None:
        """The scores of the module; those of a shared stage are measured once for all runs with the same sets.

        step  the one whose weights were just learnt; None: they are from elsewhere
        """
        digest = evaluation_digest(self.job, self.data) if entry.shared else ""
        known = entry.measured(digest) if entry.finished else None
        if known is not None:
            module.scores = known
            return
        if step is None or not module.score_as_validated(data.test_plan, step=step):
            self._test(trainer, module, data)
        if entry.finished and trainer.is_global_zero:
            entry.keep_measured(digest, module.scores)

    def _test(self, trainer: pl.Trainer, module: SentenceModule, data: SentenceDataModule) -> None:
        with _ctrl_c_of(trainer):
            trainer.test(module, datamodule=data, verbose=False)

    def _take_over(self, encoder: nn.Module, stage: Stage, entry: StageEntry) -> dict[str, Any]:
        """Puts the weights of a finished stage into `encoder`; what is known of their training."""
        trained = self._model.load_encoder(self.job, folder=entry.path / ENCODER_FOLDER)
        encoder.load_state_dict(trained.state_dict())
        _say(f"stage {stage.name}: its weights are there already and are reused ({entry.path})")
        return entry.record()["training"]

    def _hand_over(
        self, encoder: nn.Module, stage: Stage, entry: StageEntry, training: dict[str, Any]
    ) -> None:
        """Leaves the weights of this stage to all runs that begin alike."""
        training["weights"] = entry.path.name
        card = {"name": self.job.name, "trained_on": list(stage.history), "seed": self.job.seed}
        self._model.save_encoder(encoder, entry.path / ENCODER_FOLDER, card=card)
        entry.finish({"training": training, "settings": self.settings, **card})

    def _leave_behind(
        self, result: Result, encoder: nn.Module | None, folder: Path, entry: StageEntry
    ) -> None:
        """The encoder first, the Result last: a result means that everything before it is there."""
        if encoder is not None:
            self._model.save_encoder(encoder, folder / ENCODER_FOLDER, card=_card(result))
            share_files(entry.path / ENCODER_FOLDER, folder / ENCODER_FOLDER)
            result.weights = weights_digest(folder / ENCODER_FOLDER)
        result.write(folder)
        (entry.checkpoints / RESUME_FILE).unlink(missing_ok=True)
        forget_snapshot(entry.checkpoints)


@contextmanager
def _ctrl_c_of(trainer: pl.Trainer) -> Iterator[None]:
    """Ctrl-C as Python tells it: Lightning saves, and then ends the program with status 1 as if it had failed."""
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
    """What decides which weights are kept, before they are learnt."""
    if data.selection.sets:
        return f"the weights with {data.selection.in_words} are kept"
    return (
        "the weights of the last step are kept, and training does not stop early: no dev set is scored that could "
        "choose. A suite adds some, such as suite=demo"
    )


def _card(result: Result) -> dict[str, Any]:
    """What a stranger should know about the weights in an encoder folder."""
    spearman = {
        key: round(100 * score.value, 2)
        for key, score in result.scores.items()
        if key.endswith("/spearman") and score.value is not None
    }
    told = {"name": result.name, "trained_on": result.trained_on, "seed": result.seed}
    return told | {"spearman_percent": spearman, "git_commit": result.environment["git_commit"]}
