"""Typed job of a composition: its checks, its name and key, its stages, and the job of a finished run.

Needs no torch.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from math import isfinite
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

import conf
from callbacks.trial import TrialAddress
from conf.job import Duration, JobConfig, OptimizerConfig, StageConfig, TrainingConfig
from conf.own_classes import LOSSES, declared_losses, keys_of, own_class, own_targets, refusal
from juzhen import identity
from juzhen.core.aliases import current_key, note_once, with_current_keys
from juzhen.core.errors import UserError, command, nearest, setting
from juzhen.core.examples import Kind
from juzhen.core.kinds import CLASS_MEANS, CORRELATIONS, MEASURES, OF_ANY_TEXT, V_MEASURE
from juzhen.core.machine import HARDWARE, found_hardware
from juzhen.core.paths import DATASETS, newest
from juzhen.core.result import Result
from juzhen.core.safe_open import read_yaml
from juzhen.core.schema import ConfigError, validated
from juzhen.core.secrets import NO_SECRETS, place_of_secret
from juzhen.data.spec import require_set, smallest
from juzhen.evaluation.saved_run import SavedRun
from juzhen.identity import with_language
from juzhen.models import settings_of
from juzhen.models.settings import INNER, name_of
from launch.overrides import broken_reference, leaves


def run_key(config: Mapping[str, Any] | DictConfig) -> str:
    """Compute the key of a run over everything that decides its numbers.

    Args:
        config: A composition, or a stored configuration.

    Returns:
        Eight hex digits.
    """
    return identity.key_of_settings(deciding_settings(config))


def deciding_settings(config: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """Return `juzhen.identity.deciding_settings`. In a composition each `${…}` is resolved.

    Args:
        config: A composition, or a stored configuration.

    Returns:
        Plain settings that decide a result.
    """
    return identity.deciding_settings(_filled_in(config) if isinstance(config, DictConfig) else config)


def _filled_in(config: DictConfig) -> dict[str, Any]:
    """Deciding settings and hardware in plain containers. The folder is left out: its name needs the key."""
    keys = [
        key for key in config if key not in identity.NOT_PART_OF_THE_RUN or key in ("hardware", "callbacks")
    ]
    nodes = {key: "???" if OmegaConf.is_missing(config, key) else config[key] for key in keys}
    return {
        key: OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
        for key, node in nodes.items()
    }


def run_name(config: Mapping[str, Any]) -> str:
    """Make a readable name from training sets, model, loss and seed.

    A model that is not trained has neither sets nor a loss. A model with a built-in objective has no loss.

    Args:
        config: Configuration of a job in plain containers. References need not be resolved.

    Returns:
        A name of one folder. More than 80 characters of training sets are abbreviated.
    """
    datasets = list(config.get("dataset") or {}) or ["untrained"]
    schedule = config.get("schedule") or {}
    is_serial = schedule.get("name") == "serial"
    joined = ("-" if is_serial else "+").join((is_serial and schedule.get("order")) or datasets)
    if len(joined) > 80:
        joined = f"{datasets[0]}+{len(datasets) - 1}more"
    model = config["model"].get("variant") or name_of(config["model"])
    loss, inner = name_of(config["loss"]), config["loss"].get(INNER)
    while isinstance(inner, Mapping):
        loss, inner = f"{loss}_{name_of(inner)}", inner.get(INNER)
    settings = settings_of(config["model"])
    uses_loss = settings.uses_loss() and bool(config.get("dataset"))
    parts = [*([joined] if settings.trains else []), model, *([loss] if uses_loss else [])]
    return f"{'-'.join(parts)}-s{config.get('seed')}"


def _this_machine(key: str) -> Any:
    """Resolve `${this_machine:key}`: a value from the file of conf/hardware that suits this machine."""
    return read_yaml(HARDWARE / f"{found_hardware()[0]}.yaml")[key]


def register_resolvers() -> None:
    """Makes the resolvers of `conf/` known to OmegaConf. May be called again."""
    conf.register()
    for name, resolver in {
        "this_machine": _this_machine,
        "run_key": lambda *, _root_: run_key(_root_),
        "run_name": lambda *, _root_: run_name(OmegaConf.to_container(_root_, resolve=False)),
    }.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


EXAMPLES = {
    "backbone.path": "python train.py backbone=local backbone.path=<folder of a model>",
    "model.teacher": "python train.py model.teacher=<folder, run or hub id of an encoder>",
    "loss": "python train.py loss=cosent",
    "model": "python train.py model=biencoder",
    "backbone": "python train.py backbone=random_small",
}
PACKAGES = {"model": "lightning_modules", "callbacks": "callbacks"}
"""Group → where its classes are. Those of all others are losses."""

AFTER_TRAINING = ("transfer_accuracy", "transfer_f1", "transfer_majority", V_MEASURE)
NO_GOAL = ("ranking_loss", "positive_score", "negative_score")
"""Metrics of which higher is not better."""

MONITORED = {name for measures in MEASURES.values() for name in measures}
MONITORED = MONITORED - {*AFTER_TRAINING, *NO_GOAL} | {OF_ANY_TEXT, CLASS_MEANS}
"""Metrics that may choose a checkpoint."""


LEAST_SAMPLES = 40
"""Resamples of an interval, so that one lies beyond each of its ends of 2.5 %."""


def read_job(config: DictConfig) -> JobConfig:
    """Turn a composed configuration into a typed job. Needs no torch.

    Args:
        config: A composition. Its node `hydra` is not read.

    Returns:
        The job, with `model.language` filled in.

    Raises:
        ConfigError: The first mistake.
    """
    register_resolvers()
    names = [key for key in config if key != "hydra"]  # `in` would work out what each ${…} stands for
    written: Any = OmegaConf.to_container(config, resolve=False)
    for field in fields(JobConfig):
        if field.name not in names and field.name in EXAMPLES:
            raise _not_set(field.name)
        word = written.get(field.name)
        if isinstance(word, str) and is_dataclass(field.type):  # a ${…} that reads the group would fail first
            raise ConfigError(
                f"{field.name}={word}: a group of keys, not a choice. Type {field.name}.<key>=<value>"
            )
    for group in ("dataset", "evaluate"):
        for name, node in (written.get(group) or {}).items():
            if node is None:
                raise ConfigError(
                    f"{group}.{name}=null: a set is a group of keys. Type '~{group}.{name}' to leave it out"
                )
            if isinstance(node, dict) and not {"name", "kind"} & node.keys():
                raise ConfigError(f"{group}.{name}: has keys, but {name} is not among the sets. Name it too")
    try:
        nodes = {key: config[key] for key in names}
        plain = {
            key: OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
            if OmegaConf.is_config(node)
            else node
            for key, node in nodes.items()
        }
    except MissingMandatoryValue as error:
        raise _not_set(str(error.full_key)) from error
    except OmegaConfBaseException as error:
        raise broken_reference(error) from error
    if key := place_of_secret(plain):  # configurations are stored, and none needs one
        raise ConfigError(f"{key}: {NO_SECRETS}")
    for key, _ in leaves(plain):
        if (name := current_key(key)) != key:
            note_once(f"the key {key}", name)
    job = validated(JobConfig, with_current_keys(plain))
    if job.trial is not None:
        TrialAddress.parse(job.trial).check()
    _check_targets(job)
    named = {
        "backbone.path": job.backbone.path,
        "model.teacher": job.model.get("teacher"),
        "init_from": job.init_from,
    }
    _check_revisions({key: path for key, path in named.items() if path})
    plan_job(job)
    _settle_language(job)
    _check_monitor(job)
    if 0 < job.evaluation.bootstrap_samples < LEAST_SAMPLES:
        raise ConfigError(
            f"evaluation.bootstrap_samples={job.evaluation.bootstrap_samples}: too few for a 95 % interval. Choose "
            f"{LEAST_SAMPLES} or more, or 0 for none"
        )
    sets = {*job.dataset, *job.evaluate, *(path.stem for path in DATASETS.glob("*.yaml"))}
    for name in job.evaluation.transfer:
        require_set("evaluation.transfer", name, sets)
    for key, value in leaves(plain):  # no record of a job holds them
        numbers = value if isinstance(value, list) else [value]
        if any(isinstance(number, float) and not isfinite(number) for number in numbers):
            raise ConfigError(f"{key}={value}: expected a finite number. Type one, such as {key}=0.5")
    return job


def _not_set(key: str) -> ConfigError:
    return ConfigError(
        f"{key} is not set. For example: {EXAMPLES.get(key, f'python train.py {key}=<value>')}", key
    )


def _check_targets(job: JobConfig) -> None:
    """Raises ConfigError unless the model, each loss and each callback is a class of ours and takes its keys."""
    for key, node in targets_of(job):
        if not isinstance(node, Mapping) or "_target_" not in node:
            hint = {"callbacks": "begins with '# @package callbacks.<name>'"}.get(key.split(".")[0])
            expected = f"A file of conf/callbacks {hint}" if hint else f"For example: +loss@{key}=cosent"
            raise ConfigError(f"{key}: expected a class, by its _target_, and its numbers. {expected}")
        if key.startswith("callbacks.") and not isinstance(node.get("decides_weights"), bool):
            raise ConfigError(
                f"{key}.decides_weights: expected true or false. With true it is part of the run key, as what changes "
                "the weights must be"
            )
        check_target(node, key)


def targets_of(job: JobConfig) -> Iterator[tuple[str, Any]]:
    """List the model, each loss and each callback of a job.

    Args:
        job: A typed job.

    Yields:
        Dotted key and its settings. Losses inside of losses follow the outer one.

    Raises:
        ConfigError: A table of losses has an unknown kind of rows.
    """
    yield "model", job.model
    losses = {"loss": job.loss}
    for group, owners in (("stages", job.schedule.stages), ("sets", job.schedule.sets)):
        losses |= {
            f"schedule.{group}.{name}.loss": node.loss for name, node in owners.items() if node and node.loss
        }
    for key, loss in losses.items():
        if "_target_" in loss:
            yield from _with_inner(key, loss)
            continue
        for kind, nested in loss.items():
            if kind not in tuple(Kind):
                raise ConfigError(f"{key}.{kind}: unknown kind of examples. {nearest(kind, Kind)}")
            yield from _with_inner(f"{key}.{kind}", nested)
    yield from ((f"callbacks.{name}", node) for name, node in job.callbacks.items() if node is not None)


def _with_inner(key: str, loss: Any) -> Iterator[tuple[str, Any]]:
    yield key, loss
    if isinstance(loss, Mapping) and INNER in loss:
        yield from _with_inner(f"{key}.{INNER}", loss[INNER])


def check_target(node: Mapping[str, Any], key: str) -> None:
    """Check that the class of a `_target_` accepts all of its keys and values.

    Args:
        node: Settings of a model, a loss or a callback.
        key: Dotted key of the node. Its first part decides where the class must be.

    Raises:
        ConfigError: Another class, an unknown key, or a value that does not fit.
    """
    target, package = str(node["_target_"]), PACKAGES.get(key.split(".")[0], LOSSES)
    try:
        of_others = package == LOSSES and target in declared_losses()
        if not (of_others or target.startswith(f"{package}.")):
            raise UserError(refusal(target))
        settings = keys_of(target)
    except UserError as error:
        classes = list(own_targets(package))
        namesakes = [path for path in classes if path.rpartition(".")[2] == target.rpartition(".")[2]]
        raise ConfigError(f"{key}._target_={error}. {nearest(target, namesakes or classes)}") from error
    validated(settings, {name: value for name, value in node.items() if name not in NOT_OF_THE_CLASS}, key)


NOT_OF_THE_CLASS = ("_target_", "name", "decides_weights")
"""Keys of a class's settings that it is not handed."""


