"""model=cot in jobs: what a batch holds, what is refused, that it learns, and that what it leaves is the same."""

import json

import numpy as np
import pytest
import torch
from jobs import compose_job, forbid_reading, key_of, logged, module_of, run_job, typed_job
from omegaconf import OmegaConf

import train
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data import loading
from juzhen.encoders import load_backbone, load_encoder, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.prompts import Templates
from juzhen.encoders.sentence_encoder import PromptEncoder
from juzhen.identity import with_language
from launch.job import read_job
from lightning_modules.cot import CotEncoder, require_sight

STEADY = ("logger.every_steps=1", "seed=42", "evaluation.splits=[dev]", "training.monitor=auto")
FROM_NOTHING = "model.untrained_mask=true"
LOSS_OF = {
    "cot": "info_nce_pool",
    "cot_long": "info_nce_pool",
    "cot_published": "info_nce_extended",
    "cot_single": "info_nce",
    "simcse": "info_nce",
}


def job(*overrides):
    return typed_job("dataset=[demo_sts]", "benchmark=none", *overrides)


def test_a_batch_is_each_sentence_in_each_template(tiny_backbone):
    module = module_of(
        tiny_backbone, "model=cot", "model.language=zh", "loss=info_nce_pool", "cache_dir=null"
    )
    sentences = ["今天天气很好", "好"]
    rows = Examples("some", "train", Kind.SENTENCE, sentences, {"text": np.array([0, 1, 0], np.int32)}, None)
    batch = module.collate.training_batch(rows, np.array([0, 1, 2]), index=0)
    assert batch.kind is Kind.TRIPLET
    assert list(batch.columns) == ["anchor", "positive", "negative"]
    parts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    for view in ("anchor", "positive", "negative"):
        template = module.job.model["templates"]["zh"][view]
        for row, place in enumerate(batch.columns[view].tolist()):
            ids = parts[batch.tokens.inverse_permutation[place]].tolist()
            expected = module.encoder.tokenizer(template.replace("[X]", sentences[[0, 1, 0][row]]))[
                "input_ids"
            ]
            assert ids == expected
    texts = {view: batch.sentence_ids[places].tolist() for view, places in batch.columns.items()}
    assert all(ids[0] == ids[2] != ids[1] for ids in texts.values())
    assert len({ids[0] for ids in texts.values()}) == 3  # a negative is no copy of its anchor
    assert module.collate.lengths(rows)[0] == len(parts[batch.tokens.inverse_permutation[0]])


@pytest.mark.parametrize(("model", "loss"), LOSS_OF.items())
@pytest.mark.slow
def test_every_configuration_trains(model, loss, tmp_path, tiny_backbone):
    words = (
        f"model={model}",
        f"loss={loss}",
        FROM_NOTHING,
        "training.duration=6 steps",
        "training.batch_size=16",
    )
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words)
    losses = logged(run)
    assert len(losses) == 6
    assert all(np.isfinite(losses))
    training = Result.read(run).training
    assert training["seconds_per_step"] > 0
    assert training["peak_memory_mib"] > 50
    if model == "cot":
        assert all(value > 0 for value in logged(run, "train/demo_sts/injected_norm_ratio"))


@pytest.mark.slow
def test_two_stages_learn_to_tell_sentences_apart(tmp_path, tiny_backbone):
    """From random weights it takes a while until the second stage sees anything of the first."""
    words = ("model=cot", "loss=info_nce_pool", FROM_NOTHING, "training.duration=150 steps")
    steady = ("optimizer.lr=1e-2", "backbone.dropout=0.0", "training.patience=null")
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words, *steady, "training.validate_every=150 steps")
    losses = logged(run)
    assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])


@pytest.mark.slow
def test_what_a_run_leaves_encodes_the_same_and_can_be_learnt_from_on(tmp_path, tiny_backbone):
    words = ("model=cot", "loss=info_nce_pool", FROM_NOTHING, "training.duration=2 steps")
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words)
    own = json.loads((run / "encoder" / "juzhen.json").read_text())
    assert own["prompts"]["anchor"] == "“[X]”这句话的意思是[MASK]。"
    assert isinstance(load_encoder(run), PromptEncoder)
    again = run_job(
        tmp_path,
        tiny_backbone,
        "model=biencoder",
        "dataset=[]",
        "benchmark=demo",
        f"init_from={run}",
        "debug_rows=48",
    )
    # With other templates in the command the folder's are read all the same, and in whichever language.
    single = ("model=cot_single", "dataset=[]", "benchmark=demo", f"init_from={run}", "debug_rows=48")
    with_others = run_job(tmp_path, tiny_backbone, *single, "model.language=en", "loss=info_nce")
    for other in (again, with_others):
        first, second = (Result.read(one).scores["dev/demo_sts/spearman"].value for one in (run, other))
        assert first == pytest.approx(second, abs=1e-6)
    assert load_encoder(run).score("今天天气很好", "今天天气很好") == pytest.approx(1)


