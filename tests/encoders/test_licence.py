"""Weights keep the licence of those that they began with, and their card says so."""

import pytest

from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder
from juzhen.encoders.save import licence_of

BY_SA = "cc-by-sa-4.0"


def test_what_begins_with_the_built_in_encoder_is_under_its_licence(tmp_path):
    encoder = SentenceEncoder.load("builtin/mini_zh")
    assert encoder.licence == BY_SA
    save_encoder(encoder, tmp_path / "first", card={"name": "mine"})
    assert licence_of(tmp_path / "first") == BY_SA
    card = (tmp_path / "first" / "README.md").read_text(encoding="utf-8")
    assert "[cc-by-sa-4.0](https://creativecommons.org/licenses/by-sa/4.0/)" in card
    again = SentenceEncoder.load(tmp_path / "first")
    reader = CrossEncoder(again, outputs=1, segments=True, symmetric=False, seed=0)
    folder = save_encoder(reader, tmp_path / "reader", card={})
    assert licence_of(folder) == BY_SA
    assert CrossEncoder.load(folder).inner.licence == BY_SA


def test_random_weights_and_cards_without_one_have_none(bert_folder, load, tmp_path):
    encoder = load(bert_folder)
    assert encoder.licence is None
    save_encoder(encoder, tmp_path / "encoder", card={})
    assert "license" not in (tmp_path / "encoder" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("---\nlanguage: zh\nlicense: apache-2.0\n---\n# a", "apache-2.0"),
        ("---\r\nlicense: mit\r\n---\r\n", "mit"),
        ("# a\n---\nlicense: mit\n---\n", None),
        ("---\nlicense: <b>x</b>\n---\n", None),
        ("---\ntags: [a]\n---\nlicense: mit\n", None),
        ("", None),
    ],
)
def test_the_head_of_a_card(tmp_path, text, licence):
    (tmp_path / "README.md").write_bytes(text.encode())
    assert licence_of(tmp_path) == licence
