"""Reports: what is written can be read, shown and drawn."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench.options import BENCHMARKS
from tools.bench.report import Report, show, shown, tables

sys.path.append(str(Path(__file__).parent))
from reports import ROWS, report


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_what_is_written_is_read_back(benchmark, tmp_path):
    written = report(benchmark)
    path = written.write(tmp_path / "out")
    assert path == tmp_path / "out" / f"{benchmark}.json"
    assert Report.read(path) == written
    assert list(json.loads(path.read_text())) == [
        "benchmark", "options", "machine", "rows", "checks", "curves", "notes", "seconds", "format_version",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"), [([{"a": 1}, {"b": 1}], "different keys"), ([{"a": [1]}], "no plain value")]
)
def test_rows_that_are_no_table_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        Report("training", {}, {}, rows)


def test_a_number_that_is_none_cannot_be_written_as_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Report("cosent", {}, {}, [{"mib": float("nan")}]).write(tmp_path)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_table_shows_every_row_and_note(benchmark):
    console = Console(file=io.StringIO(), width=100)
    show(report(benchmark), console)
    text = console.file.getvalue()
    assert benchmark in text
    assert "a note" in text
    for row in ROWS[benchmark]:
        assert str(row.get("side", row.get("size"))) in text


def test_many_columns_are_split_and_labels_repeated():
    rows = [{"side": side} | {f"n{number}": number for number in range(8)} for side in ("ours", "theirs")]
    parts = tables(rows)
    assert [list(part[0]) for part in parts] == [
        ["side", "n0", "n1", "n2", "n3"],
        ["side", "n4", "n5", "n6", "n7"],
    ]
    assert [row["side"] for row in parts[1]] == ["ours", "theirs"]


def test_a_ratio_is_shown_with_its_range_and_empty_columns_are_not():
    (part,) = tables([{"side": "ours", "ratio": 2.0, "ratio_low": 1.0, "ratio_high": 3.0, "mib": None}])
    assert part == [{"side": "ours", "ratio": "2.00", "ratio_low": "1.00–3.00"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (True, "True"), (0.0, "0"), (1234.5, "1,234"), (1.2345, "1.23"), (0.000123, "0.000123")],
)
def test_values_have_three_digits(value, text):
    assert shown(value) == text


@pytest.fixture
def plots():
    pytest.importorskip("matplotlib")
    from tools.bench import plots

    return plots


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.sampled(3)
def test_every_report_has_a_picture(benchmark, tmp_path, plots):
    drawn = plots.draw(report(benchmark), tmp_path)
    assert [path.name for path in drawn] == [f"{benchmark}.svg", f"{benchmark}.png"]
    assert drawn[0].read_bytes().count(b"<path") > 3


def test_a_picture_that_is_drawn_again_is_the_same(tmp_path, plots):
    svgs = [plots.draw(report("training"), tmp_path)[0].read_bytes() for _ in range(2)]
    assert svgs[0] == svgs[1]


def test_a_report_without_rows_has_no_picture(tmp_path, plots):
    assert plots.draw(Report("cosent", {}, {}, []), tmp_path) == []


def test_points_that_could_not_be_measured_are_not_drawn(plots):
    left = plots.cosent(report("cosent")).axes[0]
    assert {line.get_label(): len(line.get_xdata()) for line in left.lines} == {"ours": 2, "all pairs": 1}
