"""What each stage of a job is to do: its sets, and the job with the stage's own numbers put in. Needs no torch."""

from dataclasses import asdict, dataclass, replace

from conf.duration import Duration
from conf.job import JobConfig, OptimizerConfig, StageConfig, TrainingConfig
from juzhen.core.errors import nearest
from juzhen.core.schema import ConfigError, validated
from juzhen.data.spec import DatasetConfig


@dataclass(frozen=True)
class StagePlan:
    """One stage of a job.

    name      the stage's own: of a folder, of a log
    datasets  the sets that it mixes; empty: nothing is trained
    job       the job as this stage sees it: its sets alone are in `dataset`, the others in `evaluate`
    """

    name: str
    datasets: tuple[str, ...]
    job: JobConfig


def plan_job(job: JobConfig) -> list[StagePlan]:
    """The stages of a job, in order; always at least one.

    Raises ConfigError for stages that name no set of the job, for sets that no stage learns from, and for keys or
    types that a stage's own numbers do not have.
    """
    sets, schedule = list(job.dataset), job.schedule
    _check_names(job)
    if schedule.name == "mix" or not sets:
        return [StagePlan("+".join(sets) or "untrained", tuple(sets), job)]
    order = list(schedule.order) if schedule.order is not None else sets
    for name in schedule.stages:
        if name not in order:
            raise ConfigError(f"schedule.stages.{name}: there is no such stage; {nearest(str(name), order)}")
    plans = [_plan(name, job) for name in order]
    trained = {name for plan in plans for name in plan.datasets}
    if idle := [name for name in sets if name not in trained]:
        raise ConfigError(
            f"schedule.order={order}: no stage learns from {', '.join(idle)}; "
            "name a stage after it, or add it to the dataset of one"
        )
    return plans


def history(plans: list[StagePlan], index: int) -> tuple[str, ...]:
    """What has been learnt from up to and including a stage, oldest first.

    A single stage names its sets one by one; a stage of a longer curriculum is one word, "a+b" for a mixture.
    """
    if len(plans) == 1:
        return plans[0].datasets
    return tuple("+".join(plan.datasets) for plan in plans[: index + 1])


def _check_names(job: JobConfig) -> None:
    schedule, sets = job.schedule, list(job.dataset)
    if schedule.name == "mix" and (schedule.order is not None or schedule.stages):
        key = "schedule.stages" if schedule.stages else "schedule.order"
        raise ConfigError(f"{key}: a mixture has one stage; type schedule=serial")
    if schedule.order is not None and not schedule.order:
        raise ConfigError("schedule.order=[]: expected names of stages, or null")
    for name, numbers in schedule.sets.items():
        if (
            numbers.weight is not None
            and schedule.sample_by not in ("weight", "drawn")
            and not schedule.weigh_loss
        ):
            raise ConfigError(
                f"schedule.sets.{name}.weight={numbers.weight}: weights are shares with schedule.sample_by=weight or "
                "drawn, and multiply losses with schedule.weigh_loss=true; type one of them"
            )
        if sets and name not in sets:
            raise ConfigError(
                f"schedule.sets.{name}: this job does not learn from {name}; {nearest(str(name), sets)}"
            )


def _plan(name: str, job: JobConfig) -> StagePlan:
    stage_config, key = job.schedule.stages.get(name) or StageConfig(), f"schedule.stages.{name}"
    datasets = [name] if stage_config.dataset is None else stage_config.dataset
    for each in datasets:
        if each not in job.dataset:
            where = "schedule.order" if stage_config.dataset is None else f"{key}.dataset"
            raise ConfigError(
                f"{where}: this job has no set {each}; {nearest(each, job.dataset)}, "
                f"or choose it too: 'dataset=[{','.join([*job.dataset, each])}]'"
            )
    if not datasets or len(set(datasets)) < len(datasets):
        raise ConfigError(f"{key}.dataset={datasets}: expected each set once, and at least one")
    training, sets = dict(stage_config.training or {}), job.schedule.sets
    if stage_config.share_percent is not None:
        if "duration" in training:
            raise ConfigError(
                f"{key}: share_percent is a part of training.duration; keep one of both",
                f"{key}.share_percent",
            )
        training["duration"] = _part(job.training.duration, stage_config.share_percent)
    stage = replace(
        job,
        evaluate={**job.evaluate, **job.dataset},
        dataset={each: _limited(job.dataset[each], stage_config.limit) for each in datasets},
        loss=job.loss if stage_config.loss is None else stage_config.loss,
        schedule=replace(job.schedule, sets={each: sets[each] for each in datasets if each in sets}),
        training=validated(TrainingConfig, asdict(job.training) | training, f"{key}.training"),
        optimizer=validated(
            OptimizerConfig, asdict(job.optimizer) | (stage_config.optimizer or {}), f"{key}.optimizer"
        ),
    )
    return StagePlan(name, tuple(datasets), stage)


def _limited(config: DatasetConfig, limit: int | None) -> DatasetConfig:
    """A set of which a stage trains on at most `limit` rows."""
    limits = [number for number in (config.limit, limit) if number is not None]
    return replace(config, limit=min(limits, default=None))


def _part(duration: str, percent: float) -> str:
    """That part of a duration, in its own unit.

    >>> _part("3 epochs", 80)
    '2.4 epochs'
    """
    length = Duration.parse(duration, key="training.duration")
    return f"{round(length.amount * percent / 100, 6):g} {length.unit}"
