"""The job of a finished run, read back from its result, and what it has begun with."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.core.result import Result
from juzhen.core.schema import validated
from juzhen.evaluation.finished import FinishedRun
from launch.stages import plan_job

WHOLE = ("model", "loss", "dataset", "evaluate", "backbone")
"""Groups that are taken as they are stored: two choices of one of them have different keys."""

PLACES = ("cache_dir", "output_dir", "run_dir", "trial")
"""Where something is written: of today, since a result may come from anybody."""


NOT_ASKED = ("earlier", "callbacks", "health")
"""What an evaluation has no use for: other numbers of the stages before, and what watched the training. `health` is
what results from before there were callbacks call some of them."""


def stored_job(config: Mapping[str, Any], defaults: JobConfig, *, own_hardware: bool) -> JobConfig:
    """The typed job of a stored configuration.

    defaults      a typed job of today: it has the keys that came to the schema after the run
    own_hardware  the hardware of the run, else that of `defaults`

    Raises UserError for a key or a type that the schema does not have any more.
    """
    today = {key: value for key, value in asdict(defaults).items() if key not in WHOLE}
    left_out = (*PLACES, *NOT_ASKED, *(() if own_hardware else ("hardware",)))
    stored = {key: value for key, value in config.items() if key not in left_out}
    return validated(JobConfig, _merged(today, stored), where="the configuration that the result has stored")


def _merged(today: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored, and below it what came since."""
    both = {
        key: _merged(today[key], value)
        for key, value in stored.items()
        if isinstance(value, Mapping) and isinstance(today.get(key), Mapping)
    }
    return {**today, **stored, **both}


def starting_encoder(run: FinishedRun, result: Result, *, defaults: JobConfig) -> Any:
    """What a finished stage has begun with: the encoder of the stage before, or what its job starts from.

    Raises UserError when it is gone.
    """
    stored = stored_job(result.config, defaults, own_hardware=True)
    job = plan_job(stored)[result.stage].job
    folder = run.earlier(result.stage - 1).encoder if result.stage else None
    return own_class(job.model["_target_"]).load_encoder(job, folder=folder)
