"""A server in its own process under load: nothing is lost, nothing is mixed up, memory stays."""

import asyncio
import json
import os
import shutil
import signal
import statistics
import sys
import threading
import time

import numpy as np
import pytest
from load import Connection, compare, free_port, load, process, ratios, some_texts

from juzhen.core.paths import BUILTIN
from juzhen.encoders import SentenceEncoder

pytestmark = pytest.mark.slow
MINI = BUILTIN / "mini_zh@2"


@pytest.fixture
def running(tmp_path, request):
    """The process of a server, and its port; the parameter stands before its command."""
    port = free_port()
    with open(tmp_path / "log", "w") as log:
        words = (sys.executable, "-m", "juzhen", "serve", str(MINI), "--port", str(port))
        with process(*getattr(request, "param", ()), *words, port=port, log=log) as started:
            yield started, port


def resident(process):
    with open(f"/proc/{process.pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def bodies_and_vectors(count):
    """Requests of one to four texts, and the vectors of their texts, each encoded alone."""
    texts = some_texts(count)
    encoder = SentenceEncoder.load(MINI)
    alone = {text: encoder.encode(text) for text in texts}
    alone = {text: vector / np.linalg.norm(vector) for text, vector in alone.items()}
    sizes = [1, 1, 2, 4]
    bodies = [
        {"texts": texts[n : n + sizes[n % 4]], "truncate": True, "normalize": True} for n in range(count - 4)
    ]
    return bodies, alone


def test_64_clients_get_the_vectors_of_their_texts_and_memory_stays(running):
    started, port = running
    bodies, alone = bodies_and_vectors(300)
    memory, worst = [], 0.0

    def check(body, status, answer):
        nonlocal worst
        assert status == 200, answer[:300]
        found = np.array(json.loads(answer)["embeddings"])
        worst = max(
            worst, max(np.abs(found[row] - alone[text]).max() for row, text in enumerate(body["texts"]))
        )

    answers = 0
    for _ in range(4):
        rate, _ = asyncio.run(load(port, bodies, path="/embed", seconds=15, clients=64, check=check))
        answers += 15 * rate
        memory.append(resident(started))
    print(
        f"{answers:.0f} answers, worst difference {worst:.1e}, MiB resident {[round(mib) for mib in memory]}"
    )
    assert worst < 1e-6
    assert memory[-1] < memory[0] * 1.05 + 20


WITHOUT_RIGHTS = pytest.param(
    ("setpriv", "--bounding-set=-all"),  # as in a container that drops them all
    signal.SIGTERM,
    marks=pytest.mark.skipif(
        not shutil.which("setpriv") or os.geteuid() != 0, reason="needs setpriv and root"
    ),
)


@pytest.mark.parametrize(
    ("running", "sent"), [((), signal.SIGTERM), ((), signal.SIGHUP), WITHOUT_RIGHTS], indirect=["running"]
)
def test_a_signal_in_the_middle_of_load_loses_no_request(running, sent):
    started, port = running
    bodies = [{"texts": [text], "truncate": True} for text in some_texts(500)]
    states, lost = [], []

    async def client(number):
        connection = Connection(port)
        for turn in range(10_000):
            if time.monotonic() > end:
                return
            if connection.writer is None:
                try:
                    connection.reader, connection.writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    return  # it takes no more
            try:
                status, _ = await connection.post("/embed", bodies[(number * 7 + turn) % len(bodies)])
                states.append(status)
            except ConnectionError as error:
                lost.append(error)
                return

    async def clients():
        await asyncio.gather(*(client(number) for number in range(64)))

    end = time.monotonic() + 20
    threading.Timer(5, lambda: os.kill(started.pid, sent)).start()
    asyncio.run(clients())
    assert not lost
    assert set(states) == {200}
    if sent == signal.SIGTERM:
        assert started.wait(30) == 0
        assert time.monotonic() < end + 10
    else:
        assert started.poll() is None


def test_more_than_the_queue_holds_is_refused_and_the_rest_answered(tmp_path):
    port, states = free_port(), []
    words = ("-m", "juzhen", "serve", str(MINI), "--port", str(port), "--queue-tokens", "400")
    bodies = [{"texts": texts[:8]} for texts in ([f"{n} 今天天气很好"] * 8 for n in range(50))]
    with open(tmp_path / "log", "w") as log, process(sys.executable, *words, port=port, log=log) as started:
        asyncio.run(
            load(
                port,
                bodies,
                path="/embed",
                seconds=8,
                clients=32,
                check=lambda b, status, a: states.append(status),
            )
        )
        assert started.poll() is None
    assert set(states) == {200, 429}


def test_it_is_faster_than_a_loop_of_encode_in_fastapi():
    pytest.importorskip("sentence_transformers")
    rows = compare(str(MINI), seconds=10, clients=64, rounds=3)
    assert statistics.median(ratios(rows)["processor"]) > 1.5
