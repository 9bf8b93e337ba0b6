import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from forks import python
from report_fixture import small_picture, write_audit, write_reference, write_results

from juzhen.cli.main import main
from juzhen.core.errors import install_line
from juzhen.core.file_guard import LIST
from juzhen.core.result import Score

GOLDEN = Path(__file__).parent / "golden_report"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def report(tmp_path, make_result):
    """Writes results, runs the command and gives the folder of the report."""

    def write(results=None, *more):
        runs = write_results(tmp_path / "runs", small_picture(make_result) if results is None else results)
        words = ["--leaks", str(write_audit(tmp_path)), "--reference", str(write_reference(tmp_path / "ref"))]
        assert main(["report", str(runs), *words, *more]) == 0
        return runs / "report"

    return write


def test_files_are_the_golden_ones(report, capsys):
    folder = report()
    written = sorted(Path(line).name for line in capsys.readouterr().out.splitlines())
    assert sorted([LIST, *written]) == sorted(path.name for path in folder.iterdir())
    for golden in sorted(GOLDEN.iterdir()):
        written = (folder / golden.name).read_bytes().replace(f"{folder.parent}".encode(), b"RUNS")
        assert written == golden.read_bytes(), golden.name
    assert {"report.md", "matrix.csv", "matrix.tex", "differences.csv", "published.csv"} == {
        path.name for path in GOLDEN.iterdir()
    }


@pytest.mark.slow
def test_the_heat_map_is_svg_with_every_number_and_is_the_same_again(report, tmp_path):
    folder = report()
    svg = (folder / "matrix.svg").read_bytes()
    words = {"".join(one.itertext()).strip() for one in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    assert {"lexical", "untrained", "lcqmc → csts", "bq (dev)", "78.0", "52.0†", "50.0▽", "·"} <= words
    assert (folder / "matrix.png").read_bytes().startswith(b"\x89PNG")
    assert (
        main(["report", str(folder.parent), "--leaks", str(tmp_path / "pairs.json"), "--out", str(tmp_path)])
        == 0
    )
    assert (tmp_path / "matrix.svg").read_bytes() == svg


def test_one_row_is_a_report_and_a_column_of_nulls_stays_a_column(report, make_result):
    null = Score(None, why="all scores are equal")
    folder = report([make_result(["csts"], {"dev/csts/spearman": 0.5, "test/bq/spearman": null})])
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "| csts | 1 | — | ***50.0*** |" in text
    assert "\n— bq (test): all scores are equal (csts)\n" in text
    assert "## Leaks\n" in text
    assert "## Which training set helps most targets?" not in text
    assert "Nothing here to answer this from." not in text
    words = ElementTree.parse(folder / "matrix.svg").getroot().itertext()
    assert not any("bq" in word for word in words)


def test_nulls_alone_are_a_report_without_a_picture(report, make_result):
    folder = report([make_result(["csts"], {"dev/csts/spearman": None})])
    assert "| csts | 1 | — |" in (folder / "report.md").read_text(encoding="utf-8")
    assert not (folder / "matrix.svg").exists()


def test_numbers_of_english_and_chinese_pages_are_filled_between_markers(report, tmp_path):
    start, end = "<!-- result:{} -->", "<!-- /result:{} -->"
    pages = [tmp_path / name for name in ("README.md", "README.zh.md")]
    body = "\n".join(
        f"{start.format(key)}\nstale text\n{end.format(key)}" for key in ("matrix", "averages", "fidelity")
    )
    for page in pages:
        page.write_text(f"before\n{body}\nafter\n", encoding="utf-8")
    report(None, "--into", *map(str, pages))
    english, chinese = (page.read_text(encoding="utf-8") for page in pages)
    for text in (english, chinese):
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "stale" not in text
        assert "75.0 ± 1.0" in text
    assert "| trained on | in-domain |" in english
    assert "| 训练集 | 领域内 |" in chinese
    assert "trained on" not in chinese


@pytest.mark.slow
def test_a_page_without_markers_is_left(report, tmp_path, capsys):
    page = tmp_path / "plain.md"
    page.write_text("nothing here\n", encoding="utf-8")
    report(None, "--into", str(page))
    assert page.read_text(encoding="utf-8") == "nothing here\n"
    assert "plain.md: no marker" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_needs_no_torch_and_few_seconds(tmp_path, make_result):
    runs = write_results(tmp_path / "runs", small_picture(make_result))
    program = (
        "import sys, runpy, time; started = time.process_time()\n"
        f"sys.argv = ['juzhen', 'report', {str(runs)!r}]\n"
        "try: runpy.run_module('juzhen', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'hydra', 'sklearn', 'transformers', 'wandb'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert time.process_time() - started < 20"
    )
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    assert (runs / "report" / "index.html").exists()


def test_without_matplotlib_the_rest_is_written_and_it_says_so(report, monkeypatch, capsys):
    monkeypatch.setattr("juzhen.report.build.find_spec", lambda name: None)
    folder = report()
    assert not (folder / "matrix.svg").exists()
    assert (folder / "index.html").exists()
    assert install_line("report") in capsys.readouterr().err
