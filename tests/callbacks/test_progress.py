"""Progress: one line a stage in a terminal, plain lines in a pipe; stdout belongs to results."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from forks import printed, python
from hydra import compose, initialize_config_dir
from jobs import SMALL, interrupt, run_job
from terminals import python_in_a_terminal

from juzhen.core import progress
from juzhen.core.progress import ProgressLine, progress_bar
from juzhen.core.result import PROGRESS_FILE, Result, RunProgress
from launch.console import show_result
from train import CONFIGURATION

WORK = """
import logging, sys, time
from juzhen.core.progress import ProgressLine, progress_bar
logging.basicConfig(stream=sys.stderr, format="%(message)s")
with ProgressLine("training on a_set_with_a_name_as_long_as_names_get", 40, done=8, unit="steps", stays=True) as line:
    for step in range(9, 41):
        time.sleep(0.03)
        line.update(step, lambda wide: "loss 1.234 dev 81.2" + (" best 83.4" if wide else ""))
        if step == 20:
            logging.warning("a message in between")
            print("a warning", file=sys.stderr)
with progress_bar("encoding 句子", 1000, shown=True) as advance:
    for _ in range(10):
        time.sleep(0.03)
        advance(100)
print("Spearman x100")
"""


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.slow
def test_a_line_fits_the_terminal_and_messages_stand_above_it(columns):
    screen = python_in_a_terminal("-c", WORK, columns=columns)
    assert screen.status == 0
    message, warning, line, title = screen.lines
    assert (message, warning, title) == ("a message in between", "a warning", "Spearman x100")
    assert line.startswith("training on")
    assert "40/40 steps" in line
    assert "dev 81.2" in line
    assert ("best 83.4" in line) == (columns >= progress.WIDE)
    assert line.count("━") >= 4
    begun = screen.ever("training on")
    assert "8/40 steps" in begun[0]  # as after a resume
    assert any(" s left" in line for line in begun)
    assert all(len(line) <= columns for line in begun)
    assert any("/1,000" in line for line in screen.ever("encoding"))


def test_a_pipe_gets_whole_lines_and_no_carriage_returns():
    done = python("-c", WORK.replace("time.sleep(0.03)", "pass"))
    assert done.stdout == "Spearman x100\n"
    assert "\r" not in done.stderr
    assert done.stderr.splitlines() == [
        "a message in between",
        "a warning",
        "training on a_set_with_a_name_as_long_as_names_get: 40/40 steps, loss 1.234 dev 81.2 best 83.4, in 0 s",
    ]


def test_lines_of_a_pipe_come_by_time_and_ever_more_rarely(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    line = ProgressLine("training", 36_000, unit="steps", stays=True)
    for step in range(1, 36_001):  # ten hours
        clock[0] += 1.0
        line.update(step)
    line.close()
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "training: 10/36,000 steps, 10.0 h left"
    assert printed[-1] == "training: 36,000/36,000 steps, in 10.0 h"
    assert 60 < len(printed) < 150


def test_the_estimate_leaves_out_what_was_done_before_and_the_first_step(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    line = ProgressLine("training", 100, done=80, stays=True)
    assert line.seconds_left is None
    clock[0] = 50.0  # the first step takes long
    line.update(81)
    assert line.seconds_left is None
    clock[0] = 52.0
    line.update(82)
    assert line.seconds_left == pytest.approx(18 * 2.0)


def test_work_that_nobody_asked_to_see_says_nothing(capsys):
    with progress_bar("encoding", 3, shown=None) as advance:
        advance(3)
    with progress_bar("encoding", 3, shown=False) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_a_job_leaves_nothing_but_its_result_on_stdout(tmp_path, tiny_backbone, capsys):
    run = run_job(tmp_path, tiny_backbone, "training.duration=2 steps", "logger.progress=true")
    captured = capsys.readouterr()
    assert captured.out.startswith("Spearman ×100, trained on demo_sts")
    assert f"result and encoder: {run}" in captured.out
    assert not [word for word in ("training on ", "scoring", "\r") if word in captured.out]
    (line,) = [line for line in captured.err.splitlines() if line.startswith("training on ")]
    assert line.startswith("training on demo_sts: 2/2 steps, loss ")
    shutil.rmtree(run / "encoder")
    show_result(Result.read(run), folder=str(run))
    assert f"result, without an encoder: {run}" in capsys.readouterr().out
    assert " dev " in line
    assert "\r" not in captured.err
    assert not (run / PROGRESS_FILE).exists()


@pytest.mark.slow
def test_an_interrupted_run_keeps_how_far_it_is(tmp_path, tiny_backbone):
    interrupt(tmp_path, tiny_backbone, 4, "SIGTERM")
    (run,) = (path.parent for path in tmp_path.glob(f"*/{PROGRESS_FILE}"))
    state = RunProgress.read(run)
    assert state.work == "training on demo_sts"
    assert (state.done <= 4, state.total) == (True, 6)
    run_job(tmp_path, tiny_backbone, "resume=auto")
    assert RunProgress.read(run) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"work": 1}', '{"work": "a", "done": NaN, "total": 2}', '{"x": 1}']
)
def test_a_state_that_cannot_be_read_is_none(tmp_path, text):
    (tmp_path / PROGRESS_FILE).write_text(text)
    assert RunProgress.read(tmp_path) is None


@pytest.mark.parametrize("columns", [80, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_real_run_in_a_terminal_before_and_after_ctrl_c(tmp_path, tiny_backbone, columns):
    words = [
        *SMALL,
        "logger.progress=true",
        "training.duration=400 steps",
        "training.validate_every=20 steps",
    ]
    words += [
        f"output_dir={tmp_path}",
        f"backbone.path={tiny_backbone}",
        "resume=auto",
        "training.patience=null",
    ]
    words += ["training.checkpoint_every=5 steps"]
    pressed = []

    def press(process: subprocess.Popen, lines: list[str]) -> None:
        if not pressed and any("dev " in line and "/400 steps" in line for line in lines):
            pressed.append(process.send_signal(signal.SIGINT))

    def run(watch):
        file = Path(tmp_path, "stdout.txt")
        return python_in_a_terminal("train.py", *words, columns=columns, stdout=file, watch=watch), file

    first, _ = run(press)
    assert first.status == 130
    assert "continue with resume=auto" in first.text
    again, file = run(lambda process, lines: None)
    assert again.status == 0
    line = next(line for line in again.ever("training on demo_sts") if "loss" in line)
    step = int(line.split("/400 steps")[0].rsplit(None, 1)[1])
    assert step > 1  # it did not begin with the first
    assert any("s left" in line for line in again.ever("/400 steps"))
    (last,) = [line for line in again.lines if line.startswith("training on ")]
    assert "400/400 steps" in last
    assert " dev " in last
    assert last.count("━") >= 4
    assert file.read_text().startswith("Spearman ×100")
    assert not [line for line in again.lines if "Spearman" in line]


@pytest.mark.slow
def test_bars_of_other_libraries_stay_out_of_pipes():
    program = (
        "from juzhen.cli.program import run_program\n"
        "def main():\n"
        "    import datasets\n"
        "    datasets.Dataset.from_dict({'a': list(range(9))}).map(lambda row: row)\n"
        "run_program(main)"
    )
    printed("-c", program, silent=True)


def test_messages_go_to_stderr_and_to_a_file_that_takes_chinese():
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        logging = compose("train", return_hydra_config=True).hydra.job_logging
    assert logging.handlers.console.stream == "ext://sys.stderr"
    assert logging.handlers.file.encoding == "utf-8"
