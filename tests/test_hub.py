"""Encoders of hubs at other addresses, a mirror and ModelScope: stand-ins on this machine that answer or are silent."""

import hashlib
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from forks import printed, python

from juzhen import SentenceEncoder
from juzhen.encoders.resolve_path import locate_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SECONDS_OF_A_START = 60
"""Of Python and torch, on a machine with other work."""

LOAD = """
import sys
from juzhen.cli.program import run_program

def main():
    from juzhen import SentenceEncoder
    print(SentenceEncoder.load(sys.argv[1]).encode(["今天天气很好"]).shape)

run_program(main)
"""


class Mirror(BaseHTTPRequestHandler):
    """The two addresses that a download asks: what files there are, and each of them."""

    folder = None
    silent = False
    asked: list[str] = []

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def answer(self, *, with_body: bool) -> None:
        self.asked.append(self.path)
        if self.silent:
            time.sleep(120)
            return
        files = sorted(
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()
        )
        path = self.path.partition("?")[0]
        body, headers = b"", {}
        if path.startswith("/api/models/acme/tiny/tree/"):
            rows = [
                {"type": "file", "path": name, "size": (self.folder / name).stat().st_size, "oid": COMMIT}
                for name in files
            ]
            body, headers = json.dumps(rows).encode(), {"Content-Type": "application/json"}
        elif path.startswith("/api/models/acme/tiny"):
            listed = [{"rfilename": name} for name in files]
            body = json.dumps(
                {"id": "acme/tiny", "modelId": "acme/tiny", "sha": COMMIT, "siblings": listed}
            ).encode()
            headers = {"Content-Type": "application/json"}
        elif path.startswith("/acme/tiny/resolve/"):
            body = (self.folder / path.split("/", 5)[5]).read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        self.send_response(200 if headers else 404)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing."""


class ModelScope(Mirror):
    """The two addresses that `modelscope download` asks (seen with version 1.40)."""

    def answer(self, *, with_body: bool) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        files = [
            {"Path": path.relative_to(self.folder).as_posix(), "Type": "blob", "Size": path.stat().st_size}
            for path in paths
        ]
        body = json.dumps({"Code": 200, "Success": True, "Data": {"Files": files}}).encode()
        if address.path == "/api/v1/models/acme/tiny/repo":
            body = (self.folder / asked["FilePath"]).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def served(kind, folder):
    """The handler of a hub that has acme/tiny, and its address."""
    handler = type("Handler", (kind,), {"folder": folder, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def mirror(encoder_folder):
    yield from served(Mirror, encoder_folder)


@pytest.fixture
def model_scope(encoder_folder):
    yield from served(ModelScope, encoder_folder)


def environment(endpoint, tmp_path):
    hidden = ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}


@pytest.mark.slow
def test_a_mirror_gives_the_encoder_and_the_cache_gives_it_again(mirror, tmp_path):
    handler, endpoint = mirror
    first = python("-c", LOAD, "acme/tiny", env=environment(endpoint, tmp_path))
    assert first.stdout == "(1, 32)\n", first.stderr
    assert "\r" not in first.stderr
    assert any("/resolve/" in path for path in handler.asked)
    assert printed("-c", LOAD, "acme/tiny", env=environment("http://127.0.0.1:9", tmp_path)) == "(1, 32)\n"


@pytest.mark.slow  # it waits
def test_a_hub_that_is_silent_is_given_up_within_half_a_minute(mirror, tmp_path):
    handler, endpoint = mirror
    handler.silent = True
    begun = time.monotonic()
    done = python("-c", LOAD, "acme/tiny", env=environment(endpoint, tmp_path))
    assert "the hub is silent" in done.stderr.splitlines()[-1]
    assert time.monotonic() - begun < 30 + SECONDS_OF_A_START


def test_a_name_below_no_folder_is_asked_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "csts").mkdir(parents=True)
    assert locate_folder("acme/tiny") is None


def test_what_modelscope_gives_is_an_encoder_by_its_folder(model_scope, encoder_folder, tmp_path):
    repository = f"{model_scope[1]}/api/v1/models/acme/tiny/repo"
    with urlopen(f"{repository}/files?Revision=master&Recursive=True") as answer:
        files = json.load(answer)["Data"]["Files"]
    for file in files:
        path = tmp_path / "models" / "tiny" / file["Path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        with urlopen(f"{repository}?Revision=master&FilePath={file['Path']}") as answer:
            path.write_bytes(answer.read())
    first, again = (
        SentenceEncoder.load(folder).encode(["天气"])
        for folder in (encoder_folder, tmp_path / "models" / "tiny")
    )
    assert np.array_equal(first, again)
