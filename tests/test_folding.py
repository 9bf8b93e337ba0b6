"""Texts that differ in form alone are the same wherever characters are compared."""

import numpy as np
import pytest

from juzhen.core.folding import fold, script_table
from juzhen.data.leaks.normalize import normalize
from juzhen.index.size import folding_of
from juzhen.metrics.bm25 import BM25, FOLDED, FOLDINGS
from juzhen.metrics.lexical import METHODS, lexical_scores

FORMS = [
    ("ＩＰＨＯＮＥ１５", "iphone15"),
    ("cafe\u0301", "café"),
    ("訂單", "订单"),
    ("頭髮發現", "头发发现"),
    ("①", "1"),
]


@pytest.mark.parametrize(("form", "plain"), FORMS)
def test_forms_fold_to_one_text_everywhere(form, plain):
    assert fold(form) == normalize(form) == plain
    assert BM25(["别的", f"我的{form}"]).scores(plain).argmax() == 1
    for method in METHODS:
        assert lexical_scores([form], [plain], method=method).tolist() == pytest.approx([1])


def test_the_script_is_an_option():
    assert fold("訂單Ａ", script=False) == "訂單a"
    assert BM25(["訂單"], script=False).scores("订单").tolist() == [0]
    assert BM25(["訂單"]).scores("订单")[0] > 0


def test_the_table_folds_once_and_leaves_simplified_text():
    table = script_table()
    assert not table.keys() & set(table.values())
    assert {"麼": "么", "後": "后", "裡": "里", "瞭": "了"}.items() <= table.items()
    assert not table.keys() & set("么后里了干着的一是不覆像台")


def test_kept_terms_are_searched_by_the_folding_that_made_them():
    made = BM25(["訂單 Ａ", "别的"])
    assert BM25.of(made.arrays()).scores("订单 a").tolist() == made.scores("订单 a").tolist()
    older = {name: values for name, values in made.arrays().items() if name != "folding"}
    assert np.count_nonzero(BM25.of(older).scores("訂單")) == 0  # its terms were folded, this query is not


def test_an_index_names_its_folding_and_how_to_fold_anew():
    arrays = BM25(["订单"]).arrays()
    assert folding_of(arrays) == folding_of(None)
    assert "index build" not in folding_of(arrays)
    older = {name: values for name, values in arrays.items() if name != "folding"}
    assert "index build" in folding_of(older)
    assert folding_of(older).startswith("lower case")
    assert len({*FOLDED}) == len(FOLDINGS)
