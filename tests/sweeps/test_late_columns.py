import io

from rich.console import Console

from sweeps.ledger import Event, Ledger, SweepCell
from sweeps.planner import late_columns_line
from sweeps.status import read_status, to_console


def finished_cell(make_result, folder, data_dir):
    """A cell whose result lacks late/dev, which is read from two files, and has a constant score elsewhere."""
    described = {
        "source": None,
        "layout": "tsv",
        "layouts": {"tsv": {"files": {"dev": ["late/a.tsv", "late/b.tsv.zst"]}}},
    }
    result = make_result(
        ["demo_sts"],
        {"dev/late/spearman": None, "dev/demo_sts/spearman": None},
        source="local",
        data_dir=str(data_dir),
        evaluate={"late": described},
    )
    result.data = {"dev/demo_sts": {"rows": 2}}
    folder.mkdir(parents=True)
    result.write(folder)
    return SweepCell(str(folder), ())


def test_finished_cells_are_named_once_all_files_of_a_column_are_there(make_result, tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    cells = [finished_cell(make_result, runs / name, data) for name in ("a", "b")]
    broken = SweepCell(str(runs / "broken"), ())
    (runs / "broken").mkdir()
    (runs / "broken" / "result.json").write_text("{}")
    cells += [broken, SweepCell(str(runs / "planned"), ())]
    ledger = Ledger(runs)
    planned = [(Event.PLANNED, {"run_dir": one.run_dir, "words": [], "devices": 0}) for one in cells]
    ledger.add_all([(Event.SWEEP, {"cells": 4, "jobs": 1}), *planned])
    (data / "late").mkdir(parents=True)
    (data / "late" / "a.tsv.gz").touch()
    assert late_columns_line(cells) is None
    assert read_status(runs).late_columns is None

    (data / "late" / "b.tsv").touch()
    line = f"2 finished runs lack columns whose files are there now: juzhen evaluate {runs}"
    assert late_columns_line(cells) == line
    printed = io.StringIO()
    Console(width=300, file=printed).print(to_console(read_status(runs)))
    assert line in printed.getvalue()
    assert late_columns_line(cells[:1]).startswith("1 finished run lacks ")
