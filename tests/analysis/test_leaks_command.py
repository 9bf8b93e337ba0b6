"""`juzhen leaks`: files, tables, and what is said about mistakes."""

import gzip
import json

import pytest
import zstandard

from juzhen.cli.main import main

HEADER = "sentence1\tsentence2\tlabel\n"
SECRET = "我想知道花呗分期以后提前还款怎么算利息"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """afqmc/train gives away the first of two rows of atec/dev, with another label, and contradicts itself."""
    folder = tmp_path / "data"
    for path, rows in {
        "afqmc/train.tsv": f"{SECRET}\t怎么算利息\t0\n甲一\t乙一\t1\n乙一\t甲一\t0\n",
        "atec/dev.tsv": f"怎么算利息\t{SECRET}\t1\n丙一\t丁一\t0\n",
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(HEADER + rows, encoding="utf-8")
    monkeypatch.setenv("JUZHEN_DATA", str(folder))
    return tmp_path


pytestmark = pytest.mark.usefixtures("without_promised_rows")


def run(folder, *arguments):
    status = main(["leaks", *arguments, "--output", str(folder / "out"), "--no-progress"])
    name = "text" if "--text" in arguments else "pairs"
    written = folder / "out" / f"{name}.json"
    return status, json.loads(written.read_text(encoding="utf-8")) if written.exists() else None


def test_pairs_are_counted_and_their_lines_named(data, capsys):
    status, report = run(data, "--train", "afqmc", "csts", "--evaluate", "atec")
    assert status == 0
    [cell] = report["cells"]
    assert (cell["rows"], cell["exact_pairs"], cell["near_pairs"], cell["other_label"]) == (2, 1, 0, 1)
    assert cell["lines"] == {"exact": [2], "near": [], "train": [2]}
    assert report["absent"] == ["atec/test", "csts/train"]
    described = report["sets"]["afqmc/train"]
    assert (described["contradictory_pairs"], described["contradictory_lines"]) == (1, [[3, 4]])
    printed = capsys.readouterr().out
    assert "| afqmc | 1 (50 %) |" in printed
    assert "Without a file, and so not looked at: atec/test, csts/train." in printed
    assert printed.strip() == (data / "out" / "pairs.md").read_text(encoding="utf-8").strip()


@pytest.mark.slow
def test_counts_alone_have_neither_lines_nor_words(data):
    _, report = run(data, "--all", "--counts", "--evaluate", "atec")
    exact = {(one["train"], one["evaluation"]): one["exact_pairs"] for one in report["cells"]}
    assert exact["afqmc/train", "atec/dev"] == 1
    text = "".join(path.read_text(encoding="utf-8") for path in (data / "out").iterdir())
    assert "lines" not in text
    assert SECRET not in text
    assert str(data) not in text


def test_examples_are_quoted_when_asked_for(data, capsys):
    _, report = run(data, "--train", "afqmc", "--evaluate", "atec", "--examples", "3")
    [example] = report["cells"][0]["examples"]
    assert example["train"] == {"text_a": SECRET, "text_b": "怎么算利息", "target": 0.0}
    assert SECRET in capsys.readouterr().out


@pytest.mark.slow
def test_sets_that_juzhen_ships_need_no_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUZHEN_DATA", str(tmp_path / "none"))
    status, report = run(tmp_path, "--all")
    assert status == 0
    assert report["train"] == [
        f"demo_{name}/train" for name in ("nli", "order", "qmc", "reranking", "retrieval", "sts")
    ]
    assert "lcqmc/train" in report["absent"]


def test_tables_of_positive_pairs_are_audited_without_a_word_about_queries(data, recwarn):
    for name in ("ours", "theirs"):
        (data / f"{name}.csv").write_text(
            f"a,b\n{SECRET},怎么算利息\n今天{name},明天{name}\n", encoding="utf-8"
        )
    status, report = run(data, "--train", str(data / "ours.csv"), "--evaluate", str(data / "theirs.csv"))
    assert (status, report["cells"][0]["exact_pairs"], len(recwarn)) == (0, 1, 0)


def test_text_files_plain_and_compressed(data):
    lines = f"第一行\n他说：{SECRET}，对吗\n丙一\n".encode()
    (data / "plain.txt").write_bytes(lines)
    (data / "packed.txt.gz").write_bytes(gzip.compress(lines))
    (data / "packed.txt.zst").write_bytes(zstandard.compress(lines))
    files = [str(data / name) for name in ("plain.txt", "packed.txt.gz", "packed.txt.zst")]
    status, report = run(data, "--text", *files, "--evaluate", "atec")
    assert status == 0
    assert list(report["texts"]) == ["plain.txt", "packed.txt.gz", "packed.txt.zst"]
    for text in report["texts"].values():
        assert (text["lines"], text["leaky_lines"], text["whole_lines"]) == (3, 2, 1)
        assert text["line_numbers"] == [2, 3]
        assert text["by_evaluation"] == {"atec/dev": {"lines": 2, "sentences": 2}}
