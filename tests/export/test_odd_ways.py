"""`juzhen verify` with odd servers and broken exports: a row that failed, and a status that is not 0."""

import base64
import json
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from jobs import tiny_encoder

from juzhen import CrossEncoder
from juzhen.cli.main import main
from juzhen.encoders import save_encoder
from juzhen.export import loaders
from juzhen.export.backend_comparison import compare_backends

TEXTS = ["今天天气很好", "A dog runs", "怎么修改支付密码"]


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone).eval()


@contextmanager
def answering(answer):
    """A server that answers as `answer(path, texts)` has it: status, headers, bytes."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            self.give([])

        def do_POST(self):
            self.give(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"])

        def give(self, texts):
            status, headers, content = answer(self.path, texts)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spoken(content):
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


def embedded(change):
    """A server with a model, whose answer to texts is changed from the right vectors."""

    def answer(path, texts, encoder):
        if path.endswith("/models"):
            return spoken({"data": [{"id": "small"}]})
        data = [{"index": row, "embedding": v.tolist()} for row, v in enumerate(encoder.encode(texts))]
        changed = change(data)
        return changed if isinstance(changed, tuple) else spoken(changed)

    return answer


def with_vector(vector):
    return lambda data: {"data": [*data[:-1], data[-1] | {"embedding": vector}]}


def everywhere(content):
    return lambda path, texts, encoder: content


ODD = {
    "a list": everywhere(spoken([])),
    "null": everywhere(spoken(None)),
    "a model without a name": everywhere(spoken({"data": [{}]})),
    "no model": everywhere(spoken({"data": []})),
    "html": everywhere((200, {"Content-Type": "text/html"}, b"<html>hello</html>")),
    "an empty body": everywhere((200, {}, b"")),
    "deep brackets": everywhere((200, {}, b"[" * 100_000)),
    "no text": everywhere((200, {}, b'{"data": "\xff"}')),
    "status 500": everywhere((500, {}, b"out of order")),
    "a redirect": everywhere((302, {"Location": "http://127.0.0.1:9/v1/models"}, b"")),
    "a body that is cut": everywhere((200, {"Content-Length": "9999"}, b'{"data": ')),
    "embeddings: a list": embedded(lambda data: data),
    "embeddings: null": embedded(lambda data: {"data": None}),
    "embeddings: a redirect": embedded(lambda data: (307, {"Location": "/elsewhere"}, b"")),
    "texts for numbers": embedded(with_vector(["a", "b"])),
    "a text for a vector": embedded(with_vector("no base64!")),
    "base64 of 3 bytes": embedded(with_vector("AAAA")),
    "base64 of NaN": embedded(
        with_vector(base64.b64encode(np.full(32, np.nan, dtype="<f4").tobytes()).decode())
    ),
    "too few": embedded(lambda data: {"data": data[:-1]}),
    "too many": embedded(lambda data: {"data": [*data, data[-1] | {"index": 99}]}),
    "one twice": embedded(lambda data: {"data": [data[0], *data[:-1]]}),
    "NaN": embedded(with_vector([float("nan")] * 32)),
    "infinity in float32": embedded(with_vector([1e300] * 32)),
    "other widths": embedded(with_vector([1.0] * 31)),
    "no numbers": embedded(lambda data: {"data": [row | {"embedding": []} for row in data]}),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_server_has_failed(encoder, name):
    with answering(lambda path, texts: ODD[name](path, texts, encoder)) as address:
        (way,) = compare_backends(encoder, TEXTS, beside=[address], only=())
    assert way.failed
    assert way.largest is None
    assert address in way.reason
    assert way.reason.count(". ") >= 1  # what is wrong, and the way out


def test_vectors_in_base64_are_read_and_zeros_or_another_width_fail(encoder):
    def spelt(data):
        for row in data:
            row["embedding"] = base64.b64encode(np.array(row["embedding"], dtype="<f4").tobytes()).decode()
        return {"data": data[::-1]}

    cases = {
        "base64": (embedded(spelt), False),
        "narrow": (embedded(lambda data: {"data": [row | {"embedding": [1.0] * 8} for row in data]}), True),
        "zeros": (embedded(lambda data: {"data": [row | {"embedding": [0.0] * 32} for row in data]}), True),
    }
    for answer, fails in cases.values():
        with answering(lambda path, texts, answer=answer: answer(path, texts, encoder)) as address:
            (way,) = compare_backends(encoder, TEXTS, beside=[address], only=())
        assert way.failed == fails
        assert way.differing == (3 if fails else 0)


def test_a_server_that_is_silent_or_endless_has_failed(encoder, monkeypatch):
    monkeypatch.setattr(loaders, "SECONDS", 0.1)
    monkeypatch.setattr(loaders, "MOST_BYTES", 1000)
    wait = threading.Event()
    with answering(lambda path, texts: (wait.wait(1), spoken({}))[1]) as address:
        (silent,) = compare_backends(encoder, TEXTS, beside=[address], only=())
        wait.set()
    with answering(lambda path, texts: (200, {}, b" " * 2000)) as address:
        (endless,) = compare_backends(encoder, TEXTS, beside=[address], only=())
    assert silent.failed
    assert "timed out" in silent.reason
    assert endless.failed
    assert "MiB" in endless.reason


def test_a_key_goes_to_no_other_server_and_into_no_message(encoder):
    seen = []
    with (
        answering(lambda path, texts: (seen.append(path), spoken({}))[1]) as other,
        answering(lambda path, texts: (302, {"Location": f"{other}/v1/models"}, b"")) as address,
    ):
        (way,) = compare_backends(encoder, TEXTS, beside=[address], only=(), key="of_test")
    assert way.failed
    assert not seen
    (way,) = compare_backends(encoder, TEXTS, beside=["http://127.0.0.1:9"], only=(), key="of\ntest")
    assert way.failed
    assert "test" not in way.reason.replace("Test", "")


@pytest.fixture(scope="module")
def exported(encoder, tmp_path_factory):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    from juzhen.export import export_encoder
    from juzhen.export.formats import Format

    folder = tmp_path_factory.mktemp("exported") / "onnx"
    export_encoder(encoder, folder, Format.ONNX)
    return folder


def edited(name, change):
    """Breaks a folder: the values of one of its files of JSON are changed."""

    def broken(folder):
        path = folder / name
        path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")

    return broken


def rotated(tokenizer):
    vocabulary = tokenizer["model"]["vocab"]
    numbers = [*vocabulary.values()]
    tokenizer["model"]["vocab"] = dict(zip(vocabulary, [*numbers[7:], *numbers[:7]], strict=True))
    return tokenizer


def out_of_range(tokenizer):
    tokenizer["model"]["vocab"] = {word: row + 9000 for word, row in tokenizer["model"]["vocab"].items()}
    return tokenizer


BROKEN = {
    "no graph": lambda folder: (folder / "model.onnx").unlink(),
    "a graph that is cut": lambda folder: (folder / "model.onnx").write_bytes(b"\x08\x07 no graph"),
    "an empty graph": lambda folder: (folder / "model.onnx").write_bytes(b""),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "a damaged tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
    "tokens out of range": edited("tokenizer.json", out_of_range),
    "settings: a list": edited("export.json", lambda settings: [settings]),
    "settings: cut": lambda folder: (folder / "export.json").write_text('{"kind": "emb'),
    "settings: no prompt": edited("export.json", lambda settings: settings | {"prompt": None}),
    "settings: other outputs": edited("export.json", lambda settings: settings | {"outputs": ["logits"]}),
    "settings: other kind": edited("export.json", lambda settings: settings | {"kind": "waves"}),
    "settings: scores": edited(
        "export.json", lambda settings: settings | {"kind": "scores", "symmetric": False, "grades": []}
    ),
    "settings: other format": edited("export.json", lambda settings: settings | {"format": "tarball"}),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.slow
def test_a_broken_export_has_failed(encoder, exported, tmp_path, name):
    folder = tmp_path / "out"
    shutil.copytree(exported, folder)
    BROKEN[name](folder)
    (way,) = compare_backends(encoder, TEXTS, beside=[str(folder)], only=())
    assert way.failed
    assert way.largest is None
    assert str(folder) in way.reason


@pytest.mark.slow
def test_a_wrong_tokenizer_differs_and_the_right_export_does_not(encoder, exported, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(exported, folder)
    edited("tokenizer.json", rotated)(folder)
    wrong, right = compare_backends(encoder, TEXTS, beside=[str(folder), str(exported)], only=())
    assert wrong.failed
    assert wrong.differing == 3
    assert not right.failed
    assert right.differing == 0


def test_a_damaged_folder_of_modules_has_failed(encoder, tmp_path):
    save_encoder(encoder, tmp_path / "out", card={})
    (tmp_path / "out" / "model.safetensors").write_bytes(b"cut")
    (way,) = compare_backends(encoder, TEXTS, beside=[str(tmp_path / "out")], only=())
    assert way.failed
    assert way.largest is None
    assert str(tmp_path / "out") in way.reason


def test_other_scores_fail(tiny_backbone, tmp_path):
    encoders = [
        CrossEncoder(
            tiny_encoder(tiny_backbone), outputs=1, segments=False, symmetric=False, seed=seed
        ).eval()
        for seed in (0, 1)
    ]
    folder = save_encoder(encoders[1], tmp_path / "other", card={})
    (other,) = compare_backends(encoders[0], TEXTS, beside=[str(folder)], only=())
    assert other.failed
    assert other.differing
    (folder / "model.safetensors").unlink()
    (broken,) = compare_backends(encoders[0], TEXTS, beside=[str(folder)], only=())
    assert broken.failed
    assert broken.largest is None


def test_the_status_of_the_verb(encoder, tmp_path, capsys):
    folder = save_encoder(encoder, tmp_path / "encoder", card={})
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    words = ["verify", str(folder), str(tmp_path / "texts.txt"), "--ways"]
    assert main([*words, "torch", "torch_bf16"]) == 0
    capsys.readouterr()
    assert main([*words, "torch", "--with", str(tmp_path), "http://127.0.0.1:9"]) == 2
    told = capsys.readouterr()
    assert "http://127.0.0.1:9" in told.err
    assert not told.out  # nothing was computed before the dead port was asked
    swapped = embedded(lambda data: {"data": [row | {"index": 2 - row["index"]} for row in data]})
    with answering(lambda path, texts: swapped(path, texts, encoder)) as address:
        assert main([*words, "torch", "--with", address]) == 1
    assert "order" in capsys.readouterr().out
