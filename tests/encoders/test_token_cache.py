"""Tables on disk: the same numbers as without, made once, and never the wrong ones."""

import errno
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import juzhen.encoders.tokens as token_cache
from juzhen.core import array_cache
from juzhen.core.array_cache import SUFFIX, ArrayCache, read_arrays
from juzhen.core.file_guard import MARKER
from juzhen.encoders.tokens import CachedTokenizer, MappedTable, tokenizer_digest

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友", "abc", "今天天气很好吗"]


@pytest.fixture(autouse=True)
def small_tables_too(monkeypatch):
    monkeypatch.setattr(token_cache, "MIN_TEXTS", 1)


@pytest.fixture(scope="module")
def encoder(bert_folder):
    from juzhen.encoders import load_encoder

    return load_encoder(bert_folder)


def files(folder):
    return sorted(one for one in (Path(folder) / "tokens").iterdir() if one.name != MARKER)


def counting(encoder, folder, monkeypatch):
    """A cached tokenizer, and the list of how many texts it really tokenised at each call."""
    cached, calls = CachedTokenizer(encoder, folder, progress=False), []
    plain = cached._tokenize
    monkeypatch.setattr(cached, "_tokenize", lambda texts: calls.append(len(texts)) or plain(texts))
    return cached, calls


def test_texts_are_tokenised_once(encoder, tmp_path, monkeypatch):
    cached, calls = counting(encoder, tmp_path, monkeypatch)
    tables = [cached(TEXTS), cached(list(TEXTS)), cached(TEXTS[:3])]
    assert calls == [5, 3]
    for table, texts in zip(tables, (TEXTS, TEXTS, TEXTS[:3]), strict=True):
        assert table == encoder.tokenize(texts)
        assert isinstance(table, MappedTable)
        assert not table.ids.flags.writeable
    assert len(files(tmp_path)) == 2
    assert all(file.suffix == SUFFIX for file in files(tmp_path)), "nothing half written is left"


def test_few_texts_leave_no_file(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "MIN_TEXTS", len(TEXTS) + 1)
    assert CachedTokenizer(encoder, tmp_path, progress=False)(TEXTS) == encoder.tokenize(TEXTS)
    assert CachedTokenizer(encoder, None, progress=False)(TEXTS * 2) == encoder.tokenize(TEXTS * 2)
    assert list(tmp_path.iterdir()) == []


def test_everything_that_changes_numbers_changes_the_name(bert_folder, load, tmp_path):
    encoder = load(bert_folder)

    def name(encoder, texts=TEXTS):
        return token_cache._key(encoder, texts)

    first = name(encoder)
    encoder.tokenize(TEXTS * 3)  # leaves its truncation behind in the tokenizer
    assert name(encoder) == name(load(bert_folder)) == first
    encoder.tokenizer.save_pretrained(tmp_path)
    again = load(bert_folder)
    again.tokenizer = type(encoder.tokenizer).from_pretrained(tmp_path)
    assert name(again) == first, "another folder, the same tokenizer"
    others = [
        name(load(bert_folder, max_length=7)),
        name(encoder, TEXTS[::-1]),
        name(encoder, TEXTS[:-1]),
        name(encoder, [*TEXTS[:-2], TEXTS[-2] + TEXTS[-1], ""]),
        name(encoder, [*TEXTS[:-2], TEXTS[-2] + TEXTS[-1][:1], TEXTS[-1][1:]]),
    ]
    again.tokenizer.add_tokens(["天气"])
    others.append(name(again))
    cut = load(bert_folder)
    cut.tokenizer.truncation_side = "left"
    others.append(name(cut))
    assert len({first, *others}) == 1 + len(others)


def test_a_tokenizer_in_python_has_a_digest_too():
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    assert not tokenizer.is_fast
    assert tokenizer_digest(tokenizer) == tokenizer_digest(ByT5Tokenizer())
    assert tokenizer_digest(ByT5Tokenizer(extra_ids=3)) != tokenizer_digest(tokenizer)


def of_other_texts(path):
    (other,) = (one for one in path.parent.glob(f"*{SUFFIX}") if one != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no table at all, but long enough to have a footer"),
        of_other_texts,
    ],
    ids=["torn", "halved", "empty", "text", "other texts"],
)
def test_a_broken_file_is_named_and_replaced(encoder, tmp_path, monkeypatch, spoil):
    cached, calls = counting(encoder, tmp_path, monkeypatch)
    cached(TEXTS)
    (path,) = files(tmp_path)
    cached(TEXTS[:2])
    spoil(path)
    with pytest.warns(UserWarning, match=str(path)):
        assert cached(TEXTS) == encoder.tokenize(TEXTS)
    assert cached(TEXTS) == encoder.tokenize(TEXTS)
    assert calls == [5, 2, 5], "tokenised again, and only once"


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore:.*cannot be used")
def test_no_flipped_bit_gives_wrong_numbers(encoder, tmp_path, place, bit):
    cached = CachedTokenizer(encoder, tmp_path, progress=False)
    expected = cached(TEXTS)
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.unlink()  # the old one is still mapped
    path.write_bytes(content)
    assert cached(TEXTS) == expected


