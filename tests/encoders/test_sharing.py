"""`save` and `push_to_hub`: what is written, what a server on this machine receives, and what is refused."""

import base64
import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from forks import in_a_fork, python

from juzhen import CrossEncoder, SentenceEncoder

TEXTS = ["今天天气很好吗", "我你他们"]
COMMIT = f"/me/faq/commit/{'0' * 40}"


@pytest.fixture
def reader(bert_folder, load):
    return CrossEncoder(load(bert_folder), outputs=1, segments=True, symmetric=False, seed=0).eval()


def test_what_is_saved_is_loaded_again(bert_folder, load, reader, tmp_path):
    encoder = load(bert_folder).eval()
    encoder.prompts = {"query": "我们"}
    encoder.default_prompt_name = "query"
    again = SentenceEncoder.load(encoder.save(tmp_path / "texts"))
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert again.default_prompt_name == "query"
    pairs = CrossEncoder.load(reader.save(tmp_path / "pairs", card={"name": "My reader"}))
    np.testing.assert_array_equal(pairs.score([TEXTS]), reader.score([TEXTS]))
    assert "# My reader" in (tmp_path / "pairs" / "README.md").read_text()


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload of small files takes: what it is sent is kept in `received`."""

    received: dict = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.setdefault("paths", []).append(self.path)
        self.received["token"] = self.headers["Authorization"]
        if self.path == "/api/repos/create":
            self.received["made"] = json.loads(body)
            self.answer({"url": f"http://{self.headers['Host']}/me/faq"})
        elif self.path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif self.path.startswith("/api/models/me/faq/preupload/main"):
            names = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
            self.answer({"files": modes})
        elif self.path.startswith("/api/models/me/faq/commit/main"):
            self.received["commit"] = [json.loads(line) for line in body.splitlines()]
            self.answer(
                {
                    "success": True,
                    "commitOid": "0" * 40,
                    "commitUrl": f"http://{self.headers['Host']}{COMMIT}",
                }
            )
        else:
            self.answer({"error": "what is this?"}, 404)

    def answer(self, content, status=200):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


@pytest.fixture
def hub():
    server = HTTPServer(("127.0.0.1", 0), Hub)
    Hub.received = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


PUSH = """
from juzhen import SentenceEncoder
try:
    print(SentenceEncoder.load({folder!r}).push_to_hub("me/faq", card={{"language": "zh"}}))
except Exception as error:
    print(type(error).__name__, error)
"""


def push(folder, tmp_path, **environment):
    names = {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path), "HF_TOKEN": ""}
    done = python("-c", PUSH.format(folder=str(folder)), env=names | environment)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def push_here(folder, hub, home):
    """What `push` does, in a fork: the client has read the environment when it was imported."""
    from huggingface_hub import constants

    os.environ |= {"HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_secret", "HF_ENDPOINT": hub, "HF_HOME": str(home)}
    constants.ENDPOINT, constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_XET = hub, False, True
    assert SentenceEncoder.load(folder).push_to_hub("me/faq", card={"language": "zh"}) == hub + COMMIT


def test_an_upload_is_a_private_repository_that_can_be_loaded(bert_folder, load, hub, tmp_path):
    folder = load(bert_folder).save(tmp_path / "saved")
    assert in_a_fork(push_here, folder, hub, tmp_path) == 0
    received = Hub.received
    assert received["token"] == "Bearer hf_secret"
    assert (received["made"]["name"], received["made"]["visibility"]) == ("faq", "private")
    head, *files = received["commit"]
    assert head["value"]["summary"] == "Upload an encoder"
    for file in files:
        path = tmp_path / "again" / file["value"]["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file["value"]["content"]))
    again = SentenceEncoder.load(tmp_path / "again")
    np.testing.assert_array_equal(again.encode(TEXTS), SentenceEncoder.load(folder).encode(TEXTS))
    card = (tmp_path / "again" / "README.md").read_text()
    assert "# faq" in card
    assert 'SentenceTransformer("me/faq")' in card
    assert "| language | zh |" in card
    assert not (tmp_path / "again" / ".juzhen-files").exists()


def test_a_dry_run_lists_the_files_and_asks_nobody(bert_folder, load, capsys):
    """Without a token, and offline as these tests run."""
    assert load(bert_folder).push_to_hub("me/faq", dry_run=True) == ""
    told = capsys.readouterr().out
    for name in ("model.safetensors", "README.md", "modules.json"):
        assert re.search(rf"\d MB  {name}\n", told)
    assert ".juzhen-files" not in told
    assert told.endswith("nothing was uploaded to me/faq: dry_run\n")


@pytest.mark.slow
def test_without_token_network_or_right_nothing_is_uploaded(bert_folder, hub, tmp_path):
    told = push(bert_folder, tmp_path, HF_ENDPOINT=hub)
    assert told.startswith("UserError push_to_hub('me/faq'): no token of the hub")
    told = push(bert_folder, tmp_path, HF_HUB_OFFLINE="1", HF_TOKEN="hf_secret")
    assert told == "UserError push_to_hub('me/faq'): HF_HUB_OFFLINE is set. Nothing was uploaded"
    told = push(bert_folder, tmp_path, HF_ENDPOINT=f"{hub}/nowhere", HF_TOKEN="hf_secret")
    assert told.startswith("HfHubHTTPError")
    assert "what is this?" in told
    assert "hf_secret" not in told
    assert "commit" not in Hub.received
