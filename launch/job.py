"""Checks a composed job against its schema, its values against their ranges, its targets against the code."""

import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from callbacks.trial import TrialAddress
from conf.job import JobConfig
from juzhen.core.errors import nearest
from juzhen.core.examples import Kind
from juzhen.core.secrets import NO_SECRETS, place_of_secret
from juzhen.core.texts import short
from launch.explain import ConfigError, broken_reference, leaves, unknown_key, wrong_type
from launch.naming import register_resolvers, with_language
from launch.set_files import spelt_sets
from launch.signatures import check_target
from launch.stages import plan_job
from launch.values import check_values

EXAMPLES = {
    "backbone.path": "python train.py backbone=local backbone.path=<folder of a model>",
    "loss": "python train.py loss=cosent",
    "model.teacher": "python train.py model=distill loss=distill model.teacher=builtin/mini_zh",
    "model": "python train.py model=biencoder",
    "backbone": "python train.py backbone=embedded",
}


def check_job(job: DictConfig) -> None:
    """Raises UserError for the first mistake in a typed job: value, range or target.

    Needs no torch, but to explain a mistake in what a model or a loss is given.
    """
    if key := place_of_secret(OmegaConf.to_container(job)):  # configurations are stored, and none needs one
        raise ConfigError(f"{key}: {NO_SECRETS}")
    check_values(job)
    if job.trial is not None:
        TrialAddress.parse(job.trial).check()
    check_targets(job)
    check_stages(job)


def check_stages(job: DictConfig) -> None:
    """What stages and sets of the schedule have of their own."""
    plans = plan_job(job)
    for name in job.schedule.stages:
        stage = next(plan for plan in plans if plan.name == name)
        try:
            check_values(stage.job)
        except ConfigError as error:
            raise ConfigError(f"stage {name}: {error}", f"schedule.stages.{name}") from error
    for group in ("stages", "sets"):
        for name, own in job.schedule[group].items():
            if own is not None and own.loss is not None:
                _check_loss(own.loss, f"schedule.{group}.{name}.loss")


def typed_config(config: DictConfig) -> DictConfig:
    """The job with the types of JobConfig and every `${…}` filled in. Raises UserError if it does not fit."""
    register_resolvers()
    config = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    try:
        resolved = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        # A missing or misspelt key may be the reason, and is then the better message.
        _require_complete(_merge(OmegaConf.to_container(config)))
        raise broken_reference(error) from error
    job = _merge(resolved)
    _check_digits(resolved, OmegaConf.to_container(job), "")
    _require_complete(job)
    _settle_language(job)
    return job


def _merge(settings: dict[str, Any]) -> DictConfig:
    _check_forms(settings, JobConfig, "")
    with explained():
        return OmegaConf.merge(OmegaConf.structured(JobConfig), spelt_sets(settings))


@contextmanager
def explained() -> Iterator[None]:
    """Turns OmegaConf's exceptions about a typed job into a ConfigError."""
    try:
        yield
    except (ConfigKeyError, ConfigAttributeError) as error:
        raise unknown_key(error) from error
    except OmegaConfBaseException as error:
        raise wrong_type(error) from error


def _require_complete(job: DictConfig) -> None:
    if missing := sorted(key for key, value in leaves(OmegaConf.to_container(job)) if value == "???"):
        example = EXAMPLES.get(missing[0], f"python train.py {missing[0]}=<value>")
        raise ConfigError(f"{missing[0]} is not set; for example: {example}")


