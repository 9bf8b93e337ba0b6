"""Load for a server: many clients over kept connections, and the servers that ours is compared with.

python load.py ENCODER [--seconds 8] [--clients 64] [--rounds 3]: the servers by turns, as a table.
    --processes N       ours with several processes, too
    --infinity PROGRAM  infinity, too, the program that infinity-emb[torch,optimum,server] installs
    --onnx FOLDER       and with its ONNX engine: the encoder as optimum exports it
python load.py --plain ENCODER PORT: sentence-transformers behind FastAPI.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager

PIECES = re.compile("..")
SOURCE = (
    "深度学习模型训练方法今天天气很好我们去公园走走吧怎么修改绑定的手机号信用卡什么时候出账单机器学习算法概述"
)


def some_texts(count, seed=0, longest=60):
    """Texts of mixed lengths, all different."""
    draw = random.Random(seed)
    pieces = PIECES.findall(SOURCE)
    return [
        f"{number} " + "".join(draw.choices(pieces, k=min(1 + int(draw.expovariate(1 / 6)), longest // 2)))
        for number in range(count)
    ]


class Connection:
    """One kept connection; it is opened again where the server has closed it."""

    def __init__(self, port):
        self.port, self.writer = port, None

    async def post(self, path, body):
        """Status and content. Raises ConnectionError where no whole answer came."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body, ensure_ascii=False).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        try:
            self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(re.search(r"content-length: (\d+)", head)[1])
            answer = await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.writer, gone = None, error
            raise ConnectionError(f"no whole answer: {gone!r}") from error
        if "connection: close" in head:
            self.writer.close()
            self.writer = None
        return int(head.split()[1]), answer


async def load(port, bodies, *, path, seconds, clients, check=lambda body, status, answer: None):
    """Answers per second and the seconds of each, with as many clients, each of which waits for its answer."""
    times, end = [], time.perf_counter() + seconds
    turns = iter(range(10**9))

    async def client():
        connection = Connection(port)
        while time.perf_counter() < end:
            body, start = bodies[next(turns) % len(bodies)], time.perf_counter()
            status, answer = await connection.post(path, body)
            times.append(time.perf_counter() - start)
            check(body, status, answer)

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return len(times) / (time.perf_counter() - start), sorted(times)


@contextmanager
def process(*command, port, path="/ready", log=None):
    """A server in a process, from its first answer on."""
    with subprocess.Popen(command, stdout=log, stderr=log) as started:
        try:
            for _ in range(6000):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60).close()
                    break
                except OSError:
                    assert started.poll() is None, "the server has ended"
                    time.sleep(0.1)
            else:
                raise TimeoutError("the server does not answer")
            yield started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
                started.wait(60)


def processor_seconds(started):
    """That a process and its children have taken: says more than the clock where other work shares the machine."""
    seconds, left = 0.0, [str(started.pid)]
    while left:
        number = left.pop()
        with open(f"/proc/{number}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        seconds += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        for task in os.listdir(f"/proc/{number}/task"):
            with open(f"/proc/{number}/task/{task}/children") as file:
                left += file.read().split()
    return seconds


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_plainly(folder, port):
    """A loop of encode in FastAPI, as tutorials have it."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from sentence_transformers import SentenceTransformer

    model, app = SentenceTransformer(folder, device="cpu"), FastAPI()

    class Texts(BaseModel):
        texts: list[str]

    @app.post("/embed")
    def embed(request: Texts):
        return {"embeddings": model.encode(request.texts, show_progress_bar=False).tolist()}

    @app.get("/ready")
    def ready():
        return {}

    uvicorn.run(app, port=port, access_log=False, log_level="warning")


def servers(folder, *, processes=1, infinity=None, onnx=None):
    """Side → command without its port, the path that says that it is ready, and a request for one embedding."""
    ours = (sys.executable, "-m", "juzhen", "serve", folder)
    commands = {"ours": (*ours, "--port"), "plain": (sys.executable, __file__, "--plain", folder)}
    if processes > 1:
        commands[f"ours, {processes} processes"] = (*ours, "--processes", str(processes), "--port")
    sides = {
        side: (command, "/ready", "/embed", lambda text: {"texts": [text]})
        for side, command in commands.items()
    }
    for side, engine, model in (("infinity", "torch", folder), ("infinity, ONNX", "optimum", onnx)):
        if infinity and model:
            options = f"--served-model-name m --device cpu --engine {engine} --port"
            command = (infinity, "v2", "--model-id", os.path.abspath(model), *options.split())
            sides[side] = (command, "/health", "/embeddings", lambda text: {"input": [text], "model": "m"})
    return sides


def compare(folder, *, seconds, clients, rounds, **others):
    """All servers by turns over the same texts: side, answers per second, p50, p99, ms of processor for each."""
    texts, rows, started = some_texts(4000), [], {}
    with ExitStack() as stack, open("/dev/null", "w") as log:
        for side, (command, ready, path, request) in servers(folder, **others).items():
            port = free_port()
            server = stack.enter_context(process(*command, str(port), port=port, path=ready, log=log))
            started[side] = (server, port, path, [request(text) for text in texts])
        for turn in range(-1, rounds):
            for side, (server, port, path, bodies) in started.items():
                length, before = seconds if turn >= 0 else 2, processor_seconds(server)
                rate, times = asyncio.run(load(port, bodies, path=path, seconds=length, clients=clients))
                if turn >= 0:
                    marks = [1000 * times[int(len(times) * share)] for share in (0.5, 0.99)]
                    taken = 1000 * (processor_seconds(server) - before) / len(times)
                    rows.append((side, rate, *marks, taken))
    return rows


def ratios(rows, beside="plain"):
    """Of the rates, and of the processor time, round by round: above 1 where ours does better."""
    ours, other = ([row for row in rows if row[0] == side] for side in ("ours", beside))
    pairs = list(zip(ours, other, strict=True))
    return {"rate": [a[1] / b[1] for a, b in pairs], "processor": [b[4] / a[4] for a, b in pairs]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="a path")
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--infinity", metavar="PROGRAM")
    parser.add_argument("--onnx", metavar="FOLDER")
    words = parser.parse_args()
    if words.plain:
        serve_plainly(words.folder, words.port)
        return
    settings = {name: getattr(words, name) for name in ("seconds", "clients", "rounds")}
    others = {name: getattr(words, name) for name in ("processes", "infinity", "onnx")}
    rows = compare(words.folder, **settings, **others)
    for side, rate, half, most, taken in rows:
        print(
            f"{side:18} {rate:8.1f} texts/s  p50 {half:7.1f} ms  p99 {most:7.1f} ms  processor {taken:6.2f} ms"
        )
    for side in dict.fromkeys(row[0] for row in rows if row[0] != "ours"):
        for name, values in ratios(rows, side).items():
            print(
                f"{name} beside {side}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
            )


if __name__ == "__main__":
    main()
