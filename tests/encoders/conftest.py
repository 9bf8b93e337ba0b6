"""Tiny random encoders as folders, one per architecture that behaves differently."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from juzhen.encoders import SentenceEncoder, load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from tools.build_vocabulary import tokenizer, tokenizer_config

WORDS = list("今天气很好吗我你他们是的在不了有和人这中大为上个国说要就出会也时年得")
SIZES = {"hidden": 32, "layers": 2, "heads": 2, "inner": 64, "positions": 32}


def write_bert_tokenizer(folder: Path) -> int:
    """A character tokenizer like the built-in one, but small; gives its size."""
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefg",
        *(f"##{x}" for x in "abcdefg"),
        *WORDS,
    ]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(tokens)), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer_config() | {"model_max_length": SIZES["positions"]}), encoding="utf-8"
    )
    return len(tokens)


def write_bert(folder: Path) -> Path:
    config = BertConfig(
        vocab_size=write_bert_tokenizer(folder),
        hidden_size=SIZES["hidden"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        intermediate_size=SIZES["inner"],
        max_position_embeddings=SIZES["positions"],
        initializer_range=0.5,  # large, so that sentences differ clearly
    )
    BertModel(config).save_pretrained(folder)  # with a pooler, as published checkpoints have
    return folder


def write_distilbert(folder: Path) -> Path:
    config = DistilBertConfig(
        vocab_size=write_bert_tokenizer(folder),
        dim=SIZES["hidden"],
        n_layers=SIZES["layers"],
        n_heads=SIZES["heads"],
        hidden_dim=SIZES["inner"],
        max_position_embeddings=SIZES["positions"],
        initializer_range=0.5,
    )
    DistilBertModel(config).save_pretrained(folder)
    return folder


def write_roberta(folder: Path) -> Path:
    """RoBERTa's conventions: <s> 0, <pad> 1, </s> 2, positions counted from 2."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    content = json.dumps(tokenizer(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *"abcdefg", *WORDS]))
    for bert, roberta in zip(("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), special, strict=True):
        content = content.replace(bert, roberta)
    (folder / "full.json").write_text(content, encoding="utf-8")
    names = dict(
        zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True)
    )
    fast = PreTrainedTokenizerFast(tokenizer_file=str(folder / "full.json"), **names)
    (folder / "full.json").unlink()
    fast.save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=len(fast),
        hidden_size=SIZES["hidden"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        intermediate_size=SIZES["inner"],
        max_position_embeddings=SIZES["positions"] + 2,
        type_vocab_size=1,
        pad_token_id=1,
        initializer_range=0.5,
    )
    RobertaModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory) -> Path:
    """A plain transformers folder. Tests that change files take `folder`."""
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def folder(bert_folder, tmp_path) -> Path:
    """A copy of the tiny BERT that a test may change."""
    return shutil.copytree(bert_folder, tmp_path / "model")


@pytest.fixture(scope="session")
def distilbert_folder(tmp_path_factory) -> Path:
    """The same of an architecture that is padded."""
    return write_distilbert(tmp_path_factory.mktemp("distilbert"))


@pytest.fixture(scope="session", params=[write_bert, write_roberta, write_distilbert])
def any_folder(request, tmp_path_factory) -> Path:
    return request.param(tmp_path_factory.mktemp(request.param.__name__))


@pytest.fixture
def load():
    """Loads a folder with the given settings; all others are left to the folder."""

    def load(folder, *, seed: int = 0, **settings) -> SentenceEncoder:
        settings = {"initialize": "pretrained"} | settings
        return load_backbone(BackboneConfig(path=str(folder), **settings), seed=seed)

    return load