@pytest.fixture(scope="module")
def no_layers(tiny_backbone, tmp_path_factory):
    """The folder of an encoder of token embeddings alone; positions add nothing."""
    bare = load_backbone(BackboneConfig(path=str(tiny_backbone), initialize="random", layers=0), seed=0)
    torch.nn.init.zeros_(bare.backbone.embeddings.position_embeddings.weight)
    return save_encoder(bare, tmp_path_factory.mktemp("bare") / "no_layers", card={})


def under_one_new_layer(folder):
    """The encoder under a layer that begins by changing nothing."""
    return PromptEncoder.around(
        load_backbone(BackboneConfig(path=str(folder), initialize="pretrained", layers=1), seed=0),
        Templates(anchor="“[X]”这句话的意思是[MASK]。"),
    )


def test_a_mask_that_sees_nothing_is_refused_and_one_that_does_is_not(no_layers):
    with pytest.raises(UserError, match=r"mean cosine 1.00000 .*model=mlm.*init_from=.*pretrained"):
        require_sight(under_one_new_layer(no_layers), "somewhere")
    seeing = under_one_new_layer(no_layers)
    layer = seeing.backbone.encoder.layer[0]
    with torch.no_grad():
        torch.nn.init.normal_(layer.attention.output.dense.weight, std=1.0)
    require_sight(seeing, "somewhere")
    assert seeing.training


@pytest.mark.parametrize(
    ("model", "start"),
    [
        ("cot_single", ["backbone=mini_zh"]),
        ("cot_single", ["backbone=random_small", FROM_NOTHING]),
        ("simcse", ["backbone=mini_zh"]),
        ("simcse", ["backbone=random_small"]),
    ],
)
@pytest.mark.sampled(3)
def test_a_start_that_can_be_learnt_from_reads_rows(model, start, tmp_path, monkeypatch):
    class ReadError(Exception):
        pass

    def read(*given, **options):
        raise ReadError

    forbid_reading(monkeypatch)
    monkeypatch.setattr(loading, "load_examples", read)
    words = ("loss=info_nce_pool", *start, f"output_dir={tmp_path}", "benchmark=none")
    with pytest.raises(ReadError):
        train.run_job(compose_job(f"model={model}", *words))


def with_sets(**languages):
    """A job that learns from sets of these languages, as far as naming and templates are concerned."""
    model = OmegaConf.to_container(OmegaConf.load(train.CONFIGURATION / "model" / "cot.yaml"))
    return {"model": model, "dataset": {name: {"language": one} for name, one in languages.items()}}


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        ({"a": "zh"}, "zh"),
        ({"a": "en", "b": "en"}, "en"),
        ({"a": "en", "b": "zh"}, None),
        ({"a": "en-zh"}, None),
    ],
)
def test_templates_are_in_the_language_of_the_sets(languages, expected):
    config = with_sets(**languages)
    assert with_language(config)["language"] == expected
    evaluated = {"model": config["model"], "dataset": {}, "evaluate": config["dataset"]}
    assert with_language(evaluated)["language"] == expected
    assert with_language({**config, "model": config["model"] | {"language": "en"}})["language"] == "en"
    same = {language: {"anchor": "[X]", "negative": language} for language in ("zh", "en")}
    plain = config["model"] | {"templates": same, "use_negative": False}
    assert with_language({**config, "model": plain})["language"] is not None


def test_a_language_that_is_the_sets_own_makes_no_other_run():
    words = ("model=cot", "loss=info_nce_pool", "dataset=[demo_sts]")
    assert key_of(*words) == key_of(*words, "model.language=zh")


def test_sets_of_two_languages_are_read_in_one():
    words = ("model=cot", "dataset=[demo_sts,wiki1m]", "benchmark=none")
    assert read_job(compose_job(*words, "model.language=zh")).model["language"] == "zh"
    assert read_job(compose_job("model=simcse", *words[1:])).model["read"] == "pooling"


def test_sets_in_another_language_than_the_templates_are_told_of(caplog):
    told = job(
        "model=cot",
        "loss=info_nce_pool",
        "model.language=en",
        "benchmark=demo",
        FROM_NOTHING,
        "backbone=random_small",
    )
    CotEncoder.check_start(told)
    assert "demo_qmc, demo_order, demo_nli are in another language" in caplog.text
