"""The built-in encoder: small, open to transformers alone, better than chance; its card says what was measured."""

import json
import re
import time

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModel, AutoTokenizer

from juzhen.core.schema import validated
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig
from juzhen.encoders import load_backbone, load_encoder
from juzhen.encoders.spec import BackboneConfig
from juzhen.metrics.correlation import spearman
from tools.archives import unpacked

PAGE = "distill/mini_zh"
TEXTS = ["我想知道怎么还款", "怎么还花呗", "今天天气很好"]


@pytest.fixture(scope="module")
def folder(project_root):
    return project_root / "juzhen" / "builtin" / "mini_zh"


def settings(project_root, **more):
    described = OmegaConf.load(project_root / "conf" / "backbone" / "mini_zh.yaml")
    return BackboneConfig(**{**described, **more})


def zero_shot(encoder, project_root):
    """Spearman of 200 dev pairs of demo_sts."""
    described = OmegaConf.load(project_root / "conf" / "dataset" / "demo_sts.yaml")
    config = validated(DatasetConfig, OmegaConf.to_container(described))
    rows = load_examples(config, "dev", source="local", data_dir="data", on_bad_row="error")
    rows = rows.select(np.arange(200))
    pairs = [
        encoder.encode(rows.texts(column), batch_tokens=4096, show_progress=False)
        for column in ("text_a", "text_b")
    ]
    first, second = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in pairs)
    return spearman((first * second).sum(axis=1), rows.targets)


def test_it_is_small_and_loads_quickly(folder):
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 12e6
    load_encoder(folder)
    began = time.thread_time()  # a busy machine is not its doing
    load_encoder(folder)
    assert time.thread_time() - began < 1


def test_transformers_alone_gives_the_same_embeddings(folder, project_root):
    encoder = load_backbone(settings(project_root), seed=0).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    expected = ((states * mask).sum(1) / mask.sum(1)).numpy()
    np.testing.assert_allclose(
        encoder.encode(TEXTS, batch_tokens=100, show_progress=False), expected, rtol=1e-4, atol=1e-5
    )


def test_the_default_backbone_is_the_pretrained_one(project_root):
    train = (project_root / "conf" / "train.yaml").read_text(encoding="utf-8")
    assert re.search(r"^  - backbone: mini_zh ", train, flags=re.MULTILINE)
    described = settings(project_root)
    assert (described.initialize, described.path) == ("pretrained", "builtin/mini_zh")


@pytest.mark.slow
def test_it_knows_more_than_random_weights(project_root):
    pretrained = load_backbone(settings(project_root), seed=1)
    random = load_backbone(settings(project_root, initialize="random"), seed=1)
    assert zero_shot(pretrained, project_root) > zero_shot(random, project_root) + 0.1


def test_the_card_says_what_was_measured(folder, project_root):
    path = project_root / "results" / PAGE / "zero_shot.json"
    scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \[", card, flags=re.MULTILINE))
    assert {"csts", "lcqmc", "bq", "afqmc", "xiaobu"} <= rows.keys()
    for name, shown in rows.items():
        assert shown == f"{100 * scores[f'dev/{name}/spearman']['value']:.1f}", name


def test_no_evaluation_sentence_was_learnt_from(project_root):
    report, result = (
        json.loads((folder / PAGE / name).read_text(encoding="utf-8"))
        for folder, name in ((project_root / "results", "text.json"), (unpacked(), "result.json"))
    )
    learnt = {key for key in result["data"] if key.startswith("train/")}
    assert {f"train/{name}" for name in report["texts"]} == learnt
    assert len(report["evaluation"]) >= 20
    assert all(text["leaky_lines"] == 0 for text in report["texts"].values())