def on_a_full_disk(folder, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    return folder


def below_a_file(folder, monkeypatch):
    (folder / "file").write_text("")
    return folder / "file"


def read_only(folder, monkeypatch):
    def fail(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("utime", "replace", "unlink"):
        monkeypatch.setattr(os, name, fail)
    monkeypatch.setattr(array_cache, "write_arrays", fail)
    return folder


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (on_a_full_disk, "No space left.*another folder for the cache"),
        (below_a_file, "cannot be kept here"),
        (read_only, "Permission denied"),
    ],
)
def test_a_place_that_cannot_be_written_costs_nothing_but_a_warning(
    encoder, tmp_path, monkeypatch, spoil, told
):
    folder = spoil(tmp_path, monkeypatch)
    cached, calls = counting(encoder, folder, monkeypatch)
    with pytest.warns(UserWarning, match=told):
        assert cached(TEXTS) == encoder.tokenize(TEXTS)
    assert calls == [5], "what was computed is used"
    if spoil is on_a_full_disk:
        assert files(folder) == []


def test_a_cache_that_may_only_be_read_is_read(encoder, tmp_path, monkeypatch):
    CachedTokenizer(encoder, tmp_path, progress=False)(TEXTS)
    read_only(tmp_path, monkeypatch)
    cached, calls = counting(encoder, tmp_path, monkeypatch)
    assert cached(TEXTS) == encoder.tokenize(TEXTS)
    assert calls == []


def test_writers_at_once_end_with_one_file_that_all_map(encoder, tmp_path, monkeypatch):
    together = threading.Barrier(4, timeout=60)
    plain = array_cache.write_arrays
    monkeypatch.setattr(
        array_cache, "write_arrays", lambda *given, **more: (together.wait(), plain(*given, **more))
    )
    found = []
    expected = encoder.tokenize(TEXTS)

    def run():
        cached = CachedTokenizer(encoder, tmp_path, progress=False)
        cached._tokenize = lambda texts: expected
        found.append(cached(TEXTS))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(table == expected for table in found)
    assert [file.suffix for file in files(tmp_path)] == [SUFFIX]


def test_another_process_is_sent_the_path_and_not_the_tokens(encoder, tmp_path):
    table = CachedTokenizer(encoder, tmp_path, progress=False)(TEXTS * 500)
    sent = pickle.dumps(table)
    assert len(sent) < 1000 < table.ids.nbytes
    again = pickle.loads(sent)
    assert isinstance(again, MappedTable)
    assert again == table


def test_what_was_used_longest_ago_goes_first(tmp_path):
    arrays, keys = {"ids": np.arange(100)}, [f"{number:032}" for number in range(4)]
    cache = ArrayCache(tmp_path / "cache", holds="numbers", max_bytes=2**20)
    size = cache.write(keys[0], arrays).path.stat().st_size
    for number, key in enumerate(keys):
        cache.write(key, arrays)
        os.utime(cache.path(key), (number, number))
    cache.read(keys[0])  # used again: now the newest
    killed = cache.path(keys[0]).with_name(f".{keys[0]}.{'0' * 16}.part")
    killed.write_text("")
    ArrayCache(cache.folder, holds="numbers", max_bytes=3 * size).write("f" * 32, arrays)
    assert [cache.read(key) is not None for key in (*keys, "f" * 32)] == [True, False, False, True, True]
    assert not killed.exists()
    ArrayCache(cache.folder, holds="numbers", max_bytes=0).write("e" * 32, arrays)
    assert cache.read("f" * 32)["ids"].tolist() == list(range(100)), "what is used within a day stays"


def test_arrays_of_all_sizes_are_read_as_they_were_written(tmp_path):
    arrays = {
        "bytes": np.arange(32, dtype=np.uint8).reshape(2, 16)[:, ::-1],
        "none": np.empty((0, 3), dtype=np.float32),
        "halves": np.ones((3, 5), dtype=np.float16),
        "offsets": np.arange(3),
    }
    cache = ArrayCache(tmp_path, holds="numbers", max_bytes=2**20)
    stored = cache.write("sub/" + "0" * 32, arrays)
    assert cache.keys("sub") == ["sub/" + "0" * 32]
    for again in (stored, pickle.loads(pickle.dumps(stored)), read_arrays(stored.path)):
        assert {name: (one.dtype, one.tolist()) for name, one in again.items()} == {
            name: (one.dtype, one.tolist()) for name, one in arrays.items()
        }
        assert not any(one.flags.writeable for one in again.values())
