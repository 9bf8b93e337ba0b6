"""Tables, Series, arrays and columns of Arrow at every door: taken by position, or refused with what to pass."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from juzhen import CrossEncoder, SentenceEncoder, quantize
from juzhen.calibration.calibration import fit_platt
from juzhen.core.columns import as_column, as_pairs, as_texts, as_vectors
from juzhen.core.errors import UserError
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


def test_every_door_reads_by_position(models):
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
    with pytest.raises(UserError, match="4 and 2 texts"):
        lexical_scores(FIRST, SECOND[:2])


def test_numbers_are_joined_by_position_and_not_by_labels():
    draw = np.random.default_rng(0)
    labels = (draw.random(40) < 0.5).astype(float)
    scores = labels + draw.normal(size=40)
    series = pd.Series(scores, index=draw.permutation(40)), pd.Series(labels, index=draw.permutation(40))
    assert fit_platt(*series) == fit_platt(scores, labels)


def test_booleans_and_complex_numbers_are_no_embeddings():
    ones = np.ones((2, 3), dtype=np.float32)
    of_torch = torch.ones(2, 3)
    for values in (ones > 0, ones.astype(complex), of_torch > 0, of_torch.to(torch.complex64)):
        assert as_vectors(values) is None
        with pytest.raises(UserError, match=r"^(vectors|whole): "):
            quantize(values, "int8")
        with pytest.raises(UserError, match=r"^whole: "):
            quantize(ones, "int8", whole=values)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8):
        assert as_vectors(torch.ones(2, 3, dtype=dtype)).tolist() == ones.tolist()


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


def test_a_text_may_end_in_a_sign_that_cannot_be_seen():
    assert as_texts(["好\u200b"])[0] == ["好\u200b"]