def _check_forms(value: Any, hint: Any, key: str) -> None:
    """Raises ConfigError where a list stands for a group of keys, or the other way round; `hint` is its type."""
    every = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = [one for one in every if one is not type(None)]
    takes_group = any(is_dataclass(one) or (get_origin(one) or one) is dict for one in kinds)
    takes_list = any((get_origin(one) or one) in (list, tuple) for one in kinds)
    given = f"{key}={short(str(value))}: expected"
    if isinstance(value, Mapping) and kinds and all(one in (str, int, float, bool) for one in kinds):
        raise ConfigError(f"{given} one value, and not a group of keys {{…}}")
    if isinstance(value, Mapping) and takes_list and not takes_group:
        raise ConfigError(f"{given} a list, '{key}=[…]', and not a group of keys {{…}}")
    if isinstance(value, list) and takes_group and not takes_list:
        raise ConfigError(f"{given} a group of keys, {key}.<key>=<value>, and not a list […]")
    if isinstance(value, Mapping):
        for name, inner in _below(value, kinds):
            _check_forms(value[name], inner, f"{key}.{name}".lstrip("."))


def _below(value: Mapping[str, Any], kinds: list[Any]) -> Iterator[tuple[str, Any]]:
    """The keys of a group whose types are known, with these."""
    for kind in kinds:
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            yield from ((name, hints[name]) for name in value if name in hints)
        elif (get_origin(kind) or kind) is dict and len(get_args(kind)) == 2:
            yield from ((name, get_args(kind)[1]) for name in value)


def _check_digits(given: Any, typed: Any, key: str) -> None:
    """Raises ConfigError for a text in the digits of another script that was taken for a number, `typed`."""
    if isinstance(given, Mapping) and isinstance(typed, Mapping):
        for name in given:
            _check_digits(given[name], typed.get(name), f"{key}.{name}".lstrip("."))
    elif isinstance(given, list) and isinstance(typed, list):
        for place, (one, number) in enumerate(zip(given, typed, strict=False)):
            _check_digits(one, number, f"{key}[{place}]")
    elif isinstance(given, str) and isinstance(typed, int | float) and not given.isascii():
        raise ConfigError(f"{key}={given}: a number is written in ASCII digits; type {typed}")


def _settle_language(job: DictConfig) -> None:
    """Fills `model.language` of a typed job in. Raises ConfigError where the sets that it learns from do not agree."""
    if job.model.get("language", "") is not None:
        return
    config = OmegaConf.to_container(job)
    language = job.model.language = with_language(config)["language"]
    if language is None and job.dataset:
        sets = ", ".join(f"{name} ({one.language})" for name, one in job.dataset.items())
        known = " or ".join(f"model.language={one}" for one in job.model.templates)
        raise ConfigError(
            f"model.language=null: templates are in one language, and this job learns from {sets}; type {known}, or "
            "learn from sets of one language"
        )


def check_targets(job: DictConfig) -> None:
    """The `_target_` and the keys of the model, a loss or a callback fit the code."""
    model = OmegaConf.to_container(job.model)
    if "_target_" not in model:
        raise ConfigError("model._target_ is not set; for example: python train.py model=biencoder", "model")
    check_target(model, "model")
    _check_loss(job.loss, "loss")
    for name, node in OmegaConf.to_container(job.callbacks).items():
        if node is not None:
            _check_callback(node, f"callbacks.{name}")


def _check_callback(node: Any, key: str) -> None:
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise ConfigError(
            f"{key}: expected a callback with its _target_, or null to leave it out; a file of conf/callbacks "
            "begins with '# @package callbacks.<name>'"
        )
    if not isinstance(node.get("decides_weights"), bool):
        raise ConfigError(
            f"{key}.decides_weights: expected true or false; with true it is part of the run key, as what changes the "
            "weights must be"
        )
    check_target({name: value for name, value in node.items() if name != "decides_weights"}, key)


def _check_loss(node: DictConfig, group: str) -> None:
    """A loss, or a table example kind → loss; `group` is where it stands."""
    loss = OmegaConf.to_container(node)
    if "_target_" in loss:
        check_target(loss, group)
        return
    for kind, nested in loss.items():
        key = f"{group}.{kind}"
        if kind not in tuple(Kind):
            raise ConfigError(f"{key}: there is no such kind of examples; {nearest(kind, Kind)}")
        if not isinstance(nested, Mapping) or "_target_" not in nested:
            raise ConfigError(f"{key}: expected a loss, for example +loss@{key}=cosent")
        check_target(nested, key)
