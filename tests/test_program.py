"""What stands around every program: its streams outlive their readers and take any text; a slip is met with a hint."""

import io
import os
import shlex
import subprocess
import sys
from textwrap import indent

import pytest
from forks import printed

import juzhen.cli.program as streams
import train
from juzhen.cli.program import status_of

PROGRAM = """
import sys
from juzhen.cli.program import run_program
def main():
{body}
sys.exit(run_program(main))
"""
LINES = "for number in range(20000): print('line', number)\nprint('done', file=sys.stderr)"


@pytest.fixture
def program(tmp_path):
    """A program whose main has these lines, as words of a command line."""

    def written(body):
        script = tmp_path / "script.py"
        script.write_text(PROGRAM.format(body=indent(body, "    ")), encoding="utf-8")
        return [sys.executable, str(script)]

    return written


def started(command, *, root, shell="", **environment):
    """The program as a shell starts it, with `shell` after it; and how it ended; None: no such variable."""
    variables = os.environ | {"PYTHONPATH": str(root)} | environment
    variables = {name: value for name, value in variables.items() if value is not None}
    script = f"{shlex.join(command)} {shell}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(["bash", "-c", script], cwd=root, env=variables, capture_output=True, text=True)


SWALLOWED = """
import signal, types
from juzhen.cli.program import loading
def slow():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
import os
signal.signal(signal.SIGINT, signal.default_int_handler)
with loading({name!r}):
    slow()
print("went on")
"""
SIGTERM_LINE = "stopped by SIGTERM. Finished files are kept, unfinished ones are removed\n"
TERMINATED = """
import os, pathlib, signal, tempfile, time
from multiprocessing import get_context
from juzhen.core.atomic_write import atomic_write
with tempfile.TemporaryDirectory() as folder:
    worker = get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    worker.terminate()  # it prints nothing
    worker.join()
    assert worker.exitcode == -signal.SIGTERM
    try:
        with atomic_write(pathlib.Path(folder, "out")) as file:
            file.write("half")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` does
        print("left:", os.listdir(folder))
"""
DROPPED = """
import os, signal, time
class Part:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0)
signal.signal(signal.SIGINT, signal.default_int_handler)
Part()
"""
DROPPED_LATE = DROPPED.replace(
    "\nPart()", "\nimport atexit\natexit.register(lambda: (Part(), time.sleep(0.1)))"
)
SIGNS = "print('今天 × é')\nprint('错误', file=sys.stderr)"
FULL = "done\nerror: the output could not be written: No space left on device\n"
FULL_DISK = "error: script.py: No space left on device. Free some space, or choose a folder on another disk\n"
ENDS = [
    (LINES, "| head -1", 0, "line 0\n", "done\n"),
    (LINES, "2>&1 | head -1", 0, "line 0\n", ""),
    (LINES, ">&-", 0, "", "done\n"),
    (LINES, "2>&-", 0, "line 19999\n", ""),
    (LINES, "<&- >&- 2>&-", 0, "", ""),
    (LINES, "> /dev/full", 1, "", FULL),
    (LINES, "2> /dev/full", 0, "line 19999\n", ""),
    (LINES, "> /dev/full 2>&1", 1, "", ""),
    (SIGNS, "PYTHONIOENCODING=ascii", 0, "\\u4eca\\u5929 \\xd7 \\xe9\n", "\\u9519\\u8bef\n"),
    (SIGNS, "LC_ALL=C", 0, "今天 × é\n", "错误\n"),
    ("raise KeyboardInterrupt", "", 130, "", "stopped by Ctrl-C\n"),
    (TERMINATED, "", 143, "left: []\n", SIGTERM_LINE),
    (DROPPED.format(name="SIGINT") + "time.sleep(60)", "", 130, "", "stopped by Ctrl-C\n"),
    (DROPPED.format(name="SIGINT"), "", 130, "", "stopped by Ctrl-C\n"),
    (DROPPED.format(name="SIGTERM") + "time.sleep(60)", "", 143, "", SIGTERM_LINE),
    (DROPPED_LATE.format(name="SIGINT"), "", 0, "", ""),  # all is done
    ("raise OSError(28, 'No space left on device')", "", 1, "", FULL_DISK),
    ("raise SystemExit(7)", "", 7, "", ""),
    ("raise SystemExit('words')", "", 1, "", "words\n"),
    ("return 3", "", 3, "", ""),
    (SWALLOWED.format(name="torch"), "", 130, "", "loading torch …\nstopped by Ctrl-C\n"),
    (
        SWALLOWED.replace("getpid(), signal.SIGINT", "getpid(), signal.SIGTERM").format(name="torch"),
        "",
        143,
        "",
        "loading torch …\n" + SIGTERM_LINE,
    ),
    (SWALLOWED.format(name="os"), "", 0, "went on\n", ""),  # what is loaded already is not spoken of
]
"""Lines of a program, what a shell does with it, its status, its output or the end of it, what it says on stderr."""


