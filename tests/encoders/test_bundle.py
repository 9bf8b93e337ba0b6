import json
import os

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from juzhen.core.paths import BUILTIN
from juzhen.encoders import load_encoder, save_encoder
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.projection import BilinearScore, Projection

TEXTS = ["今天天气很好吗", "我", "你他们是的在不了有和人"]
CARD = {
    "name": "试验",
    "trained_on": ["csts", "lcqmc"],
    "seed": 7,
    "spearman": {"test/csts/spearman": 0.81234},
}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_round_trip_is_exact(bert_folder, load, tmp_path, pooling, normalize):
    encoder = load(bert_folder, pooling=pooling, normalize=normalize, max_length=8)
    with torch.no_grad():  # not what the original folder holds
        for weight in encoder.parameters():
            weight.add_(0.01)
    saved = save_encoder(encoder, tmp_path / "bundle", card=CARD)
    again = load_encoder(saved)
    assert (again.pooling, again.normalize, again.max_length) == (pooling, normalize, 8)
    assert again.state_dict().keys() == encoder.state_dict().keys()
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in encoder.state_dict().items())
    assert again.tokenize(TEXTS) == encoder.tokenize(TEXTS)
    for texts in (TEXTS, TEXTS * 2):
        first, second = (one.encode(texts, batch_tokens=64, show_progress=False) for one in (encoder, again))
        assert first.tobytes() == second.tobytes()


def test_every_architecture_survives(any_folder, load, tmp_path):
    encoder = load(any_folder)
    again = load_encoder(save_encoder(encoder, tmp_path / "bundle", card={}))
    first, second = (one.encode(TEXTS, batch_tokens=64, show_progress=False) for one in (encoder, again))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("pooling", ["mean", "first_last"])
