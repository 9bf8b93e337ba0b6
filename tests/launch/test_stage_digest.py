"""What decides the weights of a stage, or the scores of weights, changes its digest, and nothing else does."""

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from jobs import tiny_encoder, typed_job

from conf.job import SetConfig
from datamodules.datamodule import Stage
from juzhen.core.examples import Examples, Kind
from juzhen.data.loading import JobData
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.evaluation.settings import EvaluationConfig
from launch import stage_store
from launch.stage_store import (
    ALREADY_IN_THE_START,
    evaluation_digest,
    examples_digest,
    stage_digest,
    start_digest,
)
from lightning_modules.loss_factory import match_losses

SETS = ("demo_sts", "demo_order")
WORDS = ("dataset=[demo_sts,demo_order]", "benchmark=none", "augmentation.views=[delete]")
LEARNED = {  # a value that the job of WORDS does not have
    "training": {
        "duration": "7 steps",
        "batch_size": 5,
        "share_sentences": False,
        "accumulate": 3,
        "length_window": 3,
        "stratify_by": "label",
        "validate_every": "3 steps",
        "patience": 9,
        "monitor": "dev/demo_order/spearman",
        "keep": "balanced",
    },
    "optimizer": {
        "lr": 0.5,
        "weight_decay": 0.5,
        "betas": [0.1, 0.2],
        "eps": 0.5,
        "warmup": "3 steps",
        "decay": "constant",
        "clip_norm": 7.0,
        "layer_decay": 0.5,
        "state_bits": 8,
    },
    "schedule": {"sample_by": "uniform", "temperature": 3.0},
    "augmentation": {"views": [], "probability": 0.7, "sets": ["demo_sts"], "delete": 0.7},
    "hardware": {"precision": "bf16-mixed", "compile": True},
}
SCORED = {
    "hardware": {
        "precision": "bf16-mixed",
        "compile": True,
        "accelerator": "cuda",
        "devices": 2,
        "eval_batch_tokens": 99,
    },
    "evaluation": {
        "bootstrap_samples": 7,
        "without_leaks": True,
        "splits": ["dev"],
        "limit": 5,
        "untrained": True,
        "backend": "torch_bf16",
        "cache_embeddings": True,
        "transfer": ["a"],
        "transfer_limit": 7,
        "rankings": ["mrr@7"],
        "clusterings": 7,
    },
}
FOR_NEITHER = {
    "hardware": {
        "threads": 3,
        "num_workers": 5,
        "num_nodes": 2,
        "strategy": "ddp",
        "micro_batch_tokens": 99,
        "gradient_checkpointing": True,
    },
    "logger": {"every_steps": 7},
}
NOT_LEARNED = {
    "hardware": {**FOR_NEITHER["hardware"], "accelerator": "cuda", "devices": 2, "eval_batch_tokens": 99},
    "training": {"checkpoint_every": "3 steps"},
    "augmentation": {"repeat": 0.7, "cutoff": 0.7, "shuffle": 9, "synonym": 0.7, "translations": "x"},
    "logger": FOR_NEITHER["logger"],
}
READ = {  # how the weights of a start are read
    "pooling": "cls",
    "attention": "causal",
    "normalize": True,
    "layer_norm": True,
    "max_length": 9,
    "prompts": {"a": "b"},
    "default_prompt_name": "a",
    "include_prompt": False,
    "dropout": 0.3,
    "layers": 1,
    "adapter": AdapterConfig(),
}
ADAPTERS = {"kind": "dora", "rank": 4, "alpha": 3.0, "dropout": 0.3, "targets": ["a"], "base": "bfloat16"}


@cache
def job_of(*words: str):
    return typed_job(*WORDS, *words)


def job_with(group: str, **values: Any):
    return replace(job_of(), **{group: replace(getattr(job_of(), group), **values)})


def each(table):
    values = [(group, key, value) for group, keys in table.items() for key, value in keys.items()]
    return pytest.mark.parametrize(("group", "key", "value"), values)


def rows(name: str = "a", split: str = "train", **changed) -> Examples:
    texts = {"text_a": ["一", "二", "三"], "text_b": ["四", "五", "六"]}
    targets = np.array([0.0, 0.5, 1.0], dtype=np.float32)
    given = Examples.from_texts(name, split, kind=Kind.SCORED_PAIR, texts=texts, targets=targets)
    return replace(given, **changed)


OTHER = np.array([1.0, 0.5, 1.0], dtype=np.float32)
DATA = JobData({name: rows(name) for name in SETS}, [rows(name, "dev") for name in SETS])


def digest(
    job=None, *, parent: str = "start", index: int = 0, data: JobData = DATA, sets=SETS, **changed: Any
) -> str:
    job = job or job_of()
    matches = {name: replace(one, **changed) for name, one in match_losses(job).items() if name in sets}
    return stage_digest(parent, Stage(index, "a", sets, sets), job, matches, data)


def scores_digest(job=None, data: JobData = DATA) -> str:
    return evaluation_digest(job or job_of(), data)


def test_every_key_is_asked():
    def keys(config: type) -> set[str]:
        return {field.name for field in fields(config)}

    for group in ("training", "optimizer", "augmentation", "hardware"):
        asked = LEARNED[group].keys() | NOT_LEARNED.get(group, {}).keys()
        assert asked == keys(type(getattr(job_of(), group))), group
    assert keys(EvaluationConfig) == SCORED["evaluation"].keys() | {"verdict"}
    assert keys(BackboneConfig) == READ.keys() | {*ALREADY_IN_THE_START}
    assert keys(AdapterConfig) == ADAPTERS.keys()


