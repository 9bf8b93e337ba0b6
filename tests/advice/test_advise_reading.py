"""What `juzhen advise` reads: pairs without labels, queries with a corpus, huge files, and runs of an earlier call."""

import csv
import gzip
import time

import numpy as np
import pandas as pd
import pytest
import zstandard

import juzhen.advice.target as bounded
import juzhen.advice.target as chosen_rows
import juzhen.advice.trials as training
from juzhen.advice.advise import advise, command_of
from juzhen.advice.search import Search
from juzhen.advice.target import Reading, read_search_target, read_sources, read_target, with_fewer_documents
from juzhen.advice.trials import OWN, Recipe, Trials
from juzhen.core.errors import UserError

TOPICS = ("退货", "发货", "保修", "发票", "换货", "优惠", "积分", "地址", "密码", "账号")


def written(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def questions(tmp_path):
    """Forty standard questions with three phrasings each, without labels."""
    rows = [
        (f"{topic}的第{number}条规定", f"{word}{topic}{number}")
        for topic in TOPICS
        for number in range(4)
        for word in ("请问", "想知道", "怎么办")
    ]
    return written(tmp_path / "faq.csv", [("标准问", "相似问"), *rows])


@pytest.fixture
def tables(tmp_path):
    texts = [f"{topic}{number}的说明" for number in range(8) for topic in TOPICS]
    documents = [(f"d{place}", text) for place, text in enumerate(texts)]
    questions = [(f"q{place}", f"想问{text}") for place, (_, text) in enumerate(documents)] + [
        ("q99", "再问一次退货0")
    ]
    answers = [(f"q{place}", f"d{place}") for place in range(len(documents))] + [("q99", "d0")]
    return {
        "queries": written(tmp_path / "asked.csv", [("query_id", "query"), *questions]),
        "corpus": written(
            tmp_path / "documents.csv", [("doc_id", "text"), *documents, ("d100", "与谁都无关")]
        ),
        "answers": written(tmp_path / "answers.csv", [("query_id", "doc_id"), *answers]),
    }


def test_positive_pairs_are_divided_so_that_no_text_is_on_both_sides(questions, tmp_path, encoder_folder):
    target = read_target(str(questions), Reading(tmp_path))
    held_out = target.scored.select(target.is_dev)
    for column in ("anchor", "positive"):
        assert not {*held_out.texts(column)} & {*target.own.rows.texts(column)}
    assert 0.3 < target.is_dev.mean() < 0.5
    trial = Trials(str(encoder_folder), target, []).make(Recipe(((OWN, 72),), 1))
    assert 0 <= trial.scores["dev"][0] <= 100
    assert target.metric == "recall_at_1"


def test_queries_are_divided_and_searched_in_the_whole_corpus(tables, tmp_path, encoder_folder):
    target = read_search_target(tables, Reading(tmp_path))
    assert len(target.scored.documents) == 81
    asked = {*target.scored.texts("query")}
    assert target.num_scored == len(asked) >= 24
    assert not asked & {*target.own.rows.texts("anchor")}
    trials = Trials(str(encoder_folder), target, [], folder=tmp_path / "runs")
    trial = trials.make(Recipe(((OWN, len(target.own.rows)),), 1))
    assert len(trial.scores["dev"]) == 1 + target.num_scored
    found = trials.scored(trials.base, [target.scored]).scores["dev/asked/ndcg_at_10"].value
    assert trials.make(Recipe((), 1)).scores["dev"][0] == pytest.approx(100 * found, abs=1e-3)
    command = command_of(((OWN, 30),), target, {OWN: target.own}, "builtin/mini_zh", Reading(tmp_path))
    assert command.startswith("juzhen dataset asked --queries ")
    assert "'dataset=[asked]'" in command


def test_fewer_documents_keep_the_answers(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(chosen_rows, "MOST_DOCUMENTS", 50)
    rows = read_search_target(tables, Reading(tmp_path)).scored
    monkeypatch.undo()
    whole = read_search_target(tables, Reading(tmp_path)).scored
    assert len(rows.documents) == 50
    assert rows.texts("query") == whole.texts("query")
    assert rows.texts("document") == whole.texts("document")
    assert {*rows.columns["document"].tolist()} <= {*rows.documents.tolist()}
    assert with_fewer_documents(whole, 1) is whole


def test_answers_without_documents_are_refused(tables, tmp_path):
    with pytest.raises(UserError, match=r"answers: .*corpus="):
        advise(tables["queries"], answers=tables["answers"], data_dir=tmp_path, report=lambda _: None)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".utf16.csv", ".parquet"])
