"""A token table is a list of lists of numbers, whatever is chosen from it and however it was put together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from juzhen.core.paths import BUILTIN
from juzhen.encoders.tokens import TokenTable, token_ids

TOKEN_LISTS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=12), max_size=12)


@given(TOKEN_LISTS)
def test_nothing_is_lost(token_lists):
    table = TokenTable.of(token_lists)
    assert len(table) == len(token_lists)
    assert table.tolist() == token_lists
    assert [table[place].tolist() for place in range(len(table))] == token_lists
    assert table.lengths.tolist() == [len(one) for one in token_lists]
    assert table.flat().tolist() == [token for one in token_lists for token in one]
    assert (table.ids.dtype, table.starts.dtype, table.lengths.dtype) == (np.int32, np.int64, np.int64)
    assert TokenTable.of(table) is table


@given(TOKEN_LISTS.filter(len), st.data())
def test_a_choice_of_texts_is_a_table(token_lists, data):
    rows = data.draw(st.lists(st.integers(0, len(token_lists) - 1), max_size=20))
    table = TokenTable.of(token_lists)
    chosen = table[np.array(rows, dtype=np.int64)]
    expected = [token_lists[row] for row in rows]
    assert chosen.tolist() == expected
    assert chosen.flat().tolist() == [token for one in expected for token in one]
    assert chosen.ids is table.ids, "tokens are not copied"
    half = len(token_lists) // 2
    assert table[half:].tolist() == token_lists[half:]
    assert table[half:][0].tolist() == token_lists[half]
    assert table[-1].tolist() == token_lists[-1]


@given(st.lists(TOKEN_LISTS, max_size=4), st.randoms(use_true_random=False))
def test_portions_are_joined_in_order(portions, random):
    tables = [TokenTable.of(portion) for portion in portions]
    orders = [random.sample(range(len(table)), len(table)) for table in tables]
    tables = [table[np.array(order, dtype=np.int64)] for table, order in zip(tables, orders, strict=True)]
    joined = TokenTable.joined(tables)
    assert joined.tolist() == [
        portion[place] for portion, order in zip(portions, orders, strict=True) for place in order
    ]
    assert joined.ids.dtype == np.int32


def test_tables_are_equal_by_what_they_hold():
    table = TokenTable.of([[1, 2], [3], [1, 2]])
    assert table[[1, 0]] == TokenTable.of([[3], [1, 2]])
    assert table != TokenTable.of([[1, 2], [3], [1, 4]])
    assert TokenTable.of([[1, 2], [3]]) != TokenTable.of([[1], [2, 3]]), "the same tokens, cut elsewhere"
    assert table != [[1, 2], [3], [1, 2]]


def test_there_is_nothing_behind_the_end():
    table = TokenTable.of([[1, 2], [3]])
    with pytest.raises(IndexError):
        table[2]
    assert table[2:].tolist() == []


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ["encoder", "mini_zh@1", "mini_zh@2"])
def test_tokens_are_those_of_transformers(name, side):
    tokenizer = AutoTokenizer.from_pretrained(BUILTIN / name)
    tokenizer.truncation_side = side
    texts = ["", "怎么退货", "<s>[SEP]</s>", "ＡＢ１ 養 🐱\ud7ff", "长" * 40, f"a {tokenizer.sep_token} b"]
    for splits in (False, True):
        tokenizer.split_special_tokens = splits
        expected = tokenizer(texts, truncation=True, max_length=8)["input_ids"]
        tokenizer(
            texts[:2], padding="max_length", max_length=5, truncation=False
        )  # leaves its settings behind
        assert token_ids(tokenizer, texts, max_length=8) == expected
