"""The page of a server: what it shows in a browser, and the two answers that it asks for beside those of clients."""

import csv
import re

import numpy as np
import pytest
from chromium import browse, require_chromium

from juzhen.cli.main import main
from juzhen.encoders import CrossEncoder, SentenceEncoder

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

PAIRS = [("今天天气很好", "怎么退货"), ("A man is playing a guitar.", "好"), ("怎么退货", "怎么退货")]
ATTACK = "</script><img src=x onerror=window.hit=1>\"'&"


@pytest.fixture(scope="module")
def encoder(prompted_folder):
    return SentenceEncoder.load(prompted_folder)


@pytest.mark.parametrize(("fields", "prompt"), [({}, ""), ({"input_type": "query"}, "问题：")])
def test_the_weight_of_a_word_is_what_the_score_loses_without_its_tokens(client, encoder, fields, prompt):
    first, second = "How are 你 playing?", "怎么退货"
    reply = client.post("/words", json={"first": first, "second": second} | fields).json()
    reader = encoder.with_prompt(None, prompt)
    words = {"first": ["How", "are", "你", "playing", "?"], "second": ["怎", "么", "退", "货"]}
    vectors = {side: reader.encode(text) for side, text in (("first", first), ("second", second))}
    score = encoder.similarity(vectors["first"], vectors["second"])
    assert reply["score"] == pytest.approx(float(score), abs=1e-6)
    for side, other, text in (("first", "second", first), ("second", "first", second)):
        parts = reply[side]
        assert "".join(part["text"] for part in parts) == text
        assert [part["text"] for part in parts if part["weight"] is not None] == words[side]
        encoding = reader.tokenizer(prompt + text, return_offsets_mapping=True)
        place = len(prompt)
        for part in parts:
            end = place + len(part["text"])
            ids = [
                number
                for number, (left, right) in zip(
                    encoding["input_ids"], encoding["offset_mapping"], strict=True
                )
                if left == right or not (place <= left and right <= end)
            ]
            place = end
            if part["weight"] is not None:
                (vector,) = reader.infer(reader.collate([ids]))
                lost = score - encoder.similarity(vector, vectors[other])
                assert part["weight"] == pytest.approx(float(lost), abs=1e-5)