def _check_revisions(named: Mapping[str, str]) -> None:
    """Raises ConfigError for a built-in encoder of several revisions by its plain name: results name the revision."""
    for key, path in named.items():
        if (revision := newest(path)) != path:
            raise ConfigError(
                f"{key}={path}: a job names the revision of a built-in encoder. Type {key}={revision}"
            )


def _settle_language(job: JobConfig) -> None:
    """Fill in `model.language`. Raises ConfigError if the training sets have several languages."""
    if job.model.get("language", "") is not None:
        return
    language = job.model["language"] = with_language(asdict(job))["language"]
    if language is None and job.dataset:
        sets = ", ".join(f"{name} ({described.language})" for name, described in job.dataset.items())
        choices = " or ".join(f"model.language={language}" for language in job.model["templates"])
        raise ConfigError(
            f"model.language=null: templates are in one language, and this job learns from {sets}. Type {choices}, or "
            "learn from sets of one language"
        )


def _check_monitor(job: JobConfig) -> None:
    """Require `auto`, or `dev/<set>/<metric>` of a set that the job scores. Raises ConfigError otherwise."""
    key = f"training.monitor={job.training.monitor}"
    match = re.fullmatch(r"dev/([^/]+)/([^/]+)", job.training.monitor)
    if job.training.monitor == "auto":
        return
    name, metric = match.groups() if match else ("", "")
    sets = {**job.evaluate, **job.dataset}
    if metric not in MONITORED:
        hint = (
            f"unknown metric. {nearest(metric, MONITORED)}"
            if match
            else "expected auto, or a key such as dev/csts/spearman"
        )
        if metric in (*AFTER_TRAINING, *NO_GOAL):
            hint = f"{metric} chooses no checkpoint. Leave it out, or take auto"
        raise ConfigError(f"{key}: {hint}")
    if name not in sets:
        raise ConfigError(f"{key}: this job does not score {name}. {nearest(name, sets)}")
    kind, model = Kind(sets[name].kind), settings_of(job.model)
    measures = [measure for measure in MEASURES[kind] if measure in MONITORED]
    if kind is Kind.NLI_PAIR and "logits" not in model.provides:
        measures = [*CORRELATIONS]  # the others are of a model that names classes
    if kind is Kind.LABELLED_TEXT:
        measures = [CLASS_MEANS]
    if model.metric == OF_ANY_TEXT:  # any text has hidden tokens
        measures.append(model.metric)
    if metric not in measures:
        raise ConfigError(
            f"{key}: {name} has {kind.replace('_', ' ')}s, which have no {metric} while this model learns. Choose "
            f"{' or '.join(measures) or 'another set'}"
        )


