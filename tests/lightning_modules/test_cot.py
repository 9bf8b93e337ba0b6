"""model=cot in jobs: what a batch holds, what is refused, that it learns, and that what it leaves is the same."""

import csv
import json

import numpy as np
import pytest
import torch
from jobs import compose_job, run_job
from omegaconf import OmegaConf

import predict
from encoders import load_encoder
from encoders.prompt_encoder import PromptEncoder
from launch import typed_config
from lightning_modules.cot import CotEncoder
from lightning_modules.matching import match_losses
from schema.errors import UserError
from schema.examples import Examples, Kind
from schema.result import Result

STEADY = ("logger.every_steps=1", "seed=42", "evaluation.splits=[dev]", "training.monitor=auto")
LOSS_OF = {
    "cot": "info_nce_pool",
    "cot_long": "info_nce_pool",
    "cot_published": "info_nce_extended",
    "cot_single": "info_nce",
    "simcse": "info_nce",
}


def job(*overrides):
    return OmegaConf.to_object(typed_config(compose_job("dataset=[demo_sts]", "suite=none", *overrides)))


def logged(run, name):
    with (run / "metrics" / "0" / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


def test_a_batch_is_each_sentence_in_each_template(tiny_backbone):
    config = job(
        "model=cot",
        "model.language=zh",
        "loss=info_nce_pool",
        "backbone=embedded",
        f"backbone.path={tiny_backbone}",
        "cache_dir=null",
    )
    encoder = CotEncoder.load_encoder(config)
    numbers = {name: value for name, value in config.model.items() if name != "_target_"}
    module = CotEncoder(
        **numbers, encoder=encoder, losses=torch.nn.ModuleDict(), job=config, total_steps=0, steps_per_epoch=0
    )
    sentences = ["今天天气很好", "好"]
    rows = Examples("some", "train", Kind.SENTENCE, sentences, {"text": np.array([0, 1, 0], np.int32)}, None)
    batch = module.collate.training_batch(rows, np.array([0, 1, 2]), index=0)
    assert batch.kind is Kind.TRIPLET
    assert list(batch.columns) == ["anchor", "positive", "negative"]
    parts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    for view in ("anchor", "positive", "negative"):
        template = config.model["templates"]["zh"][view]
        for row, place in enumerate(batch.columns[view].tolist()):
            ids = parts[batch.tokens.restored[place]].tolist()
            expected = encoder.tokenizer(template.replace("[X]", sentences[[0, 1, 0][row]]))["input_ids"]
            assert ids == expected
    texts = {view: batch.sentence_ids[places].tolist() for view, places in batch.columns.items()}
    assert all(ids[0] == ids[2] != ids[1] for ids in texts.values())
    assert len({ids[0] for ids in texts.values()}) == 3  # a negative is no copy of its anchor
    assert module.collate.lengths(rows)[0] == len(parts[batch.tokens.restored[0]])


@pytest.mark.parametrize(("model", "loss"), LOSS_OF.items())
def test_every_configuration_trains(model, loss, tmp_path, tiny_backbone):
    words = (
        f"model={model}",
        f"loss={loss}",
        "model.language=zh",
        "training.duration=6 steps",
        "training.batch_size=16",
    )
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words)
    losses = logged(run, "train/loss")
    assert len(losses) == 6
    assert all(np.isfinite(losses))
    training = Result.read(run).training
    assert training["seconds_per_step"] > 0
    assert training["peak_memory_mib"] > 50
    if model == "cot":
        assert all(value > 0 for value in logged(run, "train/demo_sts/injected_norm_ratio"))


def test_two_stages_learn_to_tell_sentences_apart(tmp_path, tiny_backbone):
    """From random weights it takes a while until the second stage sees anything of the first."""
    words = ("model=cot", "loss=info_nce_pool", "model.language=zh", "training.duration=150 steps")
    steady = ("optimiser.lr=1e-2", "backbone.dropout=0.0", "training.patience=null")
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words, *steady, "training.validate_every=150 steps")
    losses = logged(run, "train/loss")
    assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])


def test_what_a_run_leaves_encodes_the_same_and_can_be_learnt_from_on(tmp_path, tiny_backbone, capsys):
    words = ("model=cot", "loss=info_nce_pool", "model.language=zh", "training.duration=2 steps")
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words)
    own = json.loads((run / "encoder" / "juzhen.json").read_text())
    assert own["prompts"]["anchor"] == "“[X]”这句话的意思是[MASK]。"
    assert isinstance(load_encoder(run), PromptEncoder)
    again = run_job(
        tmp_path,
        tiny_backbone,
        "model=biencoder",
        "dataset=[]",
        "suite=demo",
        f"init_from={run}",
        "debug_rows=48",
    )
    first, second = (Result.read(one).scores["dev/demo_sts/spearman"].value for one in (run, again))
    assert first == pytest.approx(second, abs=1e-6)
    capsys.readouterr()
    assert predict.main([str(run), "今天天气很好", "今天天气很好"]) == 0
    assert capsys.readouterr().out.strip() == "1.0000"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("loss=cosent",), "info_nce_pool"),
        (("loss=triplet",), "positive pairs"),
        (("loss=info_nce", "model.language=fr"), "model.language=fr"),
        (("loss=info_nce", "model.templates.en.anchor=no"), r"expected one \[X\]"),
        (("loss=info_nce", "+model.templates.en.anchr=no"), "did you mean anchor"),
        (("loss=info_nce", "model.templates.en.positive=null"), "template for the positive"),
    ],
)
def test_mistakes_are_named_before_anything_is_read(overrides, message):
    with pytest.raises(UserError, match=message):
        match_losses(job("model=cot", *overrides))
