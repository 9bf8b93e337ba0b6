"""The table that the page asks of a server: a file of pairs, read as every verb reads one."""

import io
import json
import re
import zipfile

import pytest

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

PAIRS = [
    ("怎么退货", "东西想退掉", "是"),
    ("如何还款", "什么时候发货", "否"),
    ("怎么开票", "发票怎么开", "是"),
]
NAMES = ("问题", "相似问题", "是否同义")


def ask(client, name, content, **answers):
    headers = {"Content-Type": "application/octet-stream"}
    return client.post("/table", content=content, params={"name": name, **answers}, headers=headers)


def book(**sheets):
    openpyxl = pytest.importorskip("openpyxl")
    made, file = openpyxl.Workbook(), io.BytesIO()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(file)
    return file.getvalue()


def test_a_file_is_read_as_new_reads_it(client):
    lines = "\n".join(",".join(row) for row in (NAMES, *PAIRS))
    records = "\n".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in PAIRS)
    files = {
        "faq.csv": lines.encode("gb18030"),
        "faq.tsv": lines.replace(",", "\t").encode("utf-16"),
        "faq.jsonl": records.encode(),
        "faq.xlsx": book(问答=[NAMES, *PAIRS]),
        "C:\\my files\\faq.txt": lines.replace(",", "\t").encode(),
    }
    for name, content in files.items():
        reply = ask(client, name, content)
        assert reply.status_code == 200, reply.text
        answer = reply.json()
        assert (answer["names"], answer["rows"]) == ([*NAMES], [[*row] for row in PAIRS])
        assert answer["columns"] == {"a": 0, "b": 1, "gold": 2}
        assert (answer["unclear"], answer["left_out"]["rows"]) == (None, 0)
        assert answer["header"] is (None if name.endswith("jsonl") else True)


def test_a_person_may_say_whether_there_is_a_header_and_which_sheet(client):
    content = "\n".join(",".join(row) for row in (NAMES, *PAIRS)).encode()
    answer = ask(client, "faq.csv", content, header="0").json()
    assert (len(answer["rows"]), answer["names"], answer["header"]) == (4, ["", "", ""], False)
    content = book(一=[NAMES, *PAIRS], 二=[("query", "doc"), ("甲", "乙")])
    assert ask(client, "faq.xlsx", content).json()["sheets"] == ["一", "二"]
    answer = ask(client, "faq.xlsx", content, sheet="二").json()
    assert (answer["rows"], answer["sheets"]) == ([["甲", "乙"]], ["二", "一"])


def test_what_is_not_clear_is_said_and_what_is_faulty_is_counted(client):
    answer = ask(client, "faq.csv", "标准问,相似问,答案\n甲,乙,丙\n丁,戊\n".encode()).json()
    assert "标准问, 相似问, 答案" in answer["unclear"]
    assert answer["left_out"] == {"rows": 1, "first": "faq.csv:3: 2 cells, expected 3"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("faq.docx", b"x", "faq.docx: this format .* Expected .csv"),
        ("faq.parquet", b"PAR1", "Expected .csv"),
        ("faq.csv.gz", b"\x1f\x8b", "Expected .csv"),
        ("", b"x", "Expected .csv"),
        ("faq.csv", b"", "the file is empty"),
        ("faq.csv", b"PK\3\4\0\0\0\0\1,\2\n", "binary data"),
        ("faq.xlsx", b"x", "not a readable Excel file"),
        ("faq.jsonl", b'{"a": "b"}\nx', None),
    ],
)
def test_other_files_are_refused_by_name(client, name, content, message):
    reply = ask(client, name, content)
    if message is None:
        assert reply.json()["left_out"]["rows"] == 1
        return
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "name"
    assert re.search(message, reply.json()["error"]["message"])


def test_no_file_takes_more_than_its_share(client, monkeypatch):
    file = io.BytesIO(book(问答=[NAMES, *PAIRS]))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/more.xml", b" " * 2**20)
    monkeypatch.setattr("juzhen.serving.app.MOST_BYTES", 2**20)
    assert "unpacks to" in ask(client, "faq.xlsx", file.getvalue()).json()["error"]["message"]
    monkeypatch.setattr("juzhen.serving.app.MOST_ROWS", 2)
    content = "\n".join(",".join(row) for row in (NAMES, *PAIRS)).encode()
    assert "3 rows, and 2 at most" in ask(client, "faq.csv", content).json()["error"]["message"]
    monkeypatch.setattr("juzhen.serving.app.MOST_ROWS", 20)
    monkeypatch.setattr("juzhen.serving.app.MOST_CHARACTERS", 9)
    assert "characters" in ask(client, "faq.csv", content).json()["error"]["message"]


def test_it_is_not_for_foreign_pages_and_not_without_a_key(client, prompted_folder):
    reply = client.post(
        "/table", content=b"a,b", params={"name": "a.csv"}, headers={"Content-Type": "text/plain"}
    )
    assert reply.status_code == 415
    with (
        serving(prompted_folder, keys=["k" * 20], body_bytes=1000) as address,
        httpx.Client(base_url=address) as closed,
    ):
        assert ask(closed, "a.csv", b"a,b\nc,d").status_code == 401
        closed.headers["Authorization"] = f"Bearer {'k' * 20}"
        assert ask(closed, "a.csv", b"a,b\nc,d").json()["rows"] == [["c", "d"]]
        assert ask(closed, "a.csv", b"a,b\n" * 1000).status_code == 413
