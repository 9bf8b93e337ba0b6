"""Characters that an encoder does not know, and texts that are one to it: one warning per call with counts."""

import json
import random
import sys
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from juzhen import fit
from juzhen.cli.main import main
from juzhen.core import text_warnings
from juzhen.core.text import inverse_table, script_table
from juzhen.core.text_warnings import UnknownWarning, equal_pairs
from juzhen.data.rows import as_examples
from juzhen.encoders import CrossEncoder, PromptEncoder, SentenceEncoder
from juzhen.encoders.prompts import Templates
from juzhen.encoders.tokens import TokenTable, characters, token_codes, unknown_number, unknown_texts
from juzhen.evaluation import evaluate
from juzhen.evaluation.known_characters import changes, groups, known_characters, known_groups
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder

TEXTS = ["我養貓", "今天", "我養馬", "我們", "我養貓"]


@pytest.fixture(scope="module")
def encoder(bert_folder):
    return SentenceEncoder.load(bert_folder).eval()


def told(work):
    """Messages of the warnings of a call, and the file that each is told of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    seen = [each for each in caught if issubclass(each.category, UnknownWarning)]
    assert all(each.filename == __file__ for each in seen)
    return [str(each.message) for each in seen]


def test_one_call_tells_once_of_texts_characters_and_equal_pairs(encoder, tmp_path):
    (line,) = told(lambda: encoder.encode(TEXTS))
    assert line.startswith("4 of 5 texts hold")
    assert all(character in line for character in "養貓馬們")
    assert "1 pair of different texts has equal tokens" in line
    for work, counts in (
        (lambda: encoder.encode("我養貓"), "1 of 1 texts holds"),
        (lambda: encoder.score(TEXTS[0], TEXTS[2]), "2 of 2"),
        (lambda: encoder.similarity(TEXTS, TEXTS), "8 of 10"),
        (lambda: encoder.search("今天", TEXTS), "4 of 6"),
        (lambda: encoder.encode(TEXTS, long_texts="chunk"), "4 of 5"),
        (lambda: encoder.encode_chunks(TEXTS), "4 of 5"),
        (lambda: encoder.encode(TEXTS, prompt="養馬"), "4 of 5"),
    ):
        (line,) = told(work)
        assert counts in line
    assert told(lambda: encoder.encode(["今天", "我"], prompt="養馬")) == []
    assert told(lambda: encoder.tokenize(TEXTS)) == []


def test_every_family_tells(bert_folder):
    inner = SentenceEncoder.load(bert_folder)
    cross = CrossEncoder(inner, outputs=1, segments=False, symmetric=True, seed=0).eval()
    (line,) = told(lambda: cross.score([("我養貓", "今天"), ("我養馬", "今天")]))
    assert "2 of 4 texts" in line
    assert "1 pair" in line
    reading = MultiVectorSettings(query_length=8, document_length=30, expand_to=8)
    tokens = MultiVectorEncoder.around(inner, dim=8, reading=reading).eval()
    sparse = SparseEncoder.around(SentenceEncoder.load(bert_folder)).eval()
    for asking in (tokens, sparse):
        (line,) = told(lambda asking=asking: asking.score([("我養貓", "今天"), ("我養馬", "今天")]))
        assert "2 of 4 texts" in line
        assert "1 pair" in line
    prompted = PromptEncoder.around(SentenceEncoder.load(bert_folder), Templates("“[X]”，[MASK]")).eval()
    (line,) = told(lambda: prompted.encode(TEXTS))
    assert "4 of 5 texts" in line
    assert told(lambda: prompted.encode("今天")) == []


def test_pairs_differ_after_folding_and_white_space():
    codes = np.array([7, 7, 7, 9, 9, 0, 0, 5], dtype=np.uint64)
    assert equal_pairs(["a", "b", "c", "Ａ　b", "a  B ", "x", "y", "z"], codes) == 3
    assert equal_pairs(["訂單", "订单"], codes[:2]) == 0
    assert equal_pairs(["a", "a", "b"], codes[:3]) == 1
    assert equal_pairs([], codes[:0]) == 0


def test_codes_are_equal_where_token_numbers_are():
    generator = random.Random(0)
    lists = [[generator.randrange(4) for _ in range(generator.randrange(6))] for _ in range(2000)]
    codes = token_codes(TokenTable.of(lists)).tolist()
    by_code = {}
    for tokens, code in zip(lists, codes, strict=True):
        by_code.setdefault(code, set()).add(tuple(tokens))
    assert all(len(found) == 1 for found in by_code.values())
    assert len(by_code) == len({tuple(tokens) for tokens in lists})
    assert (token_codes(TokenTable.of(lists)[::-1]) == np.array(codes[::-1], dtype=np.uint64)).all()


def reader_of(**options):
    """What reads texts by a Unigram vocabulary without a name for what is unknown, as static encoders have it."""
    pieces = [("<unk>", 0.0), ("今", -1.0), ("天", -1.0), *((f"<0x{n:02X}>", -9.0) for n in range(256))]
    model = models.Unigram(pieces, unk_id=0, **options)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model))
    tokenize = lambda texts: TokenTable.of(tokenizer(list(texts))["input_ids"])  # noqa: E731
    return SimpleNamespace(tokenizer=tokenizer, tokenize=tokenize, max_length=8)


def test_bytes_leave_nothing_unknown_and_a_vocabulary_without_names_is_read():
    texts = ["今天", "養貓天", "天"]
    plain, spelt = reader_of(), reader_of(byte_fallback=True)
    assert plain.tokenizer.unk_token_id is None
    assert unknown_number(plain.tokenizer) == 0
    assert unknown_texts(plain, plain.tokenize(texts)).tolist() == [False, True, False]
    assert characters(plain.tokenizer, texts) == {"養": 1, "貓": 1}
    assert not unknown_texts(spelt, spelt.tokenize(texts)).any()
    assert not characters(spelt.tokenizer, texts)


def test_results_hold_the_share_and_a_cache_does_not_change_it(encoder, tmp_path):
    rows = [("我養貓", "我養馬", 1.0), ("今天", "我", 0.0), ("今天", "我養貓", 0.5)]
    lines = told(lambda: evaluate(encoder, rows))
    assert len(lines) == 1
    assert "2 of 4 texts" in lines[0]
    assert "1 pair" in lines[0]
    examples = as_examples(rows, split="dev")
    facts = {"looked_at": 4, "texts": 2, "pairs": 1, "share": 0.5}
    for settings in (EvaluationSettings(), EvaluationSettings(long_texts="chunk")):
        _, described = EvaluationRun(encoder, settings)([examples], seen={})
        assert described[f"dev/{examples.name}"]["unknown"] == facts
    kept = EvaluationSettings()
    kept.evaluation.cache_embeddings = True
    for _ in range(2):  # the second one encodes nothing
        _, described = EvaluationRun(encoder, kept, str(tmp_path))([examples], seen={})
        assert described[f"dev/{examples.name}"]["unknown"] == facts


def test_fit_tells_of_its_rows(bert_folder):
    rows = [("我養貓", "今天", 1.0), ("今天", "我", 0.0)]
    (line,) = told(lambda: fit(SentenceEncoder.load(bert_folder), rows, epochs=1, progress=False))
    assert "1 of 3 texts holds" in line


def test_other_forms_of_texts(encoder):
    found = known_characters(encoder, ["我abc", "我養貓", "我養馬"])
    assert (found.unknown.texts, found.unknown.pairs) == (2, 1)
    assert found.characters == {"養": 2, "貓": 1, "馬": 1}
    assert found.forms["simplified"].changed == 2
    assert found.forms["full-width"].changed == 1
    assert found.forms["lower case"].changed == 0
    assert found.forms["lower case"].equal is None
    for form in found.forms.values():
        assert form.score is None or -1 <= form.score <= 1 + 1e-6
        assert form.equal != 1 or form.score == pytest.approx(1)
    assert json.loads(json.dumps(found.facts()))["share"] == pytest.approx(2 / 3, abs=1e-6)


def test_scripts_without_opencc(monkeypatch):
    monkeypatch.setitem(sys.modules, "opencc", None)
    forms = changes()
    assert forms["simplified"][1]("訂單") == "订单"
    assert forms["traditional"][1]("订单发现") == "訂單發現"
    assert "frequent" in forms["traditional"][0]
    assert {*inverse_table()} == {*script_table().values()}


def test_lists_of_characters(encoder):
    sorts = groups()
    assert [len(sorts[name]) for name in ("hanzi, level 1", "hanzi, level 2")] == [3755, 3008]
    assert all(len(one) == 1 for members in sorts.values() for one in members)
    assert "🙂" in sorts["emoji"]
    assert "の" in sorts["kana"]
    found = known_groups(encoder).groups
    assert "今" not in found["hanzi, level 1"].unknown
    assert "a" not in found["Latin"].unknown
    assert len(found["kana"].unknown) == found["kana"].characters


def test_the_verb(bert_folder, encoder, tmp_path, capfd):
    folder, file = encoder.save(tmp_path / "encoder"), tmp_path / "texts.txt"
    file.write_text("\n".join([*TEXTS, "abc"]), encoding="utf-8")
    assert main(["characters", str(folder), str(file), "--json"]) == 0
    told = capfd.readouterr()
    facts = json.loads(told.out)
    assert (facts["looked_at"], facts["texts"], facts["pairs"]) == (5, 3, 1)
    assert "warning" not in told.err
    assert main(["characters", str(folder), str(file), "--limit", "2"]) == 0
    assert "2 texts" in capfd.readouterr().out
    assert main(["encode", str(folder), str(file)]) == 0
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "does not know" in line]
    assert line.startswith("warning: 4 of 6 texts")
    assert main(["index", "build", str(tmp_path / "index"), str(folder), str(file)]) == 0
    assert "4 of 6 texts" in capfd.readouterr().err
    assert main(["index", "info", str(tmp_path / "index")]) == 0
    assert "NFKC" in capfd.readouterr().out


def test_a_call_of_any_size_keeps_so_many_texts_and_counts_all(monkeypatch):
    """Portions, and calls within a call, as an index is built of them."""
    monkeypatch.setattr(text_warnings, "KEPT", 100)
    outer = text_warnings.Readings(lambda texts: Counter("鹉"))
    for start in range(0, 1000, 70):
        inner = text_warnings.Readings(outer.characters)
        texts = [f"text {number}" for number in range(start, min(start + 70, 1000))]
        numbers = np.arange(start, start + len(texts))
        codes = np.where(numbers % 10 == 0, 7, numbers + 100).astype(
            np.uint64
        )  # each tenth text is one to it
        inner.add(texts, numbers % 5 == 0, codes, {})
        outer.merge(inner)
    assert len(outer.texts) == sum(map(len, outer.codes)) == 100
    found = outer.counted()
    assert (found.looked_at, found.texts, found.compared) == (1000, 200, 100)
    assert found.pairs == 10 * 9 // 2
    assert (
        "45 pairs of different texts have equal tokens for this encoder, among the first 100" in found.line()
    )
    assert found.facts().keys() == {"looked_at", "texts", "pairs", "share"}


def test_a_call_that_keeps_all_its_texts_says_nothing_of_it():
    readings = text_warnings.Readings(lambda texts: Counter())
    readings.add(["a", "b", "c"], np.zeros(3, bool), np.array([1, 1, 2], np.uint64), {"a": 3, "b": 1, "c": 1})
    found = readings.counted()
    assert (found.looked_at, found.pairs, found.compared) == (5, 1, None)
    assert "among" not in found.line()


def test_nothing_of_large_arrays_is_held(monkeypatch):
    monkeypatch.setattr(text_warnings, "KEPT", 10)
    readings = text_warnings.Readings(lambda texts: Counter())
    codes = np.arange(1000, dtype=np.uint64)
    readings.add([str(number) for number in codes.tolist()], np.zeros(1000, bool), codes, {})
    assert all(part.base is None for part in readings.codes)
