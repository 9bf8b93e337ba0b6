"""Whatever lies where juzhen keeps things for itself, it is used, passed over, or named in one UserError."""

import io
import warnings

import numpy as np
import pytest
import torch
from fuzzing import answer, any_file, memory_bound, on_examples, sizes

from callbacks import RESUME_FILE
from callbacks.resume import saved_state
from juzhen.core.array_cache import ArrayCache
from juzhen.encoders.embedding_cache import CachePartition


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    memory_bound()
    return tmp_path_factory.mktemp("kept")


@sizes
def test_checkpoints(folder, size):
    packed = io.BytesIO()
    torch.save({"global_step": 3, "state_dict": {"a": torch.ones(2)}, "callbacks": {"b": [1, None]}}, packed)

    @on_examples(size, raw=any_file(packed.getvalue()))
    def holds(raw):
        (folder / RESUME_FILE).write_bytes(raw)
        answer(lambda: saved_state(folder))


@sizes
def test_caches(folder, size):
    arrays = ArrayCache(folder / "embeddings", holds="embeddings", max_bytes=2**20)
    CachePartition(arrays, "digest", dim=2).add(["今天"], np.ones((1, 2), np.float32))
    (key,) = arrays.keys("digest")
    segment = arrays.path(key)

    @on_examples(size, raw=any_file(segment.read_bytes()))
    def holds(raw):
        segment.unlink(missing_ok=True)  # what is mapped may not shrink
        segment.write_bytes(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = np.zeros((1, 2), np.float32)
            pending = CachePartition(arrays, "digest", dim=2).fill(["今天"], filled)
        assert (filled == 1).all() == (not len(pending))
