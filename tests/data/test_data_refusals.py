"""Refusals of data: a call → the key and the way out of its message."""

import json
import math

import numpy as np
import pytest

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.data.dataset_from_table import make_set
from juzhen.data.leaks import LeakFilter
from juzhen.data.rankings import RankingSet, as_ranking
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.rows import as_examples
from juzhen.evaluation import evaluate

PAIR = {"text_a": ["怎么还花呗"], "text_b": ["花呗怎么还"]}


def some(kind, texts, **fields):
    return Examples.from_texts("some", "train", kind=kind, texts=texts, **fields)


def ranking(**known):
    return RankingSet("mine", "dev", ["a"], ["b", "c"], [{0: 1.0}], **known)


def leaky():
    pairs = some(Kind.LABELLED_PAIR, PAIR, targets=np.ones(1))
    return LeakFilter([pairs]).without_leaks(pairs)


def table(folder, *rows):
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def table_without_names(folder, words):
    path = folder / "rows.csv"
    path.write_text("".join(f'第{n}句,第{n}文,"{words[n % 2]}"\n' for n in range(40)), encoding="utf-8")
    return path


def named(folder, name):
    raw = read_raw(
        table(folder, *({"text_a": f"句{n}", "text_b": f"文{n}", "label": n % 2} for n in range(40)))
    )
    return make_set(name, raw, guess(raw))


CALLS = {
    "a ranking of single sentences": (
        lambda folder: as_ranking(some(Kind.SENTENCE, {"text": ["a"]})),
        "train/some: .*labelled_pair",
    ),
    "an answer that is the query itself": (lambda folder: ranking(own=np.array([0])), "dev/mine: query 0"),
    "an answer known not to be one": (
        lambda folder: ranking(irrelevant=[np.array([0, 1])]),
        "dev/mine: query 0",
    ),
    "training rows that all leak": (lambda folder: leaky(), r"some: .*filter_leaks=false"),
    "a triplet without a negative": (
        lambda folder: as_examples(
            [{"anchor": "q", "positive": "p", "negative": "n"}, {"anchor": "a", "positive": "b"}]
        ),
        r"row 2.*negative",
    ),
    **{
        f"columns={columns!r}": (
            lambda folder, columns=columns: as_examples([("a", "b", 1)], columns=columns),
            key,
        )
        for columns, key in (
            (["a", "b"], "columns="),
            ({"text_a": 1, "text_b": 2, "label": 9}, "no column 9"),
            ({"text_a": 1, "text_b": 1, "label": 3}, "from one column"),
        )
    },
    **{
        f"score_range={ends!r}": (
            lambda folder, ends=ends: as_examples([("a", "b", 1)], score_range=ends),
            "score_range=.*highest",
        )
        for ends in ((5, 0), (1,), "0-5", None, (0, math.nan))
    },
    **{
        f"labels {words} without a name": (
            lambda folder, words=words: as_examples(table_without_names(folder, words)),
            f"column 3 .*{words[0]}",
        )
        for words in (("好", "坏"), ("80%", "10%"), ("0,5", "0,9"), ("重复", "不重复"))
    },
    "percentages": (
        lambda folder: as_examples([{"q": f"句{n}", "p": f"文{n}", "y": f"{n % 2}0%"} for n in range(40)]),
        "y holds 00%",
    ),
    "labels of one class": (
        lambda folder: as_examples([("a", "b", "1"), ("c", "d", "是")]),
        "1, 是 are one class",
    ),
    "a sheet by its number": (
        lambda folder: as_examples(table(folder, {"anchor": "甲", "positive": "乙"}), sheet=2),
        "sheet=.2.",
    ),
    "rows learnt that are no Examples": (
        lambda folder: evaluate("lexical", [("a", "b", 1), ("c", "d", 0)], trained_on=[("a", "b")]),
        "trained_on:",
    ),
    "vectors of texts": (
        lambda folder: evaluate(lambda texts: texts, [("a", "b", 1), ("c", "d", 0)]),
        "encode: ",
    ),
    "vectors of complex numbers": (
        lambda folder: evaluate(lambda texts: np.ones((len(texts), 2)) * 1j, [("a", "b", 1), ("c", "d", 0)]),
        "encode: .*complex",
    ),
    "a file with a misspelt name": (
        lambda folder: as_examples(table(folder, {"anchor": "甲", "positive": "乙"}).with_name("row.jsonl")),
        "No such file. Did you mean",
    ),
    "only faulty rows": (
        lambda folder: as_examples(
            table(folder, {"anchor": "甲", "positive": ""}, {"anchor": "", "positive": "乙"}),
            on_bad_row="drop",
        ),
        "no rows are left",
    ),
    **{
        f"a set called {name!r}": (lambda folder, name=name: named(folder, name), "--name")
        for name in ("", "../x", "a b", "a.b", "-", "长" * 100)
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_named_with_its_key(name, tmp_path):
    call, message = CALLS[name]
    with pytest.raises(UserError, match=message):
        call(tmp_path)