def test_a_layer_norm_is_last_but_for_the_length_and_survives(bert_folder, load, tmp_path, pooling):
    plain = load(bert_folder, pooling=pooling, normalize=True, max_length=8).eval()
    encoder = load(bert_folder, pooling=pooling, normalize=True, max_length=8, layer_norm=True).eval()
    (norm,) = encoder.projections
    with torch.no_grad():
        norm.norm.weight.copy_(torch.linspace(0.5, 2, 32))
        norm.norm.bias.copy_(torch.linspace(-1, 1, 32))
        plain.normalize = False
        tokens = plain.collate(plain.tokenize(TEXTS))
        pooled = plain(tokens).double()
        centred = pooled - pooled.mean(dim=1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        expected = scaled * norm.norm.weight + norm.norm.bias
        found = encoder(tokens)
    torch.testing.assert_close(found, nn.functional.normalize(expected).float(), rtol=1e-5, atol=1e-6)
    saved = save_encoder(encoder, tmp_path / "bundle", card=CARD)
    place = {"mean": "2_LayerNorm", "first_last": "3_LayerNorm"}[pooling]
    assert (saved / place / "model.safetensors").is_file()
    again = load_encoder(saved)
    first, second = (one.encode(TEXTS, batch_tokens=64, show_progress=False) for one in (encoder, again))
    assert first.tobytes() == second.tobytes()
    # What the folder says can be gone against, and is not said twice.
    assert len(load(saved, layer_norm=True).projections) == 1
    assert not load(saved, layer_norm=False).projections


def test_the_tokenizer_goes_by_a_name_that_transformers_4_knows_as_well(load, tmp_path):
    saved = save_encoder(load(BUILTIN / "mini_zh@2"), tmp_path / "saved", card={})
    settings = json.loads((saved / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_projections_survive(bert_folder, load, tmp_path):
    encoder = load(bert_folder, pooling="first_last", normalize=True)
    for number, pooling in enumerate(("first_last", "mean")):
        layer = Projection(32, 5, bias=False, activation="torch.nn.modules.linear.Identity")
        encoder.pooling, encoder.projections = pooling, nn.ModuleList([layer])
        again = load_encoder(save_encoder(encoder, tmp_path / str(number), card={}))
        assert (again.dim, again.normalize, again.pooling) == (5, True, pooling)
        first, second = (one.encode(TEXTS, batch_tokens=64, show_progress=False) for one in (encoder, again))
        assert first.tobytes() == second.tobytes()


def test_the_layout_is_sentence_transformers(bert_folder, load, tmp_path):
    folder = save_encoder(load(bert_folder, pooling="weighted", normalize=True), tmp_path / "b", card=CARD)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert [(module["path"], module["type"].rpartition(".")[2]) for module in modules] == [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        ("2_Normalize", "Normalize"),
    ]
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    assert [name for name, value in pooling.items() if value is True] == ["pooling_mode_weightedmean_tokens"]
    assert not (folder / "juzhen.json").exists()
    assert not list(folder.rglob("*.bin"))


def test_first_last_is_written_as_the_mean_of_weighted_layers(bert_folder, load, tmp_path):
    folder = save_encoder(load(bert_folder, pooling="first_last"), tmp_path / "b", card=CARD)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "WeightedLayerPooling", "Pooling"]
    assert load_file(folder / modules[1]["path"] / "model.safetensors")["layer_weights"].tolist() == [1, 1]


def test_what_others_cannot_compute_is_not_passed_off_as_something_else(bert_folder, load, tmp_path):
    encoder = load(bert_folder)
    encoder.score_head = BilinearScore(32)
    folder = save_encoder(encoder, tmp_path / "b", card=CARD)
    assert (
        json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["type"]
        == "juzhen.SentenceEncoder"
    )
    assert not (folder / "1_Pooling").exists()
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "stops at the `modules.json`" in card
    assert "library_name" not in card
    assert load_encoder(folder).score_head is not None


def test_the_card_states_the_facts(bert_folder, load, tmp_path):
    folder = save_encoder(load(bert_folder), tmp_path / "b", card=CARD)
    card = (folder / "README.md").read_text(encoding="utf-8")
    for line in (
        "# 试验",
        "| trained on | csts, lcqmc |",
        "| pooling | mean |",
        "| test/csts/spearman | 0.8123 |",
    ):
        assert line in card


def test_equal_encoders_give_equal_files(bert_folder, load, tmp_path):
    encoder = load(bert_folder, max_length=20)
    first = contents(save_encoder(encoder, tmp_path / "a", card=CARD))
    encoder.encode(TEXTS, batch_tokens=64, show_progress=False)
    assert contents(save_encoder(encoder, tmp_path / "b", card=CARD)) == first
    assert contents(save_encoder(load_encoder(tmp_path / "a"), tmp_path / "c", card=CARD)) == first
    assert str(tmp_path) not in "".join(raw.decode("utf-8", "ignore") for raw in first.values())


def test_saving_again_replaces_the_folder(bert_folder, load, tmp_path):
    save_encoder(load(bert_folder, normalize=True), tmp_path / "b", card=CARD)
    save_encoder(load(bert_folder, pooling="first_last"), tmp_path / "b", card=CARD)
    assert load_encoder(tmp_path / "b").pooling == "first_last"
    assert not (tmp_path / "b" / "2_Normalize").exists()
    assert os.listdir(tmp_path) == ["b"]


def test_a_failure_leaves_the_old_encoder_and_no_rubbish(bert_folder, load, tmp_path, monkeypatch):
    encoder = load(bert_folder)
    before = contents(save_encoder(encoder, tmp_path / "b", card=CARD))
    monkeypatch.setattr(encoder.tokenizer, "save_pretrained", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_encoder(encoder, tmp_path / "b", card=CARD)
    assert contents(tmp_path / "b") == before
    assert os.listdir(tmp_path) == ["b"]


def test_a_run_folder_stands_for_its_encoder(bert_folder, load, tmp_path):
    encoder = load(bert_folder, pooling="cls")
    save_encoder(encoder, tmp_path / "run" / "encoder", card=CARD)
    assert load_encoder(tmp_path / "run").pooling == "cls"
    assert load_encoder(bert_folder).pooling == "mean"