@pytest.mark.parametrize(("body", "shell", "status", "out", "error"), ENDS, ids=range(len(ENDS)))
@pytest.mark.sampled(2)
def test_how_a_program_ends(project_root, program, body, shell, status, out, error):
    environment = {}
    if "=" in shell:
        environment, shell = {"PYTHONIOENCODING": None} | dict([shell.split("=")]), ""
    ended = started(program(body), root=project_root, shell=shell, **environment)
    assert (ended.returncode, ended.stderr) == (status, error)
    assert ended.stdout.endswith(out) if out == "line 19999\n" else ended.stdout == out


def test_closed_streams_are_no_numbers_for_files_nor_for_children(project_root, program, tmp_path):
    child = f"import os; open({str(tmp_path / 'child')!r}, 'w').write(str([os.fstat(n).st_mode > 0 for n in range(3)]))"
    body = (
        f"file = open({str(tmp_path / 'file')!r}, 'w')\nassert file.fileno() > 2\nprint('x')\nfile.write('y')\n"
        f"import subprocess; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    started(program(body), root=project_root, shell="<&- >&- 2>&-")
    assert (tmp_path / "file").read_text() == "y"
    assert (tmp_path / "child").read_text() == "[True, True, True]"


def test_ctrl_c_at_the_start_of_a_job_leaves_no_traceback(monkeypatch, capsys):
    def stop(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("launch.check.check_command_line", stop)
    assert status_of(train.main) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C\n"


def test_nothing_that_takes_time_is_loaded_before_a_program_is_ready():
    listed = "import train, sys; print({'hydra', 'omegaconf', 'numpy', 'torch'} & set(sys.modules))"
    assert printed("-c", listed) == "set()\n"


def test_what_is_loaded_is_announced_once(monkeypatch, capsys):
    monkeypatch.setattr(streams, "_announced", set())
    for name in ("no_such_library", "no_such_library", "sys"):
        streams.announce(name)
    assert capsys.readouterr().err == "loading no_such_library …\n"


@pytest.mark.parametrize(
    ("terminal", "name", "told"),
    [(True, "xterm", "checking the job …\r\x1b[K"), (True, "dumb", ""), (False, "xterm", "")],
)
def test_a_terminal_is_told_of_the_check_until_it_ends(monkeypatch, terminal, name, told):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", name)
    with pytest.raises(KeyError), streams.checking():
        raise KeyError
    assert stream.getvalue() == told


@pytest.mark.parametrize("module", ["benchmarks", "tools.loss_table", "tools.halve"])
@pytest.mark.slow
def test_a_program_of_one_module_starts(module):
    assert "--help" in printed("-m", module, "--help", silent=True)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, {"GOMP_SPINCOUNT": "4000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_waiting_threads_spin_briefly_unless_the_user_says_otherwise(program, project_root, given, seen):
    """Also in what a program starts, such as the cells of a sweep; torch is not loaded yet."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    inner = f"import os; print({{name: os.environ[name] for name in {names} if name in os.environ}})"
    body = (
        f"import subprocess, sys\nassert 'torch' not in sys.modules\n"
        f"subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    done = subprocess.run(
        program(body),
        env=environment | {"PYTHONPATH": str(project_root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{seen}\n"


@pytest.mark.parametrize(
    ("number", "status", "advice"), [(28, 1, "Free some space"), (27, 1, "ulimit"), (30, 2, "may write")]
)
def test_a_refusal_of_the_system_by_a_library_in_rust_has_its_advice(number, status, advice, capsys):
    def fail():
        raise RuntimeError(f"Error while serializing: I/O error: … (os error {number})")

    assert status_of(fail, "juzhen export") == status
    assert advice in capsys.readouterr().err
