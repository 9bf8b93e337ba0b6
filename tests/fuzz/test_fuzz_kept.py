"""Whatever lies where juzhen keeps things for itself, it is used, passed over, or named in one UserError."""

import io
import os
import warnings

import numpy as np
import pytest
import torch
from fuzzing import answer, any_file, any_json, memory_bound, on_examples, sizes

from callbacks import RESUME_FILE
from callbacks.resume import saved_state
from juzhen.core import network
from juzhen.core.array_cache import ArrayCache
from juzhen.core.result import Score
from juzhen.encoders.embedding_cache import Shelf
from juzhen.report.files import fill_pages
from launch.stage_store import RECORD, StageEntry
from sweeps.clusters import ClusterAttempt
from sweeps.ledger import Ledger, SweepCell


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
def test_records_of_stages(folder, size):
    entry = StageEntry(folder, shared=True)
    record = {"training": {"steps": 3, "weights": "x"}, "settings": {}, "name": "a"}
    scores = {"dev/a/spearman": {"value": 0.5, "low": None, "high": 1.0, "count": 3}}

    @on_examples(size, raw=any_json(record), measured=any_json(scores))
    def holds(raw, measured):
        (folder / RECORD).write_bytes(raw)
        (folder / f"scores-{'0' * 16}.json").write_bytes(measured)
        found = answer(entry.record)
        assert isinstance(found, str) or isinstance(found["training"], dict)
        known = answer(lambda: entry.measured("0" * 32))
        assert known is None or all(isinstance(one, Score) for one in known.values())


@sizes
def test_ends_of_remote_cells(folder, size):
    @on_examples(size, raw=any_json({"status": 0}))
    def holds(raw):
        (folder / "state.json").write_bytes(raw)
        cell = SweepCell(str(folder / "a"), ())
        ended = ClusterAttempt(Ledger(folder), cell, folder / "state.json", "1", lambda: False).poll()
        assert ended is None or isinstance(ended.status, int)


@sizes
def test_caches(folder, size):
    arrays = ArrayCache(folder / "embeddings", holds="embeddings", max_bytes=2**20)
    Shelf(arrays, "digest", dim=2).add(["今天"], np.ones((1, 2), np.float32))
    (key,) = arrays.keys("digest")
    segment = arrays.path(key)

    @on_examples(size, raw=any_file(segment.read_bytes()))
    def holds(raw):
        segment.unlink(missing_ok=True)  # what is mapped may not shrink
        segment.write_bytes(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = np.zeros((1, 2), np.float32)
            pending = Shelf(arrays, "digest", dim=2).fill(["今天"], filled)
        assert (filled == 1).all() == (not len(pending))


@sizes
def test_keys_of_others(folder, size, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", os.fspath(folder / "netrc"))

    @on_examples(size, raw=any_file(b"machine api.wandb.ai login user password x\n"))
    def holds(raw):
        (folder / "netrc").write_bytes(raw)
        assert network._in_netrc("api.wandb.ai") == (b"api.wandb.ai" in raw)


@sizes
def test_pages_that_are_filled(folder, size):
    page = folder / "page.md"

    @on_examples(size, raw=any_file("# 句阵\n<!-- result:none -->\n<!-- /result:none -->\n".encode()))
    def holds(raw):
        page.write_bytes(raw)
        answer(lambda: fill_pages([page], None, tell=lambda line: None))
        assert page.read_bytes() == raw
