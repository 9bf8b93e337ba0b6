"""Where numbers go while a run is under way: a CSV in the run folder, and Weights & Biases."""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger

from callbacks.lightning_internals import without_anonymous
from conf.job import JobConfig
from datamodules.datamodule import Stage
from juzhen.core.errors import UserError
from juzhen.core.process import wandb_problem
from juzhen.core.secrets import redacted

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
"""How often W&B writes to its file: what a kill may cost. W&B's own 15 seconds would be all steps of a short run."""


def build_loggers(
    job: JobConfig, stage: Stage, folder: Path, *, run_id: str, settings: Mapping[str, Any]
) -> list[Logger]:
    """The loggers of a stage.

    run_id    the same for the same configuration, so that a resumed run goes on in its W&B run
    settings  plain containers only: what W&B stores as the configuration
    """
    config, loggers = job.logger, []
    if config.csv:
        sessions = folder / "metrics"
        session = len(list(sessions.iterdir())) if sessions.exists() else 0
        loggers.append(CSVLogger(folder, name="metrics", version=str(session)))
    mode, of_all_seeds = wandb_mode(config.wandb), job.name.removesuffix(f"-s{job.seed}")
    if mode != "off":
        os.environ.setdefault("WANDB_SILENT", "true")
        wandb = WandbLogger(
            name=job.name if not stage.index else f"{job.name}/{stage.name}",
            save_dir=folder,
            project=config.project,
            entity=config.entity,
            group=config.group or of_all_seeds,
            job_type="train" if stage.datasets else "evaluate",
            tags=redacted([*config.tags, *stage.history]),
            id=run_id,
            resume="allow",
            offline=mode == "offline",
            config=redacted(settings),
            settings={"x_transaction_log_flush_interval": FLUSH_SECONDS},
        )
        loggers.append(without_anonymous(wandb))
    return loggers


def wandb_mode(mode: str) -> str:
    """online, offline or off. `auto` is online only with a key and an answer from the server within seconds.

    Raises UserError for `online` without a key or without an answer: W&B itself would block for minutes.
    """
    if mode in ("off", "offline"):
        return mode
    problem = wandb_problem()
    if problem and mode == "online":
        raise UserError(f"logger.wandb=online: {problem}. Mend that, or use logger.wandb=offline.")
    if problem:
        log.info("W&B offline: %s", problem)
    return "offline" if problem else "online"


def finish_wandb() -> None:
    """Ends the W&B run of this process, so that the next job of a multirun gets its own."""
    wandb = sys.modules.get("wandb")  # a job that did not log there has not loaded it, which takes seconds
    if wandb is not None and wandb.run is not None:
        wandb.finish()
