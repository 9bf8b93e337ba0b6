"""Triplets of which some rows have fewer negatives: read from files and Python, viewed, evaluated and trained on."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from juzhen import SentenceEncoder, fit
from juzhen.core.examples import Comparisons, Kind
from juzhen.data.convert import convert_rows, with_negatives
from juzhen.data.dataset_from_table import make_set
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.rows import as_examples
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig
from juzhen.encoders.collate import given_tensors
from juzhen.losses import InfoNCE

ROWS = [
    ("怎么退货", "东西想退掉", "何时发货", "有优惠吗", "能开发票吗"),
    ("运费谁出", "邮费由谁付", "账单日是几号"),
    ("密码忘了", "登录不上去", "头像怎么换", "昵称怎么改"),
]
KEYS = ("anchor", "positive", "negative", "negative_2", "negative_3")
MISSING = [[False, False, False, False], [False, False, True, True], [False, False, False, True]]


def in_columns(row):
    return dict(zip(KEYS, row, strict=False))


def as_list(row):
    return {"query": row[0], "positive": row[1], "negatives": [*row[2:]]}


def as_csv(path):
    path.write_text(
        "\n".join([",".join(KEYS), *(",".join([*row] + [""] * (5 - len(row))) for row in ROWS)]), "utf-8"
    )
    return path


def as_jsonl(path):
    path.write_text("\n".join(json.dumps(as_list(row), ensure_ascii=False) for row in ROWS), "utf-8")
    return path


@pytest.mark.parametrize(
    "made",
    [
        lambda tmp_path: ROWS,
        lambda tmp_path: [in_columns(row) for row in ROWS],
        lambda tmp_path: [as_list(row) for row in ROWS],
        lambda tmp_path: as_csv(tmp_path / "rows.csv"),
        lambda tmp_path: as_jsonl(tmp_path / "rows.jsonl"),
    ],
    ids=["tuples", "dicts", "lists", "csv", "jsonl"],
)
def test_every_way_of_writing_them_is_the_same_rows(tmp_path, made):
    read = as_examples(made(tmp_path))
    assert read.kind is Kind.TRIPLET
    assert read.missing.tolist() == MISSING
    for number, row in enumerate(ROWS):
        assert [read.texts(name)[number] for name in list(read.columns)[: len(row)]] == [*row]
        assert all(read.texts(name)[number] == row[1] for name in list(read.columns)[len(row) :])
    assert read.fingerprint == as_examples(ROWS).fingerprint
    filled = [[*row, *[row[1]] * (5 - len(row))] for row in ROWS]
    assert as_examples(filled).fingerprint != read.fingerprint


def scored_rows(gap):
    """Two rows; the first has a gap among its negatives, with this score."""
    return [
        {"anchor": "a", "positive": "b", "negative": "", "negative_2": "c"}
        | {"score_positive": 3.0, "score_negative": gap, "score_negative_2": 1.0},
        {"anchor": "d", "positive": "e", "negative": "f", "negative_2": "g"}
        | {"score_positive": 2.0, "score_negative": 1.5, "score_negative_2": 0.5},
    ]


def test_a_gap_closes_and_scores_move_with_their_texts():
    read = as_examples(scored_rows(None))
    assert read.texts("negative") == ["c", "f"]
    assert read.teacher_scores.tolist() == [[3, 1, 3], [2, 1.5, 0.5]]
    assert read.missing.tolist() == [[False, False, True], [False, False, False]]


def test_numbered_columns_keep_their_order_and_their_scores():
    fields = ["positive", "negative", "negative_2", "negative_3"]
    rows = [
        {"anchor": "q"}
        | {field: f"text {field}" for field in fields}
        | {f"score_{field}": float(place) for place, field in enumerate(fields)}
    ]
    read = as_examples(rows)
    assert [read.texts(field) for field in list(read.columns)[1:]] == [[f"text {field}"] for field in fields]
    assert read.teacher_scores.tolist() == [[0, 1, 2, 3]]


def test_new_writes_them_and_they_are_read_again(tmp_path):
    rows = [(f"问题{row}", f"说法{row}", *(f"别的{row}{n}" for n in range(1 + row % 3))) for row in range(30)]
    path = tmp_path / "faq.csv"
    path.write_text(
        "\n".join([",".join(KEYS), *(",".join([*row] + [""] * (5 - len(row))) for row in rows)]), "utf-8"
    )
    raw = read_raw(path)
    made = make_set("faq", raw, guess(raw), dev=0, test=0)
    assert not made.left_out
    assert len(made.splits["train"]) == 30


def test_parts_with_other_numbers_of_negatives_are_one_set(tmp_path):
    for number, row in enumerate(ROWS[:2]):
        line = {"query": row[0], "pos": [row[1]], "neg": [*row[2:]]}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(line, ensure_ascii=False), "utf-8")
    files = {"train": ["1.jsonl", "0.jsonl"]}
    layouts = {"theirs": {"files": files, "format": "flag_embedding"}}
    config = DatasetConfig(name="rows", kind="triplet", language="zh", layout="theirs", layouts=layouts)
    read = load_examples(
        config, "train", source="local", data_dir=tmp_path, on_bad_row="error", required=True
    )
    assert read.missing.tolist() == [MISSING[1], MISSING[0]]
    assert read.texts("negative_3") == [ROWS[1][1], ROWS[0][4]]


def test_what_a_row_lacks_is_no_pair_and_no_candidate():
    read = as_examples(ROWS)
    pairs = convert_rows(read, Kind.LABELLED_PAIR)
    assert len(pairs) == sum(len(row) - 1 for row in ROWS)
    assert pairs.targets.sum() == len(ROWS)
    assert pairs.missing is None
    assert convert_rows(read, Kind.POSITIVE_PAIR).missing is None
    assert Comparisons.of(read).left_out.tolist() == MISSING
    assert with_negatives(read, 1).missing is None
    assert with_negatives(read, 2).missing.tolist() == [row[:3] for row in MISSING]
    assert read.select(np.array([1])).missing.tolist() == [MISSING[1]]
    assert given_tensors(read, np.array([1, 0]))["missing"].tolist() == [MISSING[1], MISSING[0]]


@pytest.mark.parametrize("loss", ["info_nce", "triplet", "lambda_loss"])
@pytest.mark.sampled(3)
def test_fit_learns_from_them_as_list_by_list(loss):
    """Of one row a step is the step of that row alone, whatever the others have."""
    weights = []
    for rows in (ROWS[1:2], ROWS[1:]):
        read = as_examples(rows)
        options = {"loss": loss, "epochs": 1, "batch_size": 1, "seed": 3, "warmup": 0.0, "progress": False}
        if len(rows) > 1:
            read = read.select(np.array([0]))
            assert read.missing is not None
        weights.append(fit(SentenceEncoder.load("builtin/mini_zh"), read, **options).state_dict())
    for name, values in weights[0].items():
        torch.testing.assert_close(values, weights[1][name], rtol=1e-5, atol=1e-7)


class Own(InfoNCE):
    """A loss that reads negatives alone, and not which are missing."""

    def with_logs(self, anchors, positives, negatives):
        return super().with_logs(anchors, positives, negatives)


def test_a_loss_that_reads_negatives_alone_learns_from_rows_of_one_length():
    encoder = SentenceEncoder.load("builtin/mini_zh")
    fit(encoder, [row[:3] for row in ROWS], loss=Own(), epochs=1, progress=False)
    assert replace(as_examples(ROWS), missing=None).missing is None