@dataclass(frozen=True)
class StagePlan:
    """One stage of a job.

    Args:
        name: Name of the stage, in folders and logs.
        datasets: Sets of its mixture. Empty: nothing is trained.
        job: Job of this stage. Only its sets are in `dataset`, the others are in `evaluate`.
    """

    name: str
    datasets: tuple[str, ...]
    job: JobConfig


def plan_job(job: JobConfig) -> list[StagePlan]:
    """Plan the stages of a job.

    Args:
        job: A typed job.

    Returns:
        The stages in order, at least one.

    Raises:
        ConfigError: A stage names no set of the job, no stage learns from a set, or the numbers of a stage have a
            wrong key or type.
    """
    sets, schedule = list(job.dataset), job.schedule
    _check_names(job)
    if schedule.name == "mix" or not sets:
        return [StagePlan("+".join(sets) or "untrained", tuple(sets), job)]
    order = list(schedule.order) if schedule.order is not None else sets
    for name in schedule.stages:
        if name not in order:
            raise ConfigError(f"schedule.stages.{name}: unknown stage. {nearest(str(name), order)}")
    plans = [_plan(name, job) for name in order]
    trained = {name for plan in plans for name in plan.datasets}
    if idle := [name for name in sets if name not in trained]:
        raise ConfigError(
            f"schedule.order={order}: no stage learns from {', '.join(idle)}. "
            "Name a stage after it, or add it to the dataset of one"
        )
    return plans


