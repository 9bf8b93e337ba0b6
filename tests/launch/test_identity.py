"""A key of a job is in the key of its run exactly if the job reads it: every model, every key of its composition."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jobs import compose_job, logged, run_job
from omegaconf import OmegaConf

from juzhen.core.result import Result
from juzhen.identity import (
    NOT_PART_OF_THE_RUN,
    deciding_augmentation,
    deciding_settings,
    is_below,
    key_of_settings,
    unread,
    why_unread,
    with_language,
)
from juzhen.models import all_settings
from juzhen.models.settings import AS_IT_IS, GONE
from juzhen.report.row_identity import identify
from tools.archives import unpacked
from tools.same import RECORD, differences, keys

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
    *("training.checkpoint_every", "model.untrained_mask", "evaluation.verdict"),
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


def test_keys_and_rows_of_committed_results_are_as_recorded():
    """Some hundred jobs of all kinds. After a wanted change: python -m tools.same --record --only keys"""
    assert [*differences(json.loads((RECORD / "keys.json").read_text(encoding="utf-8")), keys())] == []


@pytest.mark.parametrize("model", sorted(kind.name for kind in all_settings().values()))
def test_what_replaces_an_unread_key_is_its_usual_value(model):
    """So that a run has the key that it had before the job could say so."""
    job = composed(model)
    usual = {".".join(path): value for path, value in leaves(job)}
    for pattern, rule in unread(job).items():
        if rule.instead not in (GONE, AS_IT_IS):
            assert {usual[key] for key in usual if is_below(key, pattern)} <= {rule.instead}, pattern


def test_unread_keys_of_a_stage_are_those_of_the_job_but_for_what_it_overrides():
    learning = {"temperature": 0.1}
    sets = {name: {"kind": "triplet", "learning": learning} for name in ("a", "b")}
    stages = {name: {"training": {"batch_size": 4}} for name in sets}
    schedule = {"name": "serial", "order": None, "stages": stages, "sets": {}}
    loss = {"_target_": "juzhen.losses.in_batch_negatives.InfoNCE", "name": "info_nce", "temperature": 0.05}
    job = {**composed("biencoder"), "dataset": sets, "schedule": schedule, "loss": loss}
    keys = ("loss.temperature", "training.batch_size", "training.duration", "optimizer.lr")
    assert [bool(why_unread(key, job)) for key in keys] == [True, True, False, False]
    for owner in ("stages", "sets"):
        found = [bool(why_unread(f"schedule.{owner}.a.{key}", job)) for key in keys]
        assert found == [True, False, False, False]
    for own, expected in (
        ({"a": {"batch_size": 2}}, False),
        ({name: {"batch_size": 2} for name in sets}, True),
    ):
        for stages_of in ({}, stages):
            one = {**job, "schedule": {**schedule, "stages": stages_of, "sets": own}}
            assert bool(why_unread("training.batch_size", one)) == (expected or bool(stages_of))
            assert bool(why_unread("schedule.stages.a.training.batch_size", one)) == bool(stages_of)
            assert bool(why_unread("schedule.stages.b.training.batch_size", one)) == (
                expected and bool(stages_of)
            )


def test_the_source_of_a_job_is_unread_where_every_set_has_its_own():
    own, none = {"kind": "triplet", "source": "builtin"}, {"kind": "triplet", "source": None}
    for dataset, evaluate, transfer, expected in (
        ({"a": own}, {"b": own}, None, True),
        ({"a": own}, {"b": none}, None, False),
        ({"a": none}, {"b": own}, None, False),
        ({"a": own}, {"b": own}, ["tnews"], False),
    ):
        job = {"model": {"name": "biencoder"}, "dataset": dataset, "evaluate": evaluate}
        job["evaluation"] = {"transfer": transfer}
        assert bool(why_unread("source", job)) == expected


def test_a_file_of_translations_and_the_weights_of_a_start_count_by_their_content(tmp_path):
    (tmp_path / "one.tsv").write_text("今天\ttoday\n", encoding="utf-8")
    (tmp_path / "copy.tsv").write_text("今天\ttoday\n", encoding="utf-8")
    (tmp_path / "other.tsv").write_text("今天\tnow\n", encoding="utf-8")
    digests = [
        deciding_augmentation({"views": ["translation"], "translations": str(tmp_path / name)})
        for name in ("one.tsv", "copy.tsv", "other.tsv", "absent.tsv")
    ]
    assert digests[0] == digests[1]
    assert digests[3]["translations"] == str(tmp_path / "absent.tsv")
    assert len({str(one) for one in digests}) == 3

    def start(folder: Path) -> str:
        return deciding_settings({**composed("biencoder"), "init_from": str(folder)})["init_from"]

    weights = tmp_path / "encoder" / "model.safetensors"
    weights.parent.mkdir()
    assert start(weights.parent) == str(weights.parent)
    weights.write_bytes(b"weights")
    alone = hashlib.sha256(b"weights").hexdigest()
    assert start(weights.parent) == start(tmp_path) == alone
    (weights.parent / "head.safetensors").write_bytes(b"head")
    with_head = start(tmp_path)
    (weights.parent / "head.safetensors").write_bytes(b"another head")
    assert len({alone, with_head, start(tmp_path)}) == 3


def test_the_language_of_a_job_is_that_of_its_sets_where_they_agree():
    zh, en = ({"anchor": f"{word} [X]", "negative": f"{word} not [X]"} for word in ("说", "says"))
    templates = {"zh": zh, "en": en, "like_zh": {**zh, "negative": "other"}}

    def language(*languages: str | None, **model: Any) -> str | None:
        sets = {str(number): {"language": one} for number, one in enumerate(languages)}
        return with_language({"model": {"language": None, "templates": templates} | model, "dataset": sets})[
            "language"
        ]

    assert [language("zh"), language("zh", "zh"), language("fr", "en")] == ["zh", "zh", "en"]
    assert [language(), language("fr"), language(None), language("zh", "en"), language("zh-en")] == [None] * 5
    assert language("zh", "like_zh") == "zh"
    assert language("zh", "like_zh", use_negative=True) is None
    assert language("zh", language="en") == "en"
    assert "language" not in with_language({"model": {}})


def test_the_layout_and_the_limit_of_a_set_make_the_row_and_what_describes_it_does_not():
    path = min((unpacked() / "losses" / "runs").rglob("result.json"))

    def row(**changes: Any) -> Any:
        result = Result.read(path)
        (name,) = [*result.config["dataset"]][:1]
        result.config["dataset"][name] |= changes
        return identify(result, before_training=False)

    layouts = {"tsv": {"files": "a"}, "jsonl": {"files": "b"}}
    usual = row(layout="tsv", layouts=layouts)
    assert row(layout="tsv", layouts=layouts | {"jsonl": {"files": "c"}}, about="other") == usual
    assert row(layout="tsv", layouts=layouts | {"tsv": {"files": "c"}}) != usual
    assert row(layout="tsv", layouts=layouts, limit=7) != usual
    assert row(layout="hub", layouts=layouts) != usual


def test_a_number_that_losses_of_before_lacked_is_in_a_key_where_it_changes_something():
    job = composed("guided")
    before = job | {"loss": {key: one for key, one in job["loss"].items() if key != "relative_margin"}}
    other = changed(job, ("loss", "relative_margin"), 0)
    keys_of = [key_of_settings(deciding_settings(each)) for each in (job, before, other)]
    assert keys_of[0] == keys_of[1] != keys_of[2]
