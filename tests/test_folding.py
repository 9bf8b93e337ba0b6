"""Texts that differ in form alone are the same wherever characters are compared."""

import pytest

from juzhen.core.text import fold, script_table
from juzhen.data.leaks.matching import normalize
from juzhen.metrics.lexical import BM25, METHODS, lexical_scores

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
    within = BM25(["訂單 Ａ", "别的"], script=False)
    assert BM25.of(within.arrays()).scores("订单").tolist() == [0, 0]
