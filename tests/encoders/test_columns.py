"""Tables, Series, arrays and columns of Arrow at every door: taken by position, or refused with what to pass."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from juzhen import CrossEncoder, SentenceEncoder
from juzhen.calibration.calibration import fit_platt
from juzhen.core.columns import as_column, as_pairs, as_texts
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.data.rankings import RankingSet
from juzhen.metrics.lexical import BM25, lexical_scores

FIRST = ["今天天气很好", "怎么还花呗", "明天会下雨吗", "手机号怎么换绑"]
SECOND = ["天气不错", "花呗还款", "下雨", "换绑"]
FRAME = pd.DataFrame({"a": FIRST, "b": SECOND}, index=[3, 1, 0, 2])
TABLE = pa.table({"a": FIRST, "b": SECOND})


@pytest.fixture(scope="module")
def models():
    encoder = SentenceEncoder.load("builtin/mini_zh")
    reader = CrossEncoder(
        SentenceEncoder.load("builtin/mini_zh"), outputs=1, segments=False, symmetric=False, seed=0
    )
    return SimpleNamespace(encoder=encoder, reader=reader.eval())


COLUMNS = {
    "series": FRAME["a"],
    "string series": FRAME["a"].astype("string"),
    "index": pd.Index(FIRST),
    "objects": np.array(FIRST, dtype=object),
    "strings": np.array(FIRST),
    "arrow": pa.array(FIRST),
    "chunked": TABLE["a"],
    "scalars": list(pa.array(FIRST)),
    "generator": (text for text in FIRST),
    "tuple": tuple(FIRST),
    "keys": dict.fromkeys(FIRST).keys(),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_has_positions_is_taken_by_position(name):
    assert as_column(COLUMNS[name], "texts") == FIRST


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            FRAME,
            r"texts: got a DataFrame .* which is a table. Expected one column of it, such as table\['a'\]",
        ),
        (TABLE, r"which is a table. Expected one column of it, such as table\['a'\]"),
        (FRAME.to_records(index=False), "which is a table"),
        ({"a": 1}, "got a dict .*Expected a list"),
        ({"a", "b"}, "got a set .*Expected a list"),
        ("今天", r"got one text. Expected a list: \['今天'\]"),
        (b"ab", "Decode it first"),
        (None, "got a NoneType"),
        (np.zeros((2, 2)), "got a ndarray .*Expected a list"),
    ],
)
def test_what_has_none_is_refused_with_what_to_pass(value, told):
    with pytest.raises(UserError, match=told):
        as_column(value, "texts")


PAIRS = {
    "rows": FRAME.to_numpy(),
    "strings": np.array(list(zip(FIRST, SECOND, strict=True))),
    "tuples": pd.Series(list(zip(FIRST, SECOND, strict=True)), index=[3, 1, 0, 2]),
    "arrow": pa.array([list(pair) for pair in zip(FIRST, SECOND, strict=True)]),
    "zipped arrow": zip(TABLE["a"], TABLE["b"], strict=True),
    "named": list(FRAME.itertuples(index=False)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_in_any_form(name):
    assert as_pairs(PAIRS[name]) == (FIRST, SECOND, False)


@pytest.mark.parametrize(
    "value", [FRAME, TABLE, dict(zip(FIRST, SECOND, strict=True)), FRAME["a"], "今天", [{"a", "b"}]]
)
def test_what_is_no_pairs_is_refused(value):
    with pytest.raises(UserError):
        as_pairs(value)


def test_every_door_reads_by_position_or_refuses(models):
    encoder, reader, sorted_series = models.encoder, models.reader, FRAME["a"].sort_index()
    ranked = reader.rank("花呗", list(sorted_series))
    assert reader.rank("花呗", sorted_series) == ranked, "a Series is no mapping from its labels"
    found = [hit.corpus_id for hit in encoder.search("花呗", FRAME["a"], 2)]
    assert found == [hit.corpus_id for hit in encoder.search("花呗", FIRST, 2)]
    np.testing.assert_array_equal(encoder.encode(FRAME["a"]), encoder.encode(FIRST))
    np.testing.assert_array_equal(
        encoder.score(FRAME.to_numpy()), encoder.score(list(zip(FIRST, SECOND, strict=True)))
    )
    np.testing.assert_array_equal(BM25(TABLE["a"]).scores("花呗"), BM25(FIRST).scores("花呗"))
    np.testing.assert_array_equal(lexical_scores(FRAME["a"], TABLE["b"]), lexical_scores(FIRST, SECOND))
    for door in (
        lambda: encoder.encode(FRAME),
        lambda: encoder.score(FRAME),
        lambda: encoder.score({"今天": "明天"}),
        lambda: encoder.similarity(FRAME, FIRST),
        lambda: encoder.search("花呗", FRAME, 1),
        lambda: reader.score(FRAME),
        lambda: reader.rank("花呗", "一个文本"),
        lambda: reader.rank("花呗", FRAME),
        lambda: reader.rank(FIRST, FIRST),
        lambda: reader.rank("花呗", FIRST, among=[True, False]),
        lambda: reader.rank("花呗", FIRST, among=[1.5]),
        lambda: reader.logits(FIRST, SECOND[:3]),
        lambda: BM25(FRAME),
        lambda: RankingSet("some", "dev", FRAME, FRAME, [{0: 1.0}] * 4),
        lambda: Examples.from_texts(
            "some", "dev", kind=Kind.LABELLED_PAIR, texts={"text_a": FIRST, "text_b": SECOND[:2]}
        ),
    ):
        with pytest.raises(UserError):
            door()
    with pytest.raises(ValueError, match="inconsistent shapes"):
        lexical_scores(FIRST, SECOND[:2])


def test_numbers_are_joined_by_position_and_not_by_labels():
    draw = np.random.default_rng(0)
    labels = (draw.random(40) < 0.5).astype(float)
    scores = labels + draw.normal(size=40)
    series = pd.Series(scores, index=draw.permutation(40)), pd.Series(labels, index=draw.permutation(40))
    assert fit_platt(*series) == fit_platt(scores, labels)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_cross_encoder_scores_in_any_dtype(models, dtype):
    pairs = list(zip(FIRST, SECOND, strict=True))
    expected = models.reader.score(pairs)
    try:
        found = models.reader.to(dtype).score(pairs)
    finally:
        models.reader.to(torch.float32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=0.05 if dtype is torch.bfloat16 else 1e-5)


@pytest.mark.parametrize(
    "text", ["\0", "好\0", "\u200b", "\ufeff\u00ad", "\u2028", "\ufe0f", "\u3164 \u2800"]
)
def test_texts_without_a_sign_that_can_be_seen_are_refused_as_data_refuse_them(text):
    with pytest.raises(UserError, match=r"text 1 (is empty|holds a NUL)"):
        as_texts(["好", text])
    assert as_texts(["好\u200b"])[0] == ["好\u200b"]
