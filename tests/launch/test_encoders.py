"""`juzhen evaluate` of encoders, runs and servers side by side, on sets and on the tables of a search."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from jobs import run_job

from juzhen import SentenceEncoder, evaluate, read_search
from juzhen.cli.main import main
from juzhen.core.result import Result

QUERIES = ["怎么退货", "几天发货", "能开发票吗", "会员怎么取消", "改地址"]
CORPUS = ["东西想退掉", "什么时候能寄出", "要发票", "不想续费了", "收货地址写错了"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rows = zip(QUERIES, CORPUS, strict=True)
    (folder / "q.csv").write_text("query,answer\n" + "".join(f"{one},{text}\n" for one, text in rows))
    (folder / "c.txt").write_text("\n".join(CORPUS))
    return folder / "q.csv", folder / "c.txt"


@pytest.fixture(scope="module")
def address():
    """A server that speaks OpenAI's protocol, with the built-in encoder behind it; it asks for a key."""
    encoder = SentenceEncoder.load("builtin/mini_zh")

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({"data": [{"id": "mini"}]})

        def do_POST(self):
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            vectors = encoder.encode(texts).tolist()
            self.answer({"data": [{"index": n, "embedding": one} for n, one in enumerate(vectors)]})

        def answer(self, content):
            is_known = self.headers.get("Authorization") == "Bearer of_test"
            self.send_response(200 if is_known else 401)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def lines_of(out, column):
    """Name of an encoder → its cells in the table of a set, and the head of the table."""
    _, _, table = out.partition(f"{column} ×100")
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}, rows[0]


@pytest.mark.slow
def test_a_search_of_tables_by_an_encoder_bm25_and_a_server(tables, address, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUZHEN_API_KEY", "of_test")
    words = [
        "--queries",
        str(tables[0]),
        "--corpus",
        str(tables[1]),
        "--metric",
        "R@1",
        "--out",
        str(tmp_path),
    ]
    assert main(["evaluate", "builtin/mini_zh", "bm25", address, *words]) == 0
    rows, head = lines_of(capsys.readouterr().out, "test/search")
    assert head[1:] == ["nDCG@10", "RR@10", "R@10", "R@1", "R@100", "AP@100", "n"]
    assert rows[address] == rows["builtin/mini_zh"] != rows["bm25"]
    expected = evaluate("builtin/mini_zh", read_search(*tables)).scores["test/search/ndcg_at_10"]
    assert rows["builtin/mini_zh"][0].startswith(f"{100 * expected.value:.1f} [")
    assert rows["builtin/mini_zh"][-1] == "5"
    numbers = json.loads((tmp_path / "encoders.json").read_text())
    assert numbers[address]["test/search/ndcg_at_10"]["value"] == pytest.approx(expected.value)
    assert main(["evaluate", address, *words, "--key-variable", "NOBODY_SETS_THIS"]) == 2
    assert "401" in capsys.readouterr().err


def test_a_run_is_measured_and_its_result_is_left_as_it_is(tables, tmp_path, tiny_backbone, capsys):
    run = run_job(tmp_path, tiny_backbone, "training.duration=1 steps")
    before = (run / "result.json").read_bytes()
    words = ["--queries", str(tables[0]), "--corpus", str(tables[1])]
    assert main(["evaluate", str(run), *words]) == 0
    rows, _ = lines_of(capsys.readouterr().out, "test/search")
    assert [*rows] == [str(run)]
    assert main(["evaluate", str(run / "encoder"), "--dataset", "demo_retrieval", "--limit", "5"]) == 0
    rows, head = lines_of(capsys.readouterr().out, "dev/demo_retrieval")
    assert (rows[str(run / "encoder")][-1], head[1]) == ("5", "nDCG@10")
    assert (run / "result.json").read_bytes() == before
    assert "demo_retrieval" not in str(Result.read(run).data)


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (["builtin/mini_zh"], "--dataset"),
        (["builtin/mini_zh", "--queries", "q.csv"], "--corpus"),
        (["builtin/mini_zh", "--dataset", "demo_sts", "--again"], "--again"),
        (["http://127.0.0.1:9", "--queries", "{q}", "--corpus", "{c}"], "127.0.0.1:9"),
        (["builtin/mini_zh", "--queries", "{q}", "--corpus", "{c}", "--columns", "text_a=1"], "document"),
        (["runs/nowhere", "--dataset", "demo_sts"], "runs/nowhere"),
    ],
)
def test_what_is_refused(words, way_out, tables, capsys):
    filled = [word.format(q=tables[0], c=tables[1]) for word in words]
    assert main(["evaluate", *filled]) == 2
    assert way_out in capsys.readouterr().err