def test_of_a_huge_file_the_head_is_read(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(bounded, "HEAD_BYTES", 20_000)
    monkeypatch.setattr(bounded, "HEAD_ROWS", 500)
    rows = [(f"问题{number}", f"说法\n{number}", str(number % 2)) for number in range(3000)]
    head, path, told = ("text_a", "text_b", "label"), tmp_path / f"big{suffix}", []
    text = written(tmp_path / "plain.csv", [head, *rows]).read_bytes()
    if suffix == ".parquet":
        pd.DataFrame(rows, columns=head).to_parquet(path)
    elif suffix == ".utf16.csv":
        path.write_bytes(text.decode().encode("utf-16"))
    else:
        packed = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
        path.write_bytes(packed(text))
        monkeypatch.setattr(bounded, "UNPACKED", 100)
    config, read = Reading(tmp_path, report=told.append).own(path)
    assert 100 < len(read) < 1500
    assert read.texts("text_a")[:2] == ["问题0", "问题1"]
    assert config.name == read.name
    assert config.name.startswith("big")
    (line,) = told
    assert path.name in line


def test_sources_whose_turn_comes_too_late_are_left_out_with_a_word(questions, tmp_path):
    reading = Reading(tmp_path)
    target = read_target(str(questions), reading)
    reading.deadline = time.monotonic() - 1
    sources, left_out = read_sources(["demo_qmc", "demo_sts"], target, reading)
    assert sources == []
    assert {*left_out} == {"demo_qmc", "demo_sts"}


@pytest.fixture
def trained(monkeypatch):
    """Number of trainings."""
    count, fit = [], training.fit

    def counting(*arguments, **options):
        count.append(1)
        return fit(*arguments, **options)

    monkeypatch.setattr(training, "fit", counting)
    return count


@pytest.mark.slow
def test_the_same_command_continues(questions, tmp_path, encoder_folder, trained, monkeypatch):
    monkeypatch.setattr(chosen_rows, "MOST_TRAIN", 96)
    lines = []
    options = {
        "encoder": str(encoder_folder), "minutes": 20, "sources": ["demo_qmc"], "data_dir": tmp_path,
        "out": tmp_path / "advice", "report": lines.append,
    }  # fmt: skip
    own_rows = Search._add_own_rows

    def interrupted(self, kept):
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_add_own_rows", interrupted)
    advise(questions, **options)
    first, lines[:] = len(trained), []
    assert first == 1
    monkeypatch.setattr(Search, "_add_own_rows", own_rows)
    whole = advise(questions, **options)
    made = len(trained)
    assert made > 3
    assert sum("earlier call" in line for line in lines) == 2  # untrained and the source
    again = advise(questions, **options)
    assert len(trained) == made
    assert again.table() == whole.table()
    assert again.curve.scores == whole.curve.scores


def test_other_rows_weights_or_rates_are_other_runs(questions, tmp_path, encoder_folder, trained):
    target = read_target(str(questions), Reading(tmp_path))
    recipe, folder = Recipe(((OWN, 72),), 1), tmp_path / "runs"
    trial = Trials(str(encoder_folder), target, [], folder=folder).make(recipe)
    known = Trials(str(encoder_folder), target, [], folder=folder)
    assert known.knows(recipe)
    assert np.array_equal(known.make(recipe).scores["dev"], trial.scores["dev"])
    assert len(trained) == 1
    assert not known.knows(Recipe(((OWN, 72),), 2))
    assert not Trials(str(encoder_folder), target, [], folder=folder, learning_rate=1e-3).knows(recipe)
    text = questions.read_text("utf-8").replace("请问退货0", "请问退货零")
    questions.write_text(text, "utf-8")
    other = read_target(str(questions), Reading(tmp_path))
    assert not Trials(str(encoder_folder), other, [], folder=folder).knows(recipe)