def history(plans: list[StagePlan], index: int) -> tuple[str, ...]:
    """Return the training sets up to and including a stage, oldest first.

    A single stage names its sets one by one. A stage of a longer curriculum is one word, "a+b" for a mixture.

    Args:
        plans: Result of `plan_job`.
        index: Position of the stage, from 0.

    Returns:
        One word for each set, or for each stage.
    """
    if len(plans) == 1:
        return plans[0].datasets
    return tuple("+".join(plan.datasets) for plan in plans[: index + 1])


def _check_names(job: JobConfig) -> None:
    schedule, sets = job.schedule, list(job.dataset)
    if schedule.name == "mix" and (schedule.order is not None or schedule.stages):
        key = "schedule.stages" if schedule.stages else "schedule.order"
        raise ConfigError(f"{key}: a mixture has one stage. Type schedule=serial")
    if schedule.order is not None and not schedule.order:
        raise ConfigError("schedule.order=[]: expected names of stages, or null")
    for name, numbers in schedule.sets.items():
        if (
            numbers.weight is not None
            and schedule.sample_by not in ("weight", "drawn")
            and not schedule.weigh_loss
        ):
            raise ConfigError(
                f"schedule.sets.{name}.weight={numbers.weight}: has no effect yet. Type schedule.sample_by=weight (or "
                "drawn) to draw rows by it, or schedule.weigh_loss=true to multiply the loss by it"
            )
        if sets and name not in sets:
            raise ConfigError(
                f"schedule.sets.{name}: this job does not learn from {name}. {nearest(str(name), sets)}"
            )


