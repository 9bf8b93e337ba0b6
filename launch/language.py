"""Which language a model's templates are in, where the job leaves it to its sets. Needs no torch."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from launch.explain import ConfigError


def with_language(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model, `language` filled in by the sets of the job where it is null and they agree.

    The sets that are learnt from decide; where nothing is learnt, those that are evaluated on. A set of translations
    counts for both of its languages. Languages whose templates are the same, as those of model=simcse are, agree.
    """
    model = dict(config.get("model") or {})
    if model.get("language", "") is not None:
        return model
    sets = config.get("dataset") or config.get("evaluate") or {}
    spoken = [word for one in sets.values() for word in (one.get("language") or "").split("-")]
    known = [language for language in dict.fromkeys(spoken) if language in model["templates"]]
    texts = [_templates(model, language) for language in known]
    if known and all(one == texts[0] for one in texts):
        model["language"] = known[0]
    return model


def settle_language(job: DictConfig) -> None:
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


def _templates(model: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Those that are used."""
    own = model["templates"][language]
    return {view: text for view, text in own.items() if view != "negative" or model["use_negative"]}
