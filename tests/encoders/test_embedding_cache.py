"""Embeddings on disk are those of the encoder that asks, whole, and never computed twice."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from tokenizers import normalizers

from juzhen.backends import open_backend
from juzhen.core import atomic_write
from juzhen.core.array_cache import SUFFIX
from juzhen.core.file_guard import MARKER
from juzhen.encoders import embedding_cache, load_encoder, save_encoder, sentence_encoder
from juzhen.encoders import embedding_cache as module
from juzhen.encoders.embedding_cache import EmbeddingCache, encoder_digest, unchanged_weights
from juzhen.encoders.tokens import tokenizer_digest

TEXTS = ["今天天气很好吗", "我", "你他们是的在不了有和人这中大", "今天", "我", "ab cd"]


@pytest.fixture
def encoder(bert_folder, load):
    return load(bert_folder)


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path)


def embed(encoder, cache, texts=TEXTS, **how):
    """Embeddings, and the number of sentences that went through the encoder for them."""
    encoded = []
    hook = encoder.register_forward_pre_hook(lambda module, inputs: encoded.append(len(inputs[0])))
    try:
        embeddings = encoder.encode(texts, batch_tokens=64, show_progress=False, cache=cache, **how)
    finally:
        hook.remove()
    return embeddings, sum(encoded)


def segments(cache):
    return sorted(cache.folder.rglob(f"*{SUFFIX}"))


def test_only_missing_sentences_are_encoded(encoder, cache):
    plain = embed(encoder, None)[0]
    first, encoded = embed(encoder, cache, TEXTS[:3])
    assert encoded == 3
    second, encoded = embed(encoder, cache)
    assert encoded == 2  # 今天 and ab cd; 我 comes twice and is known
    third, encoded = embed(encoder, cache, TEXTS[::-1])
    assert encoded == 0
    np.testing.assert_array_equal(first, second[:3])
    np.testing.assert_array_equal(third, second[::-1])
    np.testing.assert_allclose(second, plain, rtol=1e-4, atol=1e-5)


def test_a_known_sentence_is_not_tokenised(encoder, cache, monkeypatch):
    """Not even to count what is truncated, where it has fewer bytes than the encoder reads tokens."""
    fitting = [text for text in TEXTS if len(text.encode()) < 20]
    assert fitting
    embed(encoder, cache, fitting)
    monkeypatch.setattr(encoder, "tokenize", lambda texts: pytest.fail("tokenised"))
    embed(encoder, cache, fitting)


def change_weight(encoder):
    with torch.no_grad():
        next(encoder.parameters()).view(-1)[7] += 1e-6


def change_tokenizer(encoder):
    encoder.tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()


CHANGES = {
    "one weight": change_weight,
    "tokenizer": change_tokenizer,
    "pooling": lambda encoder: setattr(encoder, "pooling", "cls"),
    "normalize": lambda encoder: setattr(encoder, "normalize", True),
    "max_length": lambda encoder: setattr(encoder, "max_length", 5),
    "architecture": lambda encoder: setattr(encoder.backbone.config, "hidden_act", "relu"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_embeddings_is_another_shelf(encoder, cache, change):
    embed(encoder, cache)
    CHANGES[change](encoder)
    assert embed(encoder, cache)[1] == len(set(TEXTS))


def test_a_back_end_is_another_shelf(encoder, cache):
    exact, rounded = (
        embed(encoder, cache)[0],
        embed(encoder, cache, backend=open_backend(encoder, "torch_bf16"))[0],
    )
    assert not np.array_equal(exact, rounded)
    np.testing.assert_array_equal(
        embed(encoder, cache, backend=open_backend(encoder, "torch_bf16"))[0], rounded
    )


def test_the_digest_does_not_change_by_using_saving_and_loading(encoder, tmp_path):
    before = encoder_digest(encoder, "torch")
    encoder.train().encode(TEXTS, batch_tokens=64, show_progress=False)
    assert encoder_digest(encoder.eval(), "torch") == before
    folder = save_encoder(encoder, tmp_path / "saved", card={})
    assert encoder_digest(load_encoder(folder), "torch") == before


def test_a_digest_is_computed_once_only_while_the_weights_are_promised_to_stay(encoder, monkeypatch):
    hashed = []
    monkeypatch.setattr(
        embedding_cache, "tokenizer_digest", lambda tokenizer: hashed.append(1) or tokenizer_digest(tokenizer)
    )
    with unchanged_weights():
        before = {encoder_digest(encoder, variant) for variant in ("torch", "torch", "onnx")}
    assert (len(before), len(hashed)) == (2, 2)
    with torch.no_grad():
        next(encoder.parameters()).data.add_(1)  # neither its address nor its version changes
    assert encoder_digest(encoder, "torch") not in before
    with unchanged_weights():
        assert encoder_digest(encoder, "torch") not in before


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "flipped bit": flip,
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "something else": lambda path: path.write_text("not an array"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_is_named_and_its_sentences_encoded_again(encoder, cache, damage):
    embed(encoder, cache, TEXTS[:3])
    (damaged,) = segments(cache)
    embed(encoder, cache)
    expected = embed(encoder, None)[0]
    DAMAGES[damage](damaged)
    with pytest.warns(UserWarning, match=f"{damaged.name}: cannot be used .*made again"):
        again, encoded = embed(encoder, cache)
    assert encoded == 3
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)
    assert embed(encoder, cache)[1] == 0


def test_a_segment_of_another_encoder_is_not_read(encoder, cache, bert_folder, load):
    other = load(bert_folder)
    next(other.parameters()).data.add_(1)
    expected = embed(encoder, None, TEXTS[:3])[0]
    embed(other, cache, TEXTS[:3])
    (theirs,) = segments(cache)
    embed(encoder, cache, TEXTS[:3])
    (ours,) = {*segments(cache)} - {theirs}
    shutil.copy(theirs, ours)
    with pytest.warns(UserWarning, match="made again"):
        again, encoded = embed(encoder, cache, TEXTS[:3])
    assert encoded == 3
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


def below_a_file(folder, monkeypatch):
    (folder / "embeddings").write_text("a file where the folder should be")


def on_a_full_disk(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write.os, "fsync", full)


@pytest.mark.parametrize(
    ("spoil", "told"), [(below_a_file, "cannot be kept here"), (on_a_full_disk, "No space left on device")]
)
def test_a_place_that_cannot_be_written_costs_nothing_but_the_cache(
    encoder, cache, tmp_path, monkeypatch, spoil, told
):
    spoil(tmp_path, monkeypatch)
    with pytest.warns(UserWarning, match=told):
        embeddings, encoded = embed(encoder, cache)
    assert encoded == len(set(TEXTS))
    np.testing.assert_array_equal(embeddings, embed(encoder, None)[0])
    if cache.folder.is_dir():  # no half file is left
        assert {path.name for path in cache.folder.rglob("*") if path.is_file()} == {MARKER}


def test_what_was_done_before_a_stop_is_kept(encoder, cache, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "PORTION", 2)
    plain = encoder.forward
    calls = []

    def stops(tokens):
        calls.append(len(tokens))
        if sum(calls) > 2:
            raise KeyboardInterrupt
        return plain(tokens)

    monkeypatch.setattr(encoder, "forward", stops)
    with pytest.raises(KeyboardInterrupt):
        embed(encoder, cache)
    monkeypatch.setattr(encoder, "forward", plain)
    assert embed(encoder, cache)[1] == len(set(TEXTS)) - 2


def test_many_small_segments_become_one(encoder, cache, monkeypatch):
    monkeypatch.setattr(module, "MOST_SMALL", 3)
    expected = embed(encoder, None)[0]
    for text in TEXTS:
        embed(encoder, cache, [text])
    assert len(segments(cache)) <= 3
    again, encoded = embed(encoder, cache)
    assert encoded == 0
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


def test_large_arrays_go_to_several_segments(encoder, cache, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 2 * (16 + 4 * encoder.dim))
    embed(encoder, cache)
    assert len(segments(cache)) == 3  # five sentences, two to a segment
    assert embed(encoder, cache)[1] == 0


def test_half_precision_is_a_shelf_of_its_own_and_is_read_where_it_lies(encoder, cache, tmp_path):
    embeddings = embed(encoder, cache)[0][:4]  # in full precision, which must not be found below
    partition = cache.partition(encoder, "torch", dtype=module.HALF)
    assert (partition.find(TEXTS).places == -1).all()
    partition.add(TEXTS[:2], embeddings[:2])
    partition.add(TEXTS[2:4], embeddings[2:])
    again = cache.partition(encoder, "torch", dtype=module.HALF).find(TEXTS)
    assert (again.places >= 0).tolist() == [True] * 5 + [False]  # 我 comes twice
    for found in (again, partition.find(TEXTS), pickle.loads(pickle.dumps(again))):
        rows = found[np.array([3, 0, 2])]
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, embeddings[[3, 0, 2]].astype(np.float16))


WRITER = """
import sys
from juzhen.encoders import load_encoder
from juzhen.encoders.embedding_cache import EmbeddingCache
folder, cache, *texts = sys.argv[1:]
load_encoder(folder).encode(texts, batch_tokens=64, show_progress=False, cache=EmbeddingCache(cache))
"""


@pytest.mark.slow
def test_two_processes_at_once_and_a_third_that_reads(bert_folder, encoder, cache, tmp_path, project_root):
    command = [sys.executable, "-c", WRITER, str(bert_folder), str(tmp_path)]
    writers = [subprocess.Popen([*command, *texts], cwd=project_root) for texts in (TEXTS[:4], TEXTS[2:])]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    embeddings, encoded = embed(encoder, cache)
    assert encoded == 0
    np.testing.assert_allclose(embeddings, embed(encoder, None)[0], rtol=1e-4, atol=1e-5)
    assert not list(cache.folder.rglob("*.part"))


def test_vectors_that_cannot_be_kept_are_kept_for_this_process(encoder, tmp_path):
    """A distillation reads its teacher's vectors back: a cache that is a file must not end it."""

    from lightning_modules.distill import TeacherEmbeddingCache

    texts = ["今天天气很好", "我们"]
    file = tmp_path / "file"
    file.write_text("")
    kept = TeacherEmbeddingCache(encoder, EmbeddingCache(file), precision="32-true")
    with pytest.warns(UserWarning, match="cannot be kept here"):
        kept.fill(texts, progress=False)
    found = pickle.loads(pickle.dumps(kept.find(texts, np.arange(2))))
    np.testing.assert_allclose(found[np.arange(2)], encoder.encode(texts), atol=2e-3)
