"""Ids, metadata, filters and options as Python callers have them: columns of numpy and pandas, numbers of numpy."""

import numpy as np
import pandas
import pytest

from juzhen.index import Index, Rows, build, index_in_memory, read_rows

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


def test_a_path_may_be_a_text(tmp_path):
    (tmp_path / "texts.txt").write_text("一\n二\n", "utf-8")
    assert read_rows(str(tmp_path / "texts.txt")).texts == ["一", "二"]
