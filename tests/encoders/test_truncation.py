"""Texts that are truncated, and dimensions that were never trained: one warning per call with counts, or a refusal."""

import warnings

import numpy as np
import pytest
import rerankers

from juzhen import fit
from juzhen.cli.main import main
from juzhen.core.text_warnings import TruncationWarning
from juzhen.encoders import CrossEncoder, SentenceEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.evaluation import evaluate
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder

LONG = "今天天气很好" * 20
TEXTS = ["今天", "我", LONG, "你们", LONG]
READS = 32  # tokens, by the folder


@pytest.fixture(scope="module")
def encoder(bert_folder):
    return SentenceEncoder.load(bert_folder)


def told(work):
    """Messages of the warnings of a call, and the file that each is told of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    seen = [each for each in caught if issubclass(each.category, TruncationWarning)]
    assert all(each.filename == __file__ for each in seen)
    return [str(each.message) for each in seen]


def test_one_call_warns_once_with_counts(encoder, tmp_path):
    cache = EmbeddingCache(tmp_path)
    calls = [
        (lambda: encoder.encode(TEXTS), "2 of 5 texts are longer than 32 tokens"),
        (lambda: encoder.encode(LONG), "1 of 1 texts is longer"),
        (lambda: encoder.encode_query(TEXTS), "2 of 5"),
        (lambda: encoder.encode(TEXTS, cache=cache), "2 of 5"),
        (lambda: encoder.encode(TEXTS, cache=cache), "2 of 5"),  # all of them kept
        (lambda: encoder.encode([*TEXTS, "他"], cache=cache), "2 of 6"),
        (lambda: encoder.score("我", LONG), "1 of 2 texts"),
        (lambda: encoder.similarity(TEXTS[:3], TEXTS), "3 of 8"),
        (lambda: encoder.search(TEXTS[:3], TEXTS), "3 of 8"),
        (lambda: encoder.search(LONG, encoder.encode(["我", "你"])), "1 of 1"),
    ]
    for work, counts in calls:
        (line,) = told(work)
        assert counts in line
        assert "long_texts" in line
        assert "strict" in line
    for quiet in (
        lambda: encoder.encode(TEXTS[:2]),
        lambda: encoder.encode(TEXTS[:2], strict=True),
        lambda: encoder.encode(TEXTS, long_texts="chunk"),
        lambda: encoder.encode_chunks(TEXTS),
        lambda: encoder.tokenize(TEXTS),
    ):
        assert told(quiet) == []


def test_dimensions_that_were_never_trained(bert_folder):
    encoder = SentenceEncoder.load(bert_folder)
    for work in (
        lambda: encoder.encode("今天", truncate_dim=8),
        lambda: encoder.similarity(["今"], ["我"], truncate_dim=8),
        lambda: encoder.search("今", ["我"], truncate_dim=8),
        lambda: encoder.search(np.ones(32), np.ones((2, 32)), truncate_dim=8),
        lambda: encoder.encode_chunks(["今"], truncate_dim=8),
    ):
        (line,) = told(work)
        assert line.startswith("truncate_dim=8")
        assert "32" in line
    (line,) = told(lambda: encoder.encode(TEXTS, truncate_dim=8))
    assert "2 of 5" in line
    assert "truncate_dim=8" in line
    encoder.nested_dims = [8, 16]
    assert told(lambda: encoder.encode("今天", truncate_dim=8)) == []
    assert told(lambda: encoder.encode("今天", truncate_dim=12)) == []
    assert "nested_dims: 8, 16" in told(lambda: encoder.encode("今天", truncate_dim=4))[0]
    encoder.nested_dims, encoder.truncate_dim = [], 8
    assert len(told(lambda: encoder.encode("今天"))) == 1


def test_pairs_that_are_read_as_one(bert_folder, tmp_path):
    inner = SentenceEncoder.load(bert_folder)
    cross = CrossEncoder(inner, outputs=1, segments=False, symmetric=True, seed=0).eval()
    fits = ("今天天气" * 3, "我你他们" * 4)  # 12 + 16 + 3 special tokens
    pairs = [("今天", LONG), ("今天", "我"), fits, (fits[0] + "今", fits[1] + "我")]
    (line,) = told(lambda: cross.score(pairs))
    assert "2 of 4 pairs are longer than 32 tokens" in line
    (line,) = told(lambda: cross.rank("今天", TEXTS))
    assert "2 of 5 pairs" in line
    assert told(lambda: cross.score([pairs[1], fits])) == []
    asked = GenerativeReranker.around(
        SentenceEncoder.load(rerankers.write("qwen3", tmp_path / "lm", max_position_embeddings=260))
    )
    (line,) = told(lambda: asked.score([("a dog", "x " * 200), ("a", "b")]))
    assert "1 of 2 pairs is longer than" in line


def test_token_vectors_and_sparse_ones(bert_folder):
    reading = MultiVectorSettings(query_length=8, document_length=30, expand_to=8)
    tokens = MultiVectorEncoder.around(SentenceEncoder.load(bert_folder), dim=8, reading=reading).eval()
    sparse = SparseEncoder.around(SentenceEncoder.load(bert_folder)).eval()
    query = "今天天气很好吗"
    calls = [
        (lambda: tokens.encode(TEXTS), ["2 of 5 texts are longer than 30"]),
        (lambda: tokens.encode_query(["今", query]), ["1 of 2 texts is longer than 8"]),
        (lambda: tokens.score([(query, "我"), (query, LONG)]), ["2 of 2 texts are longer than 8", "1 of 2"]),
        (lambda: tokens.search("今", TEXTS), ["2 of 5"]),
        (lambda: sparse.encode(TEXTS), ["2 of 5 texts are longer than 32"]),
        (lambda: sparse.similarity(TEXTS, ["我"]), ["2 of 6"]),
        (lambda: sparse.words(LONG, LONG), ["2 of 2"]),
    ]
    for work, parts in calls:
        (line,) = told(work)
        assert all(part in line for part in parts), line


def test_fit_and_evaluate_say_it_of_their_rows(bert_folder):
    rows = [("今天", "我", 1.0), ("今天", LONG, 0.0)]
    lines = told(lambda: fit(SentenceEncoder.load(bert_folder), rows, epochs=1, progress=False))
    assert len(lines) == 1
    assert "1 of 3 texts is longer than 32 tokens" in lines[0]
    assert "strict" not in lines[0]
    (line,) = told(lambda: evaluate(SentenceEncoder.load(bert_folder), rows))
    assert "1 of 3 texts is longer than 32 tokens" in line


def test_verbs_say_it_in_one_line(encoder, tmp_path, capfd):
    folder, table = encoder.save(tmp_path / "encoder"), tmp_path / "pairs.tsv"
    table.write_text(f"sentence1\tsentence2\n今天\t{LONG}\n我\t你\n", encoding="utf-8")

    def lines(*words):
        assert main([*map(str, words)]) == 0
        told = capfd.readouterr().err.splitlines()
        return [line for line in told if "longer than" in line or "truncate_dim" in line]

    (line,) = lines("score", folder, "--file", table)
    assert line.startswith("warning: 1 of 4 texts is longer than 32 tokens")
    assert "strict" not in line
    (line,) = lines("score", folder, "今天", "我", "--truncate-dim", 8)
    assert "truncate_dim=8" in line
    text = tmp_path / "texts.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    (line,) = lines("encode", folder, text, "--truncate-dim", 32)
    assert "3, 5" in line
    (line,) = lines("index", "build", tmp_path / "index", folder, text)
    assert "2 of 5" in line
    assert "--chunk-tokens" in line
    (line,) = lines("index", "search", tmp_path / "index", LONG)
    assert "1 of 1" in line
