"""The built-in encoder: small, open to transformers alone, without unknown tokens, the same for both scripts."""

import json
import random
import re
import time
import unicodedata

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModel, AutoTokenizer

from juzhen import SentenceEncoder
from juzhen.core.paths import newest
from juzhen.core.schema import validated
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig
from juzhen.encoders import load_backbone, load_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.metrics.correlation import spearman
from tools.archives import unpacked

PAGE = "distill/mini_zh"
TEXTS = ["我想知道怎么还款", "怎么还花呗", "今天天气很好", "我養貓", "ＡＢＣ", "𪚥龘靐"]


@pytest.fixture(scope="module")
def folder(project_root):
    return project_root / "juzhen" / "builtin" / "mini_zh@2"


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh")


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
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 16e6
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
    assert (described.initialize, described.path) == ("pretrained", newest("builtin/mini_zh"))
    assert newest("builtin/mini_zh") == "builtin/mini_zh@2"


def test_both_scripts_and_widths_are_one(encoder):
    pairs = [
        ("我養貓", "我养猫"),
        ("頭髮發現", "头发发现"),
        ("怎麼退貨", "怎么退货"),
        ("ＩＰＨＯＮＥ１５", "IPHONE15"),
    ]
    assert encoder.score(pairs) == pytest.approx(1, abs=1e-6)


def test_other_characters_are_other_vectors(encoder):
    pairs = [("我養貓", "我養馬"), ("怎麼買賣", "怎麼開關"), ("皖是哪个省会的简称", "滇是哪个省会的简称")]
    assert max(encoder.score(pairs)) < 0.999


def test_no_token_of_random_strings_is_unknown_and_none_are_equal(encoder):
    draw = random.Random(0)
    assigned = [
        chr(number) for number in range(0x21, 0x30000) if unicodedata.category(chr(number))[0] not in "CZ"
    ]
    texts = ["".join(draw.choices(assigned, k=draw.randint(1, 6))) for _ in range(3_000)]
    normalize = encoder.tokenizer.backend_tokenizer.normalizer.normalize_str
    distinct = list({normalize(text): text for text in texts if normalize(text)}.values())
    ids = [tuple(row) for row in encoder.tokenizer(distinct)["input_ids"]]
    assert len(set(ids)) == len(distinct) > 2_500
    assert not any(encoder.tokenizer.unk_token_id in row for row in ids)


@pytest.mark.slow
def test_it_knows_more_than_random_weights(project_root):
    pretrained = load_backbone(settings(project_root), seed=1)
    random = load_backbone(settings(project_root, initialize="random"), seed=1)
    assert zero_shot(pretrained, project_root) > zero_shot(random, project_root) + 0.1


@pytest.mark.parametrize(("revision", "results"), [(1, "mini_zh"), (2, "mini_zh_2")])
def test_a_card_says_what_was_measured(revision, results, project_root):
    folder = project_root / "juzhen" / "builtin" / f"mini_zh@{revision}"
    measured = project_root / "results" / "distill" / results / "zero_shot.json"
    scores = json.loads(measured.read_text(encoding="utf-8"))["scores"]
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
