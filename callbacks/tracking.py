"""Where numbers go while a run is under way: a CSV in the run folder, and Weights & Biases."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger

from conf.job import LoggerConfig
from juzhen.core.errors import UserError
from juzhen.core.network import answers
from juzhen.core.secrets import redacted

log = logging.getLogger(__name__)
PROBE_SECONDS = 3.0


def build_loggers(
    config: LoggerConfig,
    folder: Path,
    *,
    name: str,
    group: str,
    job_type: str,
    run_id: str,
    settings: Mapping[str, Any],
    tags: Sequence[str],
) -> list[Logger]:
    """The loggers of a stage.

    group     what W&B puts the run with, unless the configuration says another one
    job_type  train or evaluate
    run_id    the same for the same configuration, so that a resumed run goes on in its W&B run
    settings  plain containers only: what W&B stores as the configuration
    """
    loggers: list[Logger] = []
    if config.csv:
        sessions = folder / "metrics"
        session = len(list(sessions.iterdir())) if sessions.exists() else 0
        loggers.append(CSVLogger(folder, name="metrics", version=str(session)))
    mode = wandb_mode(config.wandb)
    if mode != "off":
        os.environ.setdefault("WANDB_SILENT", "true")
        wandb = WandbLogger(
            name=name,
            save_dir=folder,
            project=config.project,
            entity=config.entity,
            group=config.group or group,
            job_type=job_type,
            tags=redacted([*config.tags, *tags]),
            id=run_id,
            resume="allow",
            offline=mode == "offline",
            config=redacted(settings),
        )
        # Lightning always says how anonymous a run is; W&B warns in every run that this no longer means anything.
        getattr(wandb, "_wandb_init", {}).pop("anonymous", None)
        loggers.append(wandb)
    return loggers


def wandb_mode(wanted: str) -> str:
    """online, offline or off. `auto` is online only with a key and an answer from the server within seconds.

    Raises UserError for `online` without a key or without an answer: W&B itself would block for minutes.
    """
    if wanted in ("off", "offline"):
        return wanted
    problem = None
    if not _has_key():
        problem = "no key (set WANDB_API_KEY, or run `wandb login`)"
    elif not answers(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai"), seconds=PROBE_SECONDS):
        problem = f"no answer from the server within {PROBE_SECONDS:.0f} s"
    if problem and wanted == "online":
        raise UserError(f"logger.wandb=online: {problem}. Mend that, or use logger.wandb=offline.")
    if problem:
        log.info("W&B offline: %s. Send the run later with `wandb sync`.", problem)
    return "offline" if problem else "online"


def finish_wandb() -> None:
    """Ends the W&B run of this process, so that the next job of a multirun gets its own."""
    wandb = sys.modules.get("wandb")  # a job that did not log there has not loaded it, which takes seconds
    if wandb is not None and wandb.run is not None:
        wandb.finish()


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    netrc = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    try:
        return host.encode() in netrc.read_bytes()
    except OSError:
        return False
