"""A sweep shows its cells: a table that changes in a terminal, a line for each change in a pipe."""

import pytest
from fake_cells import ROOT
from forks import python
from terminals import python_in_a_terminal

from sweeps.ledger import SweepCell
from sweeps.planner import cell_labels, seconds_left

SWEEP = f"""
import json, pathlib, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "sweeps")!r}]
import fake_cells
fake_cells.FAKE = fake_cells.FAKE.replace("    time.sleep(seconds)", '''
    state = {{"work": "training on csts", "done": len(done), "total": 10, "dev": 0.75, "left": 7.0}}
    (run_dir / "progress.json").write_text(json.dumps(state))
    time.sleep(seconds)''')
from sweeps.status import SweepDisplay
planner, cells = fake_cells.plan(pathlib.Path(sys.argv[1]), ["works", "fails", "slow"], jobs=2, attempts=1)
with SweepDisplay() as display:
    planner.report, planner.watch = display.report, display.refresh
    planner.run()
print("DONE")
"""


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.slow
def test_in_a_terminal_the_table_has_progress_score_and_estimate(tmp_path, columns):
    screen = python_in_a_terminal("-c", SWEEP, tmp_path / "runs", columns=columns, STEP_SECONDS="0.4")
    assert screen.status == 0, screen.text
    running = screen.ever("running")
    assert any("training on csts" in line and "75.0" in line and "7 s left" in line for line in running)
    assert any("no luck" in line for line in screen.ever("failed"))
    assert screen.ever("waiting")
    assert any(" left" in line and "about" in line for line in screen.ever("running"))
    assert screen.lines[-1] == "DONE"  # the table is gone, its lines stay
    assert any("finished in" in line for line in screen.lines)
    assert not [line for line in screen.lines if "┃" in line]


@pytest.mark.slow
def test_in_a_pipe_each_change_is_a_line(tmp_path):
    done = python("-c", SWEEP, tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    lines = done.stderr.splitlines()
    assert [sum(word in line for line in lines) for word in ("started", "finished in", "failed")] == [3, 2, 1]
    assert len(lines) == 1 + 3 + 2 + 1  # the plan, three starts, two ends, a failure


def test_a_cell_is_called_by_what_the_others_lack():
    cells = [
        SweepCell("runs/a", ("loss=cosent", "seed=0", "benchmark=none")),
        SweepCell("runs/b", ("loss=cosine", "seed=0", "benchmark=none")),
        SweepCell("runs/c", ("loss=cosine", "seed=1", "benchmark=none", "name=" + "x" * 70)),
    ]
    assert cell_labels(cells[:2]) == {"a": "loss=cosent", "b": "loss=cosine"}
    assert cell_labels(cells)["c"] == "c"  # too long
    assert cell_labels(cells[:1]) == {"a": "a"}
    rows = [SweepCell(f"runs/{i}", ("loss=cosent", 'sweep_row="nli, csts"', f"seed={i}")) for i in range(2)]
    assert cell_labels(rows) == {"0": "nli, csts seed=0", "1": "nli, csts seed=1"}
    assert cell_labels([]) == {}


def test_the_estimate():
    assert seconds_left([], [], 3, jobs=1) is None
    assert seconds_left([100.0], [], 0, jobs=1) is None  # nothing is left
    assert seconds_left([100.0, 200.0], [(60.0, 0.5)], 3, jobs=2) == pytest.approx(150 * 3.5 / 2)
    assert seconds_left([], [(60.0, 0.5)], 1, jobs=1) == pytest.approx(120 * 1.5)
    assert seconds_left([], [(60.0, 0.0)], 1, jobs=1) is None
