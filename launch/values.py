"""Which values a job may have: each key by its own Option, and what keys may be beside each other."""

import re
from collections.abc import Mapping
from dataclasses import is_dataclass

from omegaconf import DictConfig, OmegaConf

from conf.declared import declared
from conf.duration import Duration, Unit
from juzhen.core.accelerator import found_hardware
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Kind
from juzhen.core.measures import CLASS_MEANS, CORRELATIONS, MEASURES, RANKINGS, ranking_measure
from juzhen.core.option import options
from juzhen.core.places import DATASETS
from juzhen.core.texts import name_fault
from launch.explain import ConfigError
from launch.set_files import check_dataset, check_name

MONITORED = (
    "spearman",
    "pearson",
    "accuracy",
    "f1",
    "average_precision",
    "auc",
    "macro_f1",
    "mlm_accuracy",
    CLASS_MEANS,
    "ranking_accuracy",
    "triplet_accuracy",
    "score_gap",
    *RANKINGS,
)
"""Metrics that may choose a checkpoint: higher is better."""


def check_values(job: DictConfig) -> None:
    """Raises ConfigError for the first value of a typed job that is outside its set or range."""
    _check_options(job, "")
    for group in ("dataset", "evaluate"):
        for name, dataset in job[group].items():
            check_name(group, name, dataset)
            check_dataset(f"{group}.{name}", dataset)
    _check_monitor(job)
    _check_rankings(job)
    _check_transfer(job)
    _check_names(job)
    _check_optimizer(job.optimizer)
    _check_together(job)


def _check_options(node: DictConfig, path: str) -> None:
    """Every value of a typed configuration against the Option of its field."""
    kind = OmegaConf.get_type(node)
    own = options(kind) if is_dataclass(kind) else {}
    for name, value in node.items():
        key = f"{path}{name}"
        if isinstance(value, DictConfig):
            _check_options(value, f"{key}.")
        elif name in own and value is not None:
            try:
                own[name].check(key, value)
            except UserError as error:
                raise ConfigError(str(error), key) from error


def _check_optimizer(optimizer: DictConfig) -> None:
    if len(optimizer.betas) != 2:
        raise ConfigError(f"optimizer.betas={optimizer.betas}: expected two numbers")
    key, warmup = "optimizer.warmup", Duration.parse(optimizer.warmup)
    if warmup.unit is Unit.PERCENT and warmup.amount > 100:
        raise ConfigError(f"{key}={optimizer.warmup}: expected at most 100 percent of the training")
    if optimizer.decay == "inverse_sqrt" and warmup.amount == 0:
        raise ConfigError(
            f"{key}={optimizer.warmup}: decay=inverse_sqrt is lr · √(warm-up/step), and nothing without a warm-up; "
            "type for example 'optimizer.warmup=10 percent'"
        )


def _check_together(job: DictConfig) -> None:
    """What may not be chosen beside something else."""
    training = job.training
    if training.stratify_by != "none" and training.length_window > 1:
        raise ConfigError(
            f"training.stratify_by={training.stratify_by}: training.length_window={training.length_window} puts rows "
            "of like length in a batch, labels in proportion; leave one of them at its default"
        )


def _check_monitor(job: DictConfig) -> None:
    """`auto`, or `dev/<set>/<metric>` of a set that the job scores."""
    value, key = job.training.monitor, "training.monitor"
    match = re.fullmatch(r"dev/([^/]+)/[^/]+", value)
    if value == "auto":
        return
    if not match:
        raise ConfigError(f"{key}={value}: expected auto, or a key such as dev/csts/spearman")
    metric = value.rpartition("/")[2]
    if metric not in MONITORED:
        raise ConfigError(f"{key}={value}: {metric} chooses no checkpoint; {nearest(metric, MONITORED)}")
    sets = {**job.evaluate, **job.dataset}
    if match[1] not in sets:
        raise ConfigError(f"{key}={value}: this job does not score {match[1]}; {nearest(match[1], sets)}")
    kind = sets[match[1]].kind
    model = declared(job.model["_target_"])
    known = [one for one in MEASURES[Kind(kind)] if one in MONITORED]
    if kind == Kind.NLI_PAIR and "logits" not in (model.provides or ()):
        known = [*CORRELATIONS]  # the others are of a model that names classes
    if kind == Kind.LABELLED_TEXT:
        known = [CLASS_MEANS]
    if model.metric == "mlm_accuracy":  # any text has hidden tokens
        known.append(model.metric)
    if metric not in known:
        raise ConfigError(
            f"{key}={value}: {match[1]} has {kind.replace('_', ' ')}s, which have no {metric} while this model learns; "
            f"choose {' or '.join(known) or 'another set'}"
        )


def _check_rankings(job: DictConfig) -> None:
    for name in job.evaluation.rankings:
        try:
            ranking_measure(name)
        except UserError as error:
            raise ConfigError(f"evaluation.rankings={error}") from error


def _check_transfer(job: DictConfig) -> None:
    """Sets of the job, or of conf/dataset."""
    key = "evaluation.transfer"
    known = {*job.dataset, *job.evaluate, *(path.stem for path in DATASETS.glob("*.yaml"))}
    for name in job.evaluation.transfer:
        if name not in known:
            raise ConfigError(f"{key}={name}: there is no such set; {nearest(name, known)}")


def _check_names(job: DictConfig) -> None:
    """Folders and keys of results are named after these, so none may be a path, or more than one word."""
    for group in ("order", "stages"):
        for name in job.schedule[group] or ():
            if fault := name_fault(str(name)):
                key = f"schedule.{group}"
                raise ConfigError(f"{key}: {name}: expected a name of a stage: {fault}")
    for key in ("output_dir", "run_dir"):
        if not job[key].strip():
            raise ConfigError(f"{key}=: expected a folder; {key}=. is the one that this is started in")
    if fault := name_fault(job.name):
        raise ConfigError(f"name={job.name}: expected a name of a folder: {fault}")


def hardware_note(choices: Mapping[str, str]) -> str | None:
    """What hardware=auto is here; None where it is not among the choices of a composition.

    Raises ConfigError where the runs will be on machines that cannot be looked at.
    """
    if choices.get("hardware") != "auto":
        return None
    launcher = choices.get("hydra/launcher")
    if launcher in ("ray", "slurm"):
        raise ConfigError(
            f"hardware=auto looks at this machine, and hydra/launcher={launcher} runs on others; name what they have, "
            "as in hardware=cuda"
        )
    name, reason = found_hardware()
    return f"hardware=auto is hardware={name} here: {reason}"
