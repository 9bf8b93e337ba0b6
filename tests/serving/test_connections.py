"""Connections that are slow, silent or too many: each ends in time, and others are answered meanwhile."""

import json
import resource
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from load import free_port, process  # noqa: E402  # needs those packages
from running import serving  # noqa: E402

from juzhen.serving import server  # noqa: E402

HEAD = (
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
)
BODY = b'{"texts": ["today"]}'
PATIENCE = 6.0
"""Seconds after which a connection counts as open for ever."""


@pytest.fixture(scope="module")
def port(prompted_folder):
    """Of a server whose requests, heads and answers may take a second each, and which takes 12 connections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "LINGERING_SECONDS", 0.5)
        with serving(prompted_folder, seconds=1.0, connections=12) as address:
            yield int(address.rpartition(":")[2])


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def drips(port, start, drop):
    """What the server has said, and after how long it closed a connection that sends `drop` again and again."""
    begin, answer = time.monotonic(), b""
    with connected(port) as own:
        own.sendall(start)
        own.settimeout(0.1)
        while time.monotonic() < begin + PATIENCE:
            with suppress(TimeoutError):
                try:
                    own.sendall(drop)
                    part = own.recv(65_536)
                except ConnectionError:
                    break
                if not part:
                    break
                answer += part
    return answer, time.monotonic() - begin


def answer(own):
    """The status of an answer that is read whole."""
    with own.makefile("rb") as file:
        status = int(file.readline().split()[1])
        size = 0
        while (line := file.readline().lower()) not in (b"\r\n", b""):
            if line.startswith(b"content-length:"):
                size = int(line.split()[1])
        assert len(file.read(size)) == size
    return status


def ask(own):
    own.sendall(HEAD + BODY)
    return answer(own)


CHUNKED = HEAD.replace(b"Content-Length: 20", b"Transfer-Encoding: chunked")
DRIPS = {
    "silent": (b"", b"", b""),
    "head": (b"POST /embed HTTP/1.1\r\nX: ", b"a", b""),
    "blank lines": (b"\r\n", b"\r\n", b""),
    "body": (HEAD, b" ", b"503"),
    "blank lines after an answer": (HEAD + BODY, b"\r\n", b"200"),
    "head after an answer": (HEAD + BODY + b"GET / HTTP/1.1\r\nX: ", b"a", b"200"),
    "trailer": (CHUNKED + b"5\r\n[1,2]\r\n0\r\nX: ", b"a", b"503"),
}
"""What is sent first, then again and again, and the status of the answer."""


@pytest.mark.slow
def test_what_is_fed_drop_by_drop_ends(port):
    with ThreadPoolExecutor(len(DRIPS)) as pool:
        ends = pool.map(lambda drip: drips(port, *drip[:2]), DRIPS.values())
    for (name, (_, _, status)), (said, seconds) in zip(DRIPS.items(), ends, strict=True):
        assert seconds < PATIENCE - 1, name
        assert status in said[:20], name


@pytest.mark.slow
def test_a_second_request_and_one_in_pieces_are_answered(port):
    with connected(port) as own:
        assert ask(own) == 200
        time.sleep(1.3)
        own.sendall(HEAD[:30])
        time.sleep(0.3)
        own.sendall(HEAD[30:] + BODY[:5])
        time.sleep(0.3)
        own.sendall(BODY[5:])
        assert answer(own) == 200
        own.sendall((HEAD + BODY) * 3)
        said = b""
        while said.count(b"HTTP/1.1 200") < 3:
            said += own.recv(65_536)


def test_a_trailer_without_an_end_is_not_kept(port):
    with connected(port) as own:
        own.sendall(CHUNKED + b"5\r\n[1,2]\r\n0\r\nX: ")
        with pytest.raises(ConnectionError):
            own.sendall(b"a" * 10**8)


def test_silent_connections_give_way_to_one_that_asks(port):
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connected(port))
        with connected(port) as own:
            assert ask(own) == 200


def test_where_all_connections_are_at_work_a_new_one_is_told_so(prompted_folder):
    hold, servers = threading.Event(), []

    def held(server):
        servers.append(server)
        compute = server.service.models.embedder.compute
        server.service.models.embedder.compute = lambda inputs: (hold.wait(), compute(inputs))[1]

    with (
        serving(prompted_folder, change=held, connections=3) as address,
        ThreadPoolExecutor() as pool,
        ExitStack() as stack,
    ):
        port = int(address.rpartition(":")[2])
        at_work = [stack.enter_context(connected(port)) for _ in range(3)]
        answers = [pool.submit(ask, own) for own in at_work]
        while sum(each.waiting_since is None for each in [*servers[0].server_state.connections]) < 3:
            time.sleep(0.01)
        with connected(port) as own:
            head, _, body = own.recv(65_536).partition(b"\r\n\r\n")
        hold.set()
        assert b"503" in head
        assert json.loads(body)["error"]["code"] == "busy"
        assert all(each.result() == 200 for each in answers)


@pytest.mark.slow
def test_an_answer_that_nobody_reads_ends(prompted_folder):
    servers = []
    with serving(prompted_folder, change=servers.append, seconds=1.0, texts=2048) as address:
        port = int(address.rpartition(":")[2])
        body = json.dumps({"texts": ["today"] * 2048}).encode()
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            own.connect(("127.0.0.1", port))
            for _ in range(4):
                own.sendall(HEAD.replace(b"20", str(len(body)).encode()) + body)
            assert own.recv(1) == b"H"
            end = time.monotonic() + PATIENCE
            while servers[0].server_state.connections and time.monotonic() < end:
                time.sleep(0.1)
            assert not servers[0].server_state.connections


@pytest.mark.parametrize(
    ("limit", "most"), [(256, 200), (1024, 970), (16, 2), (resource.RLIM_INFINITY, 10_000)]
)
def test_connections_are_fewer_than_files(monkeypatch, limit, most):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))
    assert 0 < server.most_connections() <= most


@pytest.mark.slow
def test_400_silent_connections_shut_nobody_out(prompted_folder, tmp_path):
    port = free_port()
    words = ("-m", "juzhen", "serve", str(prompted_folder), "--port", str(port), "--timeout", "3")
    command = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh", sys.executable, *words)
    with open(tmp_path / "log", "w") as log, process(*command, port=port, log=log), ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(connected(port))
        for _ in range(5):
            with connected(port) as own:
                assert ask(own) == 200
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sum(event.get("turned_away", 0) for event in events) > 100
