"""Ids, metadata, filters and options as Python callers have them: columns of numpy and pandas, numbers of numpy."""

import numpy as np
import pandas
import pytest

from juzhen.core.errors import UserError
from juzhen.index import Encoding, Index, Rows, add, build, index_in_memory, read_rows, remove

TEXTS = ["怎么退货", "火车几点开", "今天下雨吗", "苹果多少钱"]
IDS = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "ids",
    [np.array(IDS), pandas.Series(IDS, index=range(5, 9)), (name for name in IDS), tuple(IDS)],
    ids=["numpy", "pandas", "generator", "tuple"],
)
def test_ids_and_metadata_are_read_by_position(encoder, ids):
    rows = Rows(TEXTS, ids, ({"page": page} for page in np.arange(4)))
    with index_in_memory(encoder, rows) as index:
        (found,) = index.search(["问"], where={"page": 2})
        assert [(hit.id, hit.text, hit.metadata) for hit in found] == [("c", TEXTS[2], {"page": 2})]


def test_numbers_of_numpy_are_numbers_of_metadata_and_of_filters(encoder, tmp_path):
    metadata = [
        {"page": np.int64(n % 2), "part": np.float32(0.5), "is_new": np.bool_(n > 1)} for n in range(4)
    ]
    build(
        tmp_path / "index", encoder, Rows(TEXTS, metadata=metadata), name="small", dim=np.int64(encoder.dim)
    )
    with Index.open(tmp_path / "index", encoder) as index:
        for where, count in (
            ({"page": 1}, 2),
            ({"page": np.int64(1)}, 2),
            ({"page": np.array([0, 1])}, 4),
            ({"page": (0, 1)}, 4),
            ({"part": 0.5}, 4),
            ({"is_new": np.bool_(True)}, 2),
        ):
            assert len(index.search(["问"], np.int64(9), where=where)[0]) == count, where


def test_missing_values_of_pandas_are_null_in_metadata(encoder):
    parts = [pandas.NA, pandas.NaT, None, "x"]
    with index_in_memory(encoder, Rows(TEXTS, IDS, [{"part": part} for part in parts])) as index:
        (found,) = index.search(["问"], where={"part": None})
        assert {hit.id: hit.metadata["part"] for hit in found} == {"a": None, "b": None, "c": None}


def test_names_of_metadata_that_are_no_texts_are_refused_before_anything_is_written(encoder, tmp_path):
    rows = Rows(TEXTS, IDS, [{"page": 1}, {0: "x"}, {}, {}])
    with pytest.raises(UserError, match=r"metadata of text b: .* no text\. "):
        build(tmp_path / "index", encoder, rows, name="small")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    "ids", ["abcd", ["a", "b", "c", "a"], ["a", "", "c", "d"], ["a", None, "c", "d"], ["a"]]
)
def test_ids_that_name_no_text_are_refused(ids):
    with pytest.raises(UserError, match=r"^ids: "):
        Rows(TEXTS, ids)
    with pytest.raises(UserError, match=r"^metadata: "):
        Rows(TEXTS, metadata=["x", "y", "z", "u"])


def test_a_path_may_be_a_text(tmp_path):
    (tmp_path / "texts.txt").write_text("一\n二\n", "utf-8")
    assert read_rows(str(tmp_path / "texts.txt")).texts == ["一", "二"]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"mode": "bm25", "vectors": True}, "vectors"),
        ({"mode": "bm25", "prompt_name": "query"}, "prompt_name"),
        ({"fuzzy": 1}, "search: no option fuzzy"),
        ({"wher": {}}, "search: no option wher. Did you mean where"),
        ({"where": {"nope": 1}}, "filter"),
        ({"per_document": True}, "per_document"),
    ],
)
@pytest.mark.parametrize("queries", [["退货", "天气"], []])
def test_an_option_that_is_not_read_is_refused_with_and_without_queries(encoder, options, key, queries):
    if "vectors" in options:
        options = options | {"vectors": encoder.encode_query(["退货", "天气"])[: len(queries)]}
    index = index_in_memory(encoder, Rows(TEXTS, metadata=[{"page": 1}] * 4))
    with pytest.raises(UserError, match=f"^{key}"):
        index.search(queries, **options)


def test_a_refused_option_leaves_no_folder(encoder, tmp_path):
    with pytest.raises(UserError, match="nope"):
        build(tmp_path / "index", encoder, Rows(TEXTS), name="small", encoding=Encoding({"nope": 1}))
    assert not (tmp_path / "index").exists()


def test_a_change_of_ids_is_told_by_ids(encoder, tmp_path):
    build(tmp_path / "index", encoder, Rows(TEXTS), name="small")
    with pytest.raises(UserError, match=r"^ids: .*has no ids"):
        add(tmp_path / "index", encoder, Rows(["五"], ["e"]))
    remove(tmp_path / "index", np.array(["0"]))
    with Index.open(tmp_path / "index", encoder) as index:
        assert len(index) == 3