def test_a_text_with_too_many_words_is_refused(client, monkeypatch):
    monkeypatch.setattr("juzhen.serving.models.MOST_WORDS", 3)
    reply = client.post("/words", json={"first": "怎么退货", "second": "好"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "first")


def test_scores_of_pairs_are_those_of_the_encoder_and_of_the_cross_encoder(client, encoder, cross_folder):
    reply = client.post("/score", json={"pairs": PAIRS}).json()
    expected = [encoder.similarity(*pair) for pair in PAIRS]
    np.testing.assert_allclose(reply["scores"], expected, atol=1e-6)
    reply = client.post("/score", json={"pairs": PAIRS, "model": "judge"}).json()
    logits = CrossEncoder.load(cross_folder).score(PAIRS)
    np.testing.assert_allclose(reply["scores"], 1 / (1 + np.exp(-logits)), atol=1e-6)
    assert reply["model"] == "judge"
    refused = {"pairs": PAIRS, "model": "judge", "prompt_name": "query"}
    assert client.post("/score", json=refused).status_code == 400
    assert client.post("/score", json={"pairs": [["a"]]}).status_code == 400


def test_all_files_of_the_page_are_there_and_ask_no_other_host(prompted_folder):
    with serving(prompted_folder, keys=["k" * 20]) as address, httpx.Client(base_url=address) as client:
        page = client.get("/")
        assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
        names = set(re.findall(r'(?:href|src)="([a-z]+\.(?:js|css))"', page.text)) | {
            "words.js",
            "parts.js",
            "pairs.js",
        }
        for name in names:
            file = client.get(f"/{name}")
            assert file.status_code == 200
            assert "http://" not in file.text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in file.text
            assert "innerHTML" not in file.text
        assert client.post("/score", json={"pairs": PAIRS}).status_code == 401


IS_SHOWN = "!document.getElementById('{}').hidden"
SCORE = "document.getElementById('score').value"
CHOICES = "#column-a, #column-b, #column-gold"


@pytest.mark.slow
def test_a_browser_searches_compares_and_scores_a_file(address, encoder, tmp_path):
    require_chromium()
    rows = [
        ("sentence1", "sentence2", "label"),
        *((*pair, str(place % 2)) for place, pair in enumerate(PAIRS)),
    ]
    rows.append((f'a,"b"\n{ATTACK}', ATTACK, "1"))
    path, saved = tmp_path / "pairs.csv", tmp_path / "scored.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    given, complaints = browse(
        f"{address}/",
        ["until", IS_SHOWN.format("search")],
        ["fill", ["#query", "怎么退货"]],
        ["until", "document.querySelectorAll('#hits-left .hit').length"],
        ["key", "ArrowDown"],
        ["js", "document.activeElement.children[2].textContent"],
        ["key", "Enter"],
        ["fill", ["#first", ATTACK]],
        ["fill", ["#second", "怎么退货"]],
        ["until", "document.getElementById('weighed-first').textContent.includes('onerror')"],
        ["js", f"[{SCORE}, document.querySelectorAll('#weighed-second mark').length]"],
        ["files", ["#file", str(path)]],
        ["until", IS_SHOWN.format("columns")],
        ["js", f"[...document.querySelectorAll('{CHOICES}')].map((select) => select.selectedOptions[0].text)"],
        ["js", "[...document.querySelectorAll('#first-rows tr')].map((row) => row.children.length)"],
        ["click", "#start"],
        ["until", IS_SHOWN.format("scored")],
        ["js", "[...['#pair-table tbody tr', 'rect'].map((part) => document.querySelectorAll(part).length)]"],
        ["download", ["#save", str(saved)]],
        ["size", [390, 844]],
        ["click", "#language"],
        ["js", "[document.documentElement.lang, document.documentElement.scrollWidth, window.hit ?? null]"],
        ["requests", None],
        scheme="dark",
    )  # fmt: skip
    assert complaints == []
    assert given[4] == "怎么退货"  # the nearest text is the query
    score = float(encoder.similarity(ATTACK, "怎么退货"))
    assert given[9] == [f"{score:.3f}".replace("-", "−"), 4]
    assert given[12] == ["sentence1", "sentence2", "label"]
    assert given[13] == [3] * 5
    assert given[16][0] == 4
    assert given[16][1] > 0
    assert given[17] == "pairs.scored.tsv"
    lines = [line.split("\t") for line in saved.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == ["sentence1", "sentence2", "label", "score small"]
    np.testing.assert_allclose(
        [float(line[3]) for line in lines[1:4]], [encoder.similarity(*pair) for pair in PAIRS], atol=1e-6
    )
    assert given[20] == ["zh-Hans", 390, None]
    assert all(request.startswith((address, "blob:")) for request in given[21])


@pytest.mark.slow
def test_the_answer_of_a_hit_comes_first_and_a_phone_shows_one_list_at_a_time(prompted_folder, tmp_path):
    require_chromium()
    names = ("怎么退货", "什么时候发货", "如何开发票")
    lines = ["问题,主题,标准答案", *(f"{text},售后,答{place}" for place, text in enumerate(names))]
    (tmp_path / "faq.csv").write_text("\n".join(lines), encoding="utf-8")
    described = ["--text", "问题", "--metadata", "主题", "--metadata", "标准答案"]
    table, index = str(tmp_path / "faq.csv"), tmp_path / "index"
    assert main(["index", "build", str(index), str(prompted_folder), table, *described]) == 0
    visible = "[...document.querySelectorAll('#hits ol')].map((list) => list.offsetParent !== null)"
    tops = "[...document.querySelectorAll('#hits ol')].map((list) => list.getBoundingClientRect().top)"
    parts = "[...document.querySelector('#hits-left .hit').children].map((part) => part.textContent)"
    pressed = "[...document.querySelectorAll('.tabs button')].map((tab) => tab.getAttribute('aria-pressed'))"
    with serving(prompted_folder, index=index, texts=100) as address:
        given, complaints = browse(
            f"{address}/",
            ["until", IS_SHOWN.format("search")],
            ["fill", ["#query", "怎么退货"]],
            ["until", "document.querySelectorAll('#hits-right .hit').length"],
            ["js", parts],
            ["js", visible],
            ["size", [390, 844]],
            ["js", visible],
            ["js", tops],
            ["tap", ".tabs button:last-child"],
            ["js", visible],
            ["js", tops],
            ["js", pressed],
            ["js", "document.documentElement.scrollWidth"],
        )
    assert complaints == []
    assert given[3][2:4] == ["怎么退货", "答0"]
    assert "主题: 售后" in given[3][4]
    assert "答0" not in given[3][4]
    assert given[4] == [True, True]
    assert (given[6], given[9]) == ([True, False], [False, True])
    assert given[10][1] == given[7][0]  # the second list is where the first one was
    assert given[11] == ["false", "true"]
    assert given[12] == 390


@pytest.mark.slow
def test_a_browser_shows_what_a_file_is_taken_for_before_it_is_scored(address, tmp_path):
    require_chromium()
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("问题", "相似问题", "是否同义"), *((*pair, "是") for pair in PAIRS)]:
        book.active.append(row)
    book.create_sheet("其他").append(("query", "doc"))
    book["其他"].append(("甲", "乙"))
    book.save(tmp_path / "faq.xlsx")
    (tmp_path / "faq.docx").write_bytes(b"x")
    shown = "[...document.querySelectorAll('#first-rows tr')].map((row) => row.textContent)"
    given, complaints = browse(
        f"{address}/",
        ["until", IS_SHOWN.format("search")],
        ["files", ["#file", str(tmp_path / "faq.docx")]],
        ["until", IS_SHOWN.format("problem")],
        ["js", "document.getElementById('problem').textContent"],
        ["files", ["#file", str(tmp_path / "faq.xlsx")]],
        ["until", IS_SHOWN.format("columns")],
        ["js", shown],
        ["js", "[document.getElementById('problem').hidden, document.getElementById('scored').hidden]"],
        ["click", "#language"],
        ["click", "#header"],
        ["until", "document.querySelectorAll('#first-rows tbody tr').length === 4"],
        ["choose", ["#sheet", "其他"]],
        ["until", "document.querySelectorAll('#first-rows tbody tr').length === 1"],
        ["js", shown],
        ["click", "#start"],
        ["until", IS_SHOWN.format("scored")],
        ["js", "document.querySelectorAll('#pair-table tbody tr').length"],
    )  # fmt: skip
    assert all("400" in complaint for complaint in complaints)  # the browser's own line on the refused file
    assert "faq.docx" in given[3]
    assert given[6] == ["问题相似问题是否同义", *("".join((*pair, "是")) for pair in PAIRS)]
    assert given[7] == [True, True]
    assert given[13] == ["querydoc", "甲乙"]
    assert given[16] == 1


@pytest.mark.slow
def test_a_browser_leads_from_a_sheet_of_one_column_to_the_next(address, tmp_path):
    require_chromium()
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["说明"])
    book.active.append(["两列问题"])
    pairs = book.create_sheet("问答")
    for row in [("query", "doc"), ("甲", "乙"), ("丙", "")]:
        pairs.append(row)
    book.save(tmp_path / "faq.xlsx")
    given, complaints = browse(
        f"{address}/",
        ["until", IS_SHOWN.format("search")],
        ["files", ["#file", str(tmp_path / "faq.xlsx")]],
        ["until", IS_SHOWN.format("columns")],
        ["js", "document.getElementById('start').disabled"],
        ["choose", ["#sheet", "问答"]],
        ["until", "document.querySelectorAll('#first-rows tbody tr').length === 2"],
        ["js", "document.getElementById('start').disabled"],
        ["js", "document.getElementById('file-state').textContent"],
    )  # fmt: skip
    assert not complaints
    assert (given[3], given[6]) == (True, False)
    assert re.match(r"1 \w+; 1 \w+ with", given[7])
