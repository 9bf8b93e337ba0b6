import re

import pytest
from rich.cells import cell_len

from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.report.collect import collect
from juzhen.report.matrix import build_matrix
from juzhen.report.picture import short_label
from juzhen.report.table import cell_text, heading
from tools.archives import unpacked


@pytest.fixture
def runs(tmp_path, small_matrix_results):
    for number, result in enumerate(small_matrix_results):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        result.write(folder)
    return tmp_path / "runs"


def test_table_writes_what_it_shows(runs, tmp_path, capsys):
    markdown, table = tmp_path / "matrix.md", tmp_path / "matrix.csv"
    assert main(["table", str(runs), "--markdown", str(markdown), "--csv", str(table)]) == 0
    assert "untrained" in capsys.readouterr().out
    assert "| lexical | 1 |" in markdown.read_text(encoding="utf-8")
    assert table.read_text(encoding="utf-8").startswith("row,setup,split")


@pytest.mark.slow
def test_a_picture_has_each_row_and_column_and_is_the_same_again(runs, tmp_path):
    first, again = tmp_path / "first.svg", tmp_path / "again.svg"
    for path in (first, again):
        assert main(["table", str(runs), "--picture", str(path)]) == 0
    assert first.read_bytes() == again.read_bytes()
    drawn = first.read_text(encoding="utf-8")
    matrix = build_matrix(collect(runs, report=print), metric="spearman")
    assert all(heading(column) in drawn for column in matrix.columns)
    assert all(short_label(row.label).split("\n")[0] in drawn for row in matrix.rows)
    assert main(["table", str(runs), "--picture", str(tmp_path / "matrix.png")]) == 0


def test_compare_prints_references(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # which asks for a table
    page = tmp_path / "compared.md"
    assert main(["compare", "--published", str(runs), "--markdown", str(page)]) == 0
    out = capsys.readouterr().out
    assert "Compared with cosent_bi_encoder. matches: " in out
    assert "chinese_transfer: qmc_domain, qmc-base" in out
    assert "of our numbers have no reference" in out
    assert "| trained on | our setup | set |" in out  # a pipe gets Markdown
    assert page.read_text(encoding="utf-8") == out
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["compare", "--published", str(runs)]) == 0
    drawn = capsys.readouterr().out
    assert "|" not in drawn
    assert {"cosent_bi_encoder.", "qmc-base),"} <= set(drawn.split())


COMMITTED = unpacked() / "transfer" / "runs"


@pytest.fixture(scope="module")
def committed():
    results = collect(COMMITTED, report=print)
    return build_matrix(results, metric="spearman")


@pytest.mark.slow
def test_the_committed_matrix_fits_a_terminal_with_all_its_values(committed, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["table", str(COMMITTED)]) == 0
    out = capsys.readouterr().out
    assert max(map(cell_len, out.split("┘")[0].splitlines())) <= 200
    for row in committed.rows:
        for column in committed.columns:
            assert all(part in out for part in re.findall(r"[\d.-]+|—", cell_text(row, column)))


MISTAKES = [
    (["table", "nowhere"], "nowhere: no such folder"),
    (["table", "RUNS", "--metric", "sperman"], "--metric sperman"),
    (["table", "RUNS", "--csv", "/nowhere/at/all.csv"], "No such file or directory"),
    (["table", __file__], "this is a file, not a folder"),
    (["archive", "RUNS", __file__], "Expected a folder, not a file"),
    (["archive", "RUNS", "RUNS/within"], "RUNS/within"),
    (["report", "nowhere"], "nowhere: no such folder"),
    (["report", "EMPTY"], "no result.json of a run below it"),
    (["report", "RUNS", "--leaks", "nowhere.json"], "--leaks nowhere.json: "),
    (["report", "RUNS", "--leaks", "RUNS/0/result.json"], "not an audit of pairs"),
    (["report", "RUNS", "--reference", "nowhere"], "--reference nowhere: no such folder"),
    (["report", "RUNS", "--reference", "EMPTY"], "no CSV file"),
    (["report", "RUNS", "--metric", "sperman"], "--metric sperman"),
    (["report", "RUNS", "--out", "/dev/null/report"], "/dev/null is not a folder"),
    (["report", "RUNS", "--into", "PAGE"], "has no end. Write <!-- /result:matrix --> further down"),
]
DASHBOARDS = [
    (["dashboards", "EMPTY"], "folder of a finished run"),
    (["dashboards", "RUNS/0", "ELSEWHERE/run"], "--out"),
]


@pytest.mark.parametrize(
    ("words", "told"), [*MISTAKES, *(pytest.param(*row, marks=pytest.mark.slow) for row in DASHBOARDS)]
)
def test_mistakes_are_one_line_and_status_2(runs, tmp_path, keyless, capsys, words, told):
    if words[0] == "dashboards":
        pytest.importorskip("wandb_workspaces", reason='pip install -e ".[dashboards]"')
    for folder in ("empty", "elsewhere/run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "page.md").write_text("<!-- result:matrix -->\n", encoding="utf-8")
    places = {"RUNS": runs, "EMPTY": tmp_path / "empty"}
    places |= {"ELSEWHERE": tmp_path / "elsewhere", "PAGE": tmp_path / "page.md"}

    def placed(text):
        for name, place in places.items():
            text = text.replace(name, str(place))
        return text

    assert main([placed(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert placed(told) in error
    assert error.count("\n") == 1


def test_exported_results_give_the_same_table_without_folders_of_this_machine(runs, tmp_path, capsys):
    (runs / "0" / "result.json").write_text("{", encoding="utf-8")
    (runs / "1" / "encoder").mkdir()
    result = Result.read(runs / "1")
    result.config["data_dir"] = "/home/me/data"
    result.environment["command"] = ["train.py", "init_from=/home/me/runs/a", "url=https://a.b/c"]
    result.write(runs / "1")
    target = tmp_path / "kept"
    assert main(["archive", str(runs), str(target)]) == 0
    shown = capsys.readouterr()
    assert "left out: " in shown.err
    files = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert files == sorted(f"{path.parent.name}/result.json" for path in runs.rglob("result.json"))[1:]
    kept = Result.read(target / "1")
    assert kept.config["data_dir"] == "data"
    assert kept.environment["command"] == ["train.py", "init_from=a", "url=https://a.b/c"]
    assert kept.scores == result.scores
    tables = []
    for folder in (runs, target):
        main(["table", str(folder)])
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]


def test_an_unreadable_result_is_named_and_the_rest_is_shown(runs, capsys):
    (runs / "0" / "result.json").write_text("{", encoding="utf-8")
    assert main(["table", str(runs)]) == 0
    shown = capsys.readouterr()
    assert "left out: " in shown.err
    assert "lexical" in shown.out
