"""A key of a job is in the key of its run exactly if the job reads it: every model, every key of its composition."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jobs import compose_job, logged, run_job
from omegaconf import OmegaConf

from juzhen.core.result import Result
from juzhen.identity import NOT_PART_OF_THE_RUN, deciding_settings, is_below, key_of_settings, unread
from juzhen.models import all_settings
from juzhen.models.settings import AS_IT_IS

LOSSES = {
    "cot": "info_nce_pool",
    "distill": "distill",
    "distill_translations": "distill_mse",
    "guided": "info_nce_guided",
    "views": "info_nce",
}
"""Model → a loss that it takes, where it does not take the usual one."""

CHANGES_NO_NUMBER = (
    *("backbone.name", "model.variant", "schedule.store", "evaluation.cache_embeddings"),
    *("training.checkpoint_every", "model.untrained_mask"),
)
"""Keys that a job reads for what it is called, for where its files are, or for how soon it is done."""

OF_HARDWARE = ("hardware.precision", "hardware.compile")
"""The two keys of the hardware that decide numbers."""

FOR_ALL_MODELS = ("dataset", "evaluate", "callbacks", "logger", "hardware")
"""Groups that no model but the first is asked for: what a job has there, all models read alike."""


def composed(model: str) -> dict[str, Any]:
    teacher = (
        ["model.teacher=builtin/mini_zh@2"] if model in ("distill", "distill_translations", "guided") else []
    )
    loss = f"loss={LOSSES.get(model, 'cosent')}"
    config = compose_job(f"model={model}", loss, "benchmark=none", "callbacks=[default,ema]", *teacher)
    names = [key for key in config if key not in ("name", "run_dir", "hydra")]
    return {
        key: OmegaConf.to_container(config[key], resolve=True)
        if OmegaConf.is_config(config[key])
        else config[key]
        for key in names
    }


def leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def changed(node: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    rest = path[1:]
    return {**node, path[0]: changed(node[path[0]], rest, value) if rest else another(value)}


def another(value: Any) -> Any:
    """A value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return 2 * value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value, "x"]
        case _:
            return {"x": {"name": "x"}} if isinstance(value, Mapping) else "x"


def is_read(key: str, job: Mapping[str, Any]) -> bool:
    """Whether the job, or who owns the key, says that it decides numbers."""
    group, *inner = key.split(".")
    if inner[-1:] == ["_target_"]:
        return False
    if group == "callbacks":
        return bool(job["callbacks"][inner[0]]["decides_weights"]) or inner[-1] == "decides_weights"
    if group in NOT_PART_OF_THE_RUN and key not in OF_HARDWARE:
        return False
    if key in CHANGES_NO_NUMBER:
        return False
    rules = [rule for pattern, rule in unread(job).items() if is_below(key, pattern)]
    return not rules or all(rule.instead is AS_IT_IS for rule in rules)


@pytest.mark.parametrize("model", sorted(kind.name for kind in all_settings().values()))
def test_the_key_of_a_run_changes_with_what_the_job_reads_and_with_nothing_else(model):
    job = composed(model)
    key = key_of_settings(deciding_settings(job))
    asked = 0
    for path, value in leaves(job):
        if path[0] in FOR_ALL_MODELS and model != "biencoder":
            continue
        other, name = changed(job, path, value), ".".join(path)
        assert (key_of_settings(deciding_settings(other)) != key) == is_read(name, job), name
        asked += 1
    assert asked > 60


RUNS = {
    "backbone.pooling=cls": ("biencoder", "crossencoder", "splade"),
    "backbone.normalize=true": ("crossencoder",),
    "training.share_sentences=false": ("crossencoder", "views"),
    "training.checkpoint_every=1 steps": ("biencoder",),
    "model.mean_span=4.0": ("mlm",),
    "model.repeat=0.5": ("views",),
    "loss.temperature=0.2": ("biencoder", "mlm"),
    "schedule.temperature=3": ("biencoder",),
    "backbone.dropout=0.3": ("biencoder",),
    "optimizer.weight_decay=0.5": ("biencoder",),
    "hardware.eval_batch_tokens=512": ("biencoder",),
}
"""Change of a key → models that it is tried with."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "model"), [(word, model) for word, models in RUNS.items() for model in models]
)
def test_some_number_of_a_short_run_changes_with_the_key_or_neither_does(
    word, model, tmp_path, tiny_backbone
):
    """The losses of the steps, and the scores in the end."""
    words = [f"model={model}", f"loss={LOSSES.get(model, 'cosent')}", "training.duration=2 steps"]
    words += ["logger.every_steps=1", "training.validate_every=2 steps"]
    found = []
    for name, extra in (("one", []), ("other", [word])):
        run = run_job(tmp_path / name, tiny_backbone, *words, *extra)
        result = Result.read(run)
        scores = {key: score.value for key, score in result.scores.items()}
        found.append((result.key, logged(run), scores))
    (key, losses, scores), (other_key, other_losses, other_scores) = found
    # Batches of other sizes round otherwise, which is no other number.
    is_same = losses == other_losses and other_scores == pytest.approx(scores, rel=1e-5, nan_ok=True)
    assert (key == other_key) == is_same
