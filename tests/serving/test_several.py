"""`juzhen serve --processes 2`: both answer, what they count is added up, and signals lose no request."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter

import numpy as np
import pytest

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from load import Connection, free_port, process, some_texts  # noqa: E402  # needs those packages

from juzhen.encoders import SentenceEncoder  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture
def running(prompted_folder, tmp_path):
    """The first process, its port, and what all of them have logged so far."""
    port, path = free_port(), tmp_path / "log"
    words = ("-m", "juzhen", "serve", str(prompted_folder), "--port", str(port), "--processes", "2")

    def events(name):
        said = [line for line in path.read_text().splitlines() if not line.startswith("error: ")]
        lines = [json.loads(line) for line in said]  # and nothing of libraries
        return [line for line in lines if line["event"] == name]

    with path.open("w") as log, process(sys.executable, *words, port=port, log=log) as started:
        while not events("ready"):
            time.sleep(0.1)
        assert len(events("serving")) == 2
        yield started, port, events


def ask_all_the_time(port, bodies, *, until, clients=16):
    """Counts of statuses, and errors of connections but those of a server that takes no more."""
    answers, lost = [], []

    async def client(number):
        connection = Connection(port)
        for turn in range(10**9):
            if time.monotonic() > until:
                return
            if connection.writer is None:
                try:
                    opened = asyncio.open_connection("127.0.0.1", port)
                    connection.reader, connection.writer = await opened
                except OSError:
                    return
            body = bodies[(number * 7 + turn) % len(bodies)]
            try:
                answers.append((body["texts"][0], *await connection.post("/embed", body)))
            except ConnectionError as error:
                lost.append(error)
                return

    async def all_clients():
        await asyncio.gather(*map(client, range(clients)))

    asyncio.run(all_clients())
    return answers, lost


def test_both_answer_and_signals_lose_nothing(running, prompted_folder):
    started, port, events = running
    texts = some_texts(40)
    bodies = [{"texts": [text], "truncate": True} for text in texts]
    encoder = SentenceEncoder.load(prompted_folder)
    vectors = encoder.encode(texts)
    vectors = dict(zip(texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), strict=True))

    end = time.monotonic() + 6
    threading.Timer(2, lambda: os.kill(started.pid, signal.SIGHUP)).start()
    answers, lost = ask_all_the_time(port, bodies, until=end)
    assert not lost
    assert {status for _, status, _ in answers} == {200}
    for text, _, answer in answers:
        np.testing.assert_allclose(json.loads(answer)["embeddings"][0], vectors[text], atol=1e-5)
    by_process = Counter(line["process"] for line in events("request"))
    assert len(by_process) == len(events("loaded")) == 2
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        page = reply.read().decode()
    counted = re.search(r'juzhen_requests_total{path="/embed",status="200"} (\S+)', page)[1]
    assert float(counted) == len(answers) == sum(by_process.values())
    assert re.search(r"^juzhen_loads_total (\S+)", page, re.MULTILINE)[1] == "2.0"
    asking = urllib.request.Request(f"http://127.0.0.1:{port}/admin/reload", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="409"):
        urllib.request.urlopen(asking)

    threading.Timer(2, lambda: os.kill(started.pid, signal.SIGTERM)).start()
    answers, lost = ask_all_the_time(port, bodies, until=time.monotonic() + 10)
    assert not lost
    assert {status for _, status, _ in answers} == {200}
    assert started.wait(30) == 0
    assert len(events("stopped")) == 2


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_models_that_cannot_be_loaded_are_told_once(prompted_folder, tmp_path, damage):
    folder = tmp_path / "encoder"
    if damage == "cut":
        shutil.copytree(prompted_folder, folder)
        for path in folder.rglob("*.safetensors"):
            os.truncate(path, 1000)
    words = ("-m", "juzhen", "serve", str(folder), "--port", str(free_port()), "--processes", "2")
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2, ended.stderr
    assert (ended.stdout, ended.stderr.count("\n")) == ("", 1)
    assert re.match(f"error: {re.escape(str(folder))}.*[.:] .*", ended.stderr)


def test_where_one_is_killed_the_other_ends(running):
    started, _, events = running
    first, second = (line["process"] for line in events("serving"))
    os.kill(first, signal.SIGKILL)
    assert started.wait(30) == 2
    assert [line["process"] for line in events("stopped")] == [second]


def test_nobody_is_left_where_the_first_process_is_killed(running):
    started, _, events = running
    started.kill()
    for _ in range(300):
        if len(events("stopped")) == 2:
            return
        time.sleep(0.1)
    raise AssertionError("processes live on")
