"""Embeddings cut to their first numbers, in bytes and in bits, and what a search over them finds."""

import numpy as np
import pytest

from juzhen import SentenceEncoder, quantize
from juzhen.cli.main import main as juzhen
from juzhen.encoders.search import byte_ranges, exact_search, recall

TEXTS = ["今天天气很好", "天气不错", "怎么修改绑定的手机号", "在哪里换绑手机号", "苹果和香蕉"]


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    return SentenceEncoder.load(encoder_folder)


@pytest.fixture(scope="module")
def vectors():
    """Documents and queries of which the first dimension is wide, and one is constant."""
    drawn = np.random.default_rng(0).standard_normal((520, 24)).astype(np.float32)
    drawn[:, 0] *= 3
    drawn[:, 5] = 0.25
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn[:500], drawn[500:]


def test_cut_embeddings_are_the_first_numbers(encoder, encoder_folder):
    whole, cut = encoder.encode(TEXTS), encoder.encode(TEXTS, truncate_dim=8)
    np.testing.assert_array_equal(cut, whole[:, :8])
    np.testing.assert_array_equal(SentenceEncoder.load(encoder_folder, truncate_dim=8).encode(TEXTS), cut)
    unit = SentenceEncoder.load(encoder_folder)
    unit.normalize = True
    np.testing.assert_allclose(np.linalg.norm(unit.encode(TEXTS, truncate_dim=8), axis=1), 1, rtol=1e-6)
    cosine = cut[0] @ cut[1] / np.linalg.norm(cut[0]) / np.linalg.norm(cut[1])
    assert encoder.score(*TEXTS[:2], truncate_dim=8) == pytest.approx(cosine, abs=1e-6)
    assert encoder.similarity(whole[0], whole[1], truncate_dim=8) == pytest.approx(cosine, abs=1e-6)
    by_texts, by_vectors = (encoder.search(TEXTS[0], corpus, 3, truncate_dim=8) for corpus in (TEXTS, whole))
    assert [hit.corpus_id for hit in by_texts] == [hit.corpus_id for hit in by_vectors]
    assert by_texts[1].score == pytest.approx(by_vectors[1].score, abs=1e-6)


def test_bytes_are_steps_between_the_ends_of_each_dimension(vectors):
    documents, queries = vectors
    small = quantize(documents)
    ranges = byte_ranges(documents)
    steps = (ranges[1] - ranges[0]) / 255
    varied = steps > 0
    error = np.abs(small[:] - documents)[:, varied]
    assert (error <= 0.51 * steps[varied] + 1e-6).all()
    assert small.codes.dtype == np.int8
    assert small.size_in_bytes == documents.size
    assert quantize(queries, ranges=ranges).ranges is not None
    beyond = quantize(documents * 9, ranges=ranges).codes[:, varied]
    assert beyond.min() == -128
    assert beyond.max() == 127


@pytest.mark.parametrize(("precision", "least"), [("int8", 0.97), ("binary", 0.3)])
def test_rescoring_by_whole_embeddings_mends_what_codes_lose(vectors, precision, least):
    documents, queries = vectors
    exact, scores = exact_search(queries, documents, 10)
    found = {
        rescore: quantize(documents, precision, whole=documents, rescore=rescore).search(queries, 10)
        for rescore in (1, 4, 50)
    }
    np.testing.assert_array_equal(found[50][0], exact)
    np.testing.assert_allclose(found[50][1], scores, atol=1e-6)
    recalls = [recall(queries, documents, found=found[rescore][0], exact=exact) for rescore in (1, 4, 50)]
    assert recalls == sorted(recalls)
    assert recalls[0] >= least
    alone = quantize(documents, precision).search(queries, 10)[0]
    np.testing.assert_array_equal(np.sort(alone), np.sort(found[1][0]))


def test_an_encoder_searches_over_codes(encoder):
    corpus = encoder.encode_document(TEXTS)
    whole = encoder.search(TEXTS[:2], corpus, 2)
    for precision in ("int8", "binary"):
        assert encoder.search(TEXTS[:2], quantize(corpus, precision, whole=corpus), 2) == whole
    cut = encoder.encode_document(TEXTS, truncate_dim=8)
    assert encoder.search(TEXTS[0], quantize(cut, whole=cut), 1)[0].document == 0  # the query is cut, too


@pytest.mark.oracle
def test_codes_are_those_of_sentence_transformers(vectors):
    theirs = pytest.importorskip("sentence_transformers.util.quantization").quantize_embeddings
    documents, queries = vectors
    np.testing.assert_array_equal(quantize(documents, "binary").codes, theirs(documents, "ubinary"))
    np.testing.assert_array_equal(quantize(documents).codes, theirs(documents, "int8"))
    ranges = byte_ranges(documents)
    np.testing.assert_array_equal(
        quantize(queries, ranges=ranges).codes, theirs(queries, "int8", ranges=ranges)
    )


def test_the_verb_writes_bytes_bits_and_ranges(encoder_folder, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    words = ["encode", str(encoder_folder), str(lines), "--truncate-dim", "8"]
    assert juzhen([*words, "--precision", "int8"]) in (0, None)
    codes, ranges = np.load(tmp_path / "lines.npy"), np.load(tmp_path / "lines.ranges.npy")
    assert (codes.shape, codes.dtype, ranges.shape) == ((5, 8), np.int8, (2, 8))
    out = tmp_path / "again.npy"
    assert juzhen(
        [*words, "--precision", "int8", "--ranges", str(tmp_path / "lines.ranges.npy"), "--output", str(out)]
    ) in (0, None)
    np.testing.assert_array_equal(np.load(out), codes)
    assert not (tmp_path / "again.ranges.npy").exists()
    assert juzhen([*words, "--precision", "binary", "--output", str(tmp_path / "bits.npy")]) in (0, None)
    assert np.load(tmp_path / "bits.npy").shape == (5, 1)
    assert "5 embeddings of 8 dimensions, in binary" in capsys.readouterr().err
