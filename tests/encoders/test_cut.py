"""What an encoder leaves out of texts is counted exactly, said once, and stored."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import tiny_encoder
from test_broken_inputs import GOOD, OWN, Desk

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.encoders import chunks, save_encoder
from juzhen.encoders.chunks import TruncationStats, find_truncated
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.evaluation.run import cut_line
from juzhen.families.registry import family_of


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone, max_length=8)


def pairs(*rows):
    texts = {"text_a": [row[0] for row in rows], "text_b": [row[1] for row in rows]}
    return Examples.from_texts("set", "test", kind=Kind.SCORED_PAIR, texts=texts)


TEXT = st.text(st.sampled_from("今天天气好a1 ﷺ㍿é\U0001f600"), min_size=1, max_size=14)


@settings(max_examples=40, derandomize=True)
@given(texts=st.lists(TEXT, min_size=1, max_size=8))
def test_counted_from_the_tokens_that_are_read_or_without_them_it_is_exact(encoder, texts):
    whole = encoder.tokenizer(texts)["input_ids"]
    expected = [len(ids) > 8 for ids in whole]
    assert find_truncated(encoder, texts, encoder.tokenize(texts).lengths).tolist() == expected
    assert find_truncated(encoder, texts).tolist() == expected


@pytest.mark.parametrize("filling", ["今天天气很好，", " ", "长" * 40 + " "])
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_a_very_long_text_is_read_as_far_as_it_decides(encoder, filling, monkeypatch):
    lengths = []
    text = filling * (400_000 // len(filling))
    expected = encoder.tokenizer("今天" + text, truncation=True, max_length=encoder.max_length)["input_ids"]
    call = type(encoder.tokenizer).__call__

    def counted(tokenizer, texts, **options):
        lengths.extend(map(len, [texts] if isinstance(texts, str) else texts))
        return call(tokenizer, texts, **options)

    monkeypatch.setattr(type(encoder.tokenizer), "__call__", counted)
    assert encoder.tokenize(["今天" + text]).tolist() == [expected]
    assert find_truncated(encoder, ["今天" + text]).tolist() == [filling != " "]
    assert (max(lengths) < 20_000) == (filling != " ")


def test_a_text_counts_once_however_often_it_comes(encoder):
    found = family_of(encoder).cut(encoder, pairs(("今天天气很好很好", "今天"), ("今天天气很好很好", "明天")))
    assert found == TruncationStats(looked_at=3, cut=1, max_length=8)
    assert str(found) == "1 of 3 texts (33.3 %)"


@pytest.mark.parametrize(
    ("second", "is_cut"), [("天", False), ("明天", False), ("明天好", True), ("好" * 30, True)]
)
def test_a_cross_encoder_cuts_pairs(encoder, second, is_cut):
    joint = CrossEncoder(encoder, outputs=1, segments=True, symmetric=False, seed=0)
    assert family_of(joint).cut(joint, pairs(("今天好", second))) == TruncationStats(
        1, int(is_cut), 8, unit="pairs"
    )
    whole = encoder.tokenizer("今天好", second)["input_ids"]
    assert (len(whole) > 8) == is_cut


def test_one_line_for_all_sets_and_none_where_nothing_is_cut():
    assert cut_line({"train/a": TruncationStats(10, 0, 64)}, "training") is None
    told = cut_line({"dev/a": TruncationStats(10, 1, 64), "dev/b": TruncationStats(90, 30, 64)}, "evaluation")
    assert told == (
        "max_length=64: 31 of 100 texts (31.0 %) of evaluation are longer and are cut there, most in dev/b: "
        "30 of 90 texts (33.3 %)"
    )


@pytest.mark.parametrize("model", ["biencoder", "crossencoder"])
@pytest.mark.sampled(2)
def test_a_job_says_it_once_and_stores_it(tmp_path, tiny_backbone, capsys, model):
    desk = Desk(tmp_path, tiny_backbone, capsys)
    desk.write("train.tsv", GOOD.replace("今天天气好", "今天天气好" * 9).encode())
    folder = Path(desk.run(*OWN, f"model={model}", "backbone.max_length=20"))
    told = capsys.readouterr().err
    data = Result.read(folder).data
    unit, looked_at = ("texts", 6) if model == "biencoder" else ("pairs", 3)
    share = round(1 / looked_at, 6)
    assert data["train/demo_sts"]["cut"] == {
        "looked_at": looked_at,
        "cut": 1,
        "max_length": 20,
        "unit": unit,
        "share": share,
    }
    assert data["dev/demo_sts"]["cut"]["cut"] == 0
    assert told.count("are cut there") == 1
    assert f"max_length=20: 1 of {looked_at} {unit}" in told


def test_predict_says_it_once(tmp_path, encoder, capsys):
    save_encoder(encoder, tmp_path / "encoder", card={})
    assert main(["score", str(tmp_path), "今天天气很好很好", "今天"]) == 0
    assert "1 of 2 texts is longer than 8 tokens" in capsys.readouterr().err
    assert main(["score", str(tmp_path), "今天", "明天"]) == 0
    assert capsys.readouterr().err == ""
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\n" + "今天天气很好很好\t今天\n" * 3, encoding="utf-8")
    assert main(["score", str(tmp_path), "--file", str(path)]) == 0
    told = capsys.readouterr().err
    assert told.count("longer than") == 1
    assert "3 of 6 texts" in told


def test_no_sign_takes_more_bytes_than_are_counted():
    """Signs that are not folded before they are counted take no more bytes once they are."""
    signs = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    growing = [one for one in signs if len(unicodedata.normalize("NFKC", one).encode()) > len(one.encode())]
    assert len(growing) > 800
    assert all(chunks._MAY_GROW.search(one) for one in growing)
