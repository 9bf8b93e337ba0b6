"""What a finished stage, and those before it, have learnt from: the same rows, read again."""

from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.result import Result
from juzhen.data.loading import load_job_data
from launch.lacking import FinishedStage
from launch.stages import plan_job
from lightning_modules.chosen_losses import chosen_losses


def stage_job(stored: DictConfig, index: int) -> JobConfig:
    """The job of one stage, from the typed job that its result has stored."""
    return OmegaConf.to_object(plan_job(stored)[index].job)


def learnt_sets(
    stage: FinishedStage, result: Result, stored: Callable[[Result], DictConfig]
) -> list[dict[str, Examples]]:
    """For each stage up to that of `result`: dataset key → rows, after their view and their limit.

    stored  gives the typed job of a result; what it evaluates on decides what `filter_leaks` leaves out

    Raises UserError when these are not the rows that were learnt from.
    """
    learnt = []
    for index in range(result.stage + 1):
        told = result if index == result.stage else Result.read(stage.earlier(index))
        job = stage_job(stored(told), index)
        kinds = {name: match.kind for name, match in chosen_losses(job).items()}
        read = load_job_data(job, kinds, unscored=own_class(job.model["_target_"]).unscored).train
        for name, examples in read.items():
            _require_same(examples, told.data[f"train/{name}"], data_dir=job.data_dir)
        learnt.append(read)
    return learnt


def _require_same(examples: Examples, then: Mapping[str, Any], *, data_dir: str) -> None:
    name = examples.name
    if examples.fingerprint != then["fingerprint"]:
        raise UserError(
            f"{name}/train below {data_dir} holds other rows than the run has learnt from; point --data-dir at the "
            "same files"
        )
    if (examples.num_leaky, len(examples)) != (then["leaky"], then["rows"]):
        raise UserError(
            f"filter_leaks=true: with these sets in its evaluation the run would have left {examples.num_leaky:,} "
            f"rows of {name}/train out, and not {then['leaky'] or 0:,}: it has seen pairs of theirs. Train it "
            "again with the whole suite"
        )