@each(LEARNED)
def test_what_decides_the_weights_changes_the_digest_of_the_stage(group, key, value):
    assert digest(job_with(group, **{key: value})) != digest()


@each(NOT_LEARNED)
def test_what_decides_no_weights_leaves_the_digest_of_the_stage(group, key, value):
    assert digest(job_with(group, **{key: value})) == digest()


def test_model_losses_callbacks_and_seed_change_the_digest_of_the_stage():
    words = ("model=crossencoder", "loss=angle", "loss.temperature=0.3", "callbacks=[default,ema]", "seed=7")
    found = [digest(job_of(word)) for word in words]
    found += [digest(job_of(words[3], "callbacks.ema.decay=0.5")), digest()]
    found.append(digest(replace(job_of(), model={**job_of().model, "score": "other"})))  # with its losses
    assert len({*found}) == len(found)
    assert digest(job_of("callbacks=[default,throughput]")) == digest()


def test_numbers_that_a_set_has_of_its_own_change_the_digest_of_the_stage():
    own = [{}, *({key: value} for key in ("batch_size", "loss_weight", "weight") for value in (3, 4))]
    found = [digest(job_with("schedule", sets={"demo_sts": SetConfig(**one)})) for one in own]
    found.append(digest(job_with("schedule", sets={"demo_sts": SetConfig(weight=3)}, weigh_loss=True)))
    assert len({*found}) == len(found)


def test_one_set_alone_is_sampled_in_one_way():
    alone = digest(sets=SETS[:1])
    assert digest(job_with("schedule", temperature=3.0), sets=SETS[:1]) == alone
    assert digest(job_with("schedule", sets={"demo_sts": SetConfig(batch_size=3)}), sets=SETS[:1]) != alone


def test_parent_place_and_rows_change_the_digest_of_the_stage():
    train = replace(DATA, train=DATA.train | {"demo_sts": rows(targets=OTHER)})
    selecting = replace(DATA, evaluation=[rows("demo_sts", "dev", targets=OTHER), DATA.evaluation[1]])
    found = [digest(), digest(parent="other"), digest(index=1), digest(data=train), digest(data=selecting)]
    found.append(digest(kind=Kind.LABELLED_PAIR))  # the same rows, read as another kind
    assert len({*found}) == len(found)
    assert digest(data=replace(DATA, evaluation=[*DATA.evaluation, rows("demo_sts", "test")])) == digest()


def test_versions_and_the_number_of_the_maths_change_both_digests(monkeypatch):
    def both(versions: str, maths: int):
        monkeypatch.setattr(stage_store, "version", lambda library: versions)
        monkeypatch.setattr(stage_store, "MATHS", maths)
        return digest(), scores_digest()

    assert both("2.0+cpu", 1) == both("2.0+cu130", 1)
    found = [*both("2.0", 1), *both("2.1", 1), *both("2.0", 2)]
    assert len({*found}) == 6


def test_each_part_of_rows_changes_their_digest():
    ranked = rows(kind=Kind.POSITIVE_PAIR)
    graded = replace(ranked, teacher_scores=np.ones((3, 2), dtype=np.float32))
    reverse = {column: places[::-1].copy() for column, places in rows().columns.items()}
    turned = dict(zip(reverse, reversed(rows().columns.values()), strict=True))
    parts = [
        *(rows(), ranked, graded, replace(graded, teacher_scores=2 * graded.teacher_scores)),
        *(rows(symmetric=True), rows(symmetric=False), rows(columns=reverse), rows(columns=turned)),
        *(rows(sentences=[*"一二三四五七"]), rows(targets=OTHER), rows(targets=None)),
    ]
    assert len({examples_digest(one) for one in parts}) == len(parts)
    assert examples_digest(rows("b", "dev")) == examples_digest(rows())


@each(SCORED)
def test_what_decides_scores_changes_the_digest_of_the_evaluation(group, key, value):
    assert scores_digest(job_with(group, **{key: value})) != scores_digest()


@each(FOR_NEITHER | {group: LEARNED[group] for group in ("training", "optimizer", "augmentation")})
def test_what_decides_no_scores_leaves_the_digest_of_the_evaluation(group, key, value):
    assert scores_digest(job_with(group, **{key: value})) == scores_digest()


def test_model_seed_and_sets_change_the_digest_of_the_evaluation():
    found = [scores_digest(), scores_digest(job_of("seed=7")), scores_digest(job_of("model=crossencoder"))]
    others = (DATA.evaluation[:1], DATA.evaluation[::-1], [rows("demo_sts", "test"), DATA.evaluation[1]])
    found += [scores_digest(data=replace(DATA, evaluation=other)) for other in others]
    assert len({*found}) == len(found)
    assert scores_digest(data=replace(DATA, train={})) == scores_digest(job_of("loss=angle")) == found[0]


def test_weights_and_how_they_are_read_change_the_digest_of_the_start(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone)
    first = start_digest(encoder, job_of())
    for key, value in READ.items():
        assert start_digest(encoder, job_with("backbone", **{key: value})) != first, key
    for key, value in {"name": "other", "path": "elsewhere", "initialize": "random"}.items():
        assert start_digest(encoder, job_with("backbone", **{key: value})) == first, key
    kinds = [AdapterConfig(), *(AdapterConfig(**{key: value}) for key, value in ADAPTERS.items())]
    assert len({start_digest(encoder, job_with("backbone", adapter=kind)) for kind in kinds}) == len(kinds)
    assert start_digest(None, job_of()) != first
    with torch.no_grad():
        next(encoder.parameters()).view(-1)[0] += 1
    assert start_digest(encoder, job_of()) != first