def _plan(name: str, job: JobConfig) -> StagePlan:
    stage_config, key = job.schedule.stages.get(name) or StageConfig(), f"schedule.stages.{name}"
    datasets = [name] if stage_config.dataset is None else stage_config.dataset
    for each in datasets:
        if each not in job.dataset:
            where = "schedule.order" if stage_config.dataset is None else f"{key}.dataset"
            raise ConfigError(
                f"{where}: this job has no set {each}. {nearest(each, job.dataset)} "
                f"Or choose it too: {command(setting('dataset', [*job.dataset, each]))}"
            )
    if not datasets or len(set(datasets)) < len(datasets):
        raise ConfigError(f"{key}.dataset={datasets}: expected each set once, and at least one")
    training, sets = dict(stage_config.training or {}), job.schedule.sets
    if stage_config.share_percent is not None:
        if "duration" in training:
            raise ConfigError(
                f"{key}: share_percent is a part of training.duration. Keep one of both",
                f"{key}.share_percent",
            )
        training["duration"] = _part(job.training.duration, stage_config.share_percent)
    stage = replace(
        job,
        evaluate={**job.evaluate, **job.dataset},
        dataset={
            each: replace(job.dataset[each], limit=smallest(job.dataset[each].limit, stage_config.limit))
            for each in datasets
        },
        loss=job.loss if stage_config.loss is None else stage_config.loss,
        schedule=replace(job.schedule, sets={each: sets[each] for each in datasets if each in sets}),
        training=validated(TrainingConfig, asdict(job.training) | training, f"{key}.training"),
        optimizer=validated(
            OptimizerConfig, asdict(job.optimizer) | (stage_config.optimizer or {}), f"{key}.optimizer"
        ),
    )
    return StagePlan(name, tuple(datasets), stage)


def _part(duration: str, percent: float) -> str:
    """Return that percentage of a duration, in its unit.

    >>> _part("3 epochs", 80)
    '2.4 epochs'
    """
    length = Duration.parse(duration, key="training.duration")
    return f"{round(length.amount * percent / 100, 6):g} {length.unit}"


WHOLE = ("model", "loss", "dataset", "evaluate", "backbone")
"""Groups that are taken as they are stored: two choices of one of them have different keys."""

PLACES = ("cache_dir", "output_dir", "run_dir", "trial")
"""Where something is written: of today, since a result may come from anybody."""


NOT_ASKED = ("earlier", "callbacks", "health")
"""What an evaluation has no use for: other numbers of the stages before, and what watched the training. `health` is
what results from before there were callbacks call some of them."""


def stored_job(config: Mapping[str, Any], defaults: JobConfig, *, own_hardware: bool) -> JobConfig:
    """Return the typed job of a stored configuration.

    Args:
        config: The stored configuration.
        defaults: A typed job of today, with the keys that are newer than the run.
        own_hardware: True: the hardware of the run. False: the hardware of `defaults`.

    Returns:
        The job.

    Raises:
        UserError: A key or a type that the schema does not have any more.
    """
    today = {key: value for key, value in asdict(defaults).items() if key not in WHOLE}
    left_out = (*PLACES, *NOT_ASKED, *(() if own_hardware else ("hardware",)))
    stored = {key: value for key, value in with_current_keys(config).items() if key not in left_out}
    return validated(JobConfig, _merged(today, stored), where="the configuration that the result has stored")


def _merged(today: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings, completed with today's where they lack a key."""
    both = {
        key: _merged(today[key], value)
        for key, value in stored.items()
        if isinstance(value, Mapping) and isinstance(today.get(key), Mapping)
    }
    return {**today, **stored, **both}


def starting_encoder(run: SavedRun, result: Result, *, defaults: JobConfig) -> Any:
    """Load the encoder that a finished stage started from.

    It is the encoder of the stage before, or the initial encoder of its job.

    Args:
        run: Folder of the finished stage.
        result: Result of the stage, with its stored configuration.
        defaults: A typed job of today, with the keys that are newer than the run.

    Returns:
        The encoder.

    Raises:
        UserError: The encoder was removed.
    """
    stored = stored_job(result.config, defaults, own_hardware=True)
    job = plan_job(stored)[result.stage].job
    folder = run.earlier(result.stage - 1).encoder if result.stage else None
    return own_class(job.model["_target_"]).load_encoder(job, folder=folder)
