"""A tiny encoder with prompts, texts with metadata, and an index of each kind."""

import shutil
from functools import cache

import pytest
from jobs import tiny_encoder

from juzhen.encoders import save_encoder
from juzhen.index import Rows, build

TOPICS = ("天气", "退货", "发货", "火车", "苹果")


@pytest.fixture(scope="session")
def encoder(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone)
    encoder.prompts = {"query": "问题：", "document": "段落："}
    return encoder.eval()


@pytest.fixture(scope="session")
def encoder_folder(encoder, tmp_path_factory):
    return save_encoder(encoder, tmp_path_factory.mktemp("encoder") / "small", card={})


@pytest.fixture(scope="session")
def rows():
    texts = [f"{TOPICS[number % 5]}的第{number}个问题，编号{number * 37 % 101}" for number in range(300)]
    texts[299] = texts[0]  # of equal texts the first one stands first
    ids = [f"t{number}" for number in range(300)]
    metadata = [{"topic": TOPICS[number % 5], "page": number % 7} for number in range(300)]
    return Rows(texts, ids, metadata, ["topic", "page"])


@pytest.fixture(scope="session")
def built_once(encoder, rows, tmp_path_factory):
    """An index of that kind, which nobody changes."""

    @cache
    def make(kind):
        folder = tmp_path_factory.mktemp("indexes") / kind
        build(folder, encoder, rows, name="small", kind=kind)
        return folder

    return make


@pytest.fixture
def built(built_once, tmp_path):
    """A copy of it."""
    return lambda kind="flat": shutil.copytree(built_once(kind), tmp_path / kind)
