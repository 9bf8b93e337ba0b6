"""The model of a finished stage as it was when the stage was tested."""

from collections.abc import Mapping
from dataclasses import replace

import pytorch_lightning as pl
import torch
from torch import nn

from callbacks.devices import require_device
from callbacks.result_writer import build_result
from callbacks.trainer import build_trainer
from conf.job import JobConfig
from conf.own_classes import own_class
from datamodules.datamodule import SentenceDataModule
from datamodules.stages import Stage
from juzhen.core.accelerator import require_accelerator
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.core.weights import weights_digest
from juzhen.data.leaks import Seen
from juzhen.data.loading import JobData
from juzhen.encoders.locate import ENCODER_FOLDER
from launch.lacking import FinishedStage
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import BiEncoder
from lightning_modules.cut import cut_in_evaluation

EVALUATED_AS = {"lightning_modules.mlm.MaskedLanguageModel": BiEncoder}
"""Models whose head is not saved: pairs are scored by the cosine, as they were, and texts are left alone."""


class Judge:
    """The model of a finished stage, ready to score what it is given."""

    def __init__(self, job: JobConfig, stage: FinishedStage, result: Result) -> None:
        self.job = job
        self.stage = stage
        self.result = result
        self.trained: type[SentenceModule] = own_class(job.model["_target_"])
        self.model: type[SentenceModule] = EVALUATED_AS.get(job.model["_target_"], self.trained)

    def require_weights(self) -> str:
        """The digest of the encoder that the stage left. Raises UserError when it is gone, or another one."""
        if not self.model.trains:
            return ""
        folder = self.stage.folder / ENCODER_FOLDER
        digest = weights_digest(folder)
        if not digest:
            raise UserError(
                f"{self.stage.folder}: its encoder is gone (no weights in {ENCODER_FOLDER}/); put it back, or "
                "train the run again with resume=never"
            )
        known = [
            digest
            for digest in (self.result.weights, *(fill["weights"] for fill in self.result.filled))
            if digest
        ]
        if known and digest != known[0]:
            raise UserError(
                f"{self.stage.folder}: the weights in {ENCODER_FOLDER}/ are not those that its result was "
                f"measured with (digest {digest}, then {known[0]}); put them back, or train the "
                "run again with resume=never"
            )
        return digest

    def encoder(self) -> nn.Module | None:
        """What the stage left behind; None for a model without weights."""
        alone = replace(self.job, dataset={})  # no loss asks for another head
        return self.model.load_encoder(alone, folder=self.stage.folder / ENCODER_FOLDER)

    def start(self, job: JobConfig) -> nn.Module | None:
        """What the stage began with; `job` is that of the stage. Raises UserError when it is gone."""
        if not self.result.stage:
            return self.model.load_encoder(job)
        return self.model.load_encoder(job, folder=self.stage.earlier(self.result.stage - 1) / ENCODER_FOLDER)

    def scored(self, data: JobData, encoder: nn.Module | None, *, seen: Mapping[str, Seen]) -> Result:
        """The result of a stage that learns nothing and is tested on `data`."""
        job = replace(self.job, dataset={}, evaluate={})
        require_accelerator(job.hardware)
        require_device(job.hardware)
        if job.hardware.threads is not None:
            torch.set_num_threads(job.hardware.threads)
        pl.seed_everything(job.seed + self.result.stage, workers=True, verbose=False)
        stage = Stage(self.result.stage, "evaluation", (), tuple(self.result.trained_on))
        rows = SentenceDataModule(data, stage, job=job)
        numbers = {name: value for name, value in job.model.items() if name != "_target_"}
        module = self.model(
            **(numbers if self.model is self.trained else {}),
            encoder=encoder,
            losses=nn.ModuleDict(),
            job=job,
            total_steps=0,
            steps_per_epoch=0,
        )
        rows.serve(module.collate, module.plan)
        about = {"key": self.result.key, "settings": self.result.config}
        trainer = build_trainer(
            job, rows, folder=self.stage.folder, run_id=self.result.key, settings=self.result.config
        )
        module.seen = seen
        trainer.test(module, datamodule=rows, verbose=False)
        cut = cut_in_evaluation(module, rows.test_plan)
        return build_result(
            job, **about, module=module, data=rows, trainer=trainer, untrained={}, training={}, cut=cut
        )
