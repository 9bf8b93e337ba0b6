"""What stands around every program: its streams outlive their readers and take any text; a slip is met with a hint."""

import io
import os
import shlex
import subprocess
import sys
from textwrap import indent

import pytest
from forks import python

import juzhen.cli.program as streams
import train
from juzhen.cli.main import main as verbs
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


@pytest.mark.parametrize(
    ("shell", "status", "out", "error"),
    [
        ("| head -1", 0, "line 0\n", "done\n"),
        ("2>&1 | head -1", 0, "line 0\n", ""),
        (">&-", 0, "", "done\n"),
        ("2>&-", 0, None, ""),
        ("<&- >&- 2>&-", 0, "", ""),
        ("> /dev/full", 1, "", "done\nerror: the output could not be written: No space left on device\n"),
        ("2> /dev/full", 0, None, ""),
        ("> /dev/full 2>&1", 1, "", ""),
    ],
    ids=lambda value: value if isinstance(value, str) and value[:1] in "|<>2" else "",
)
def test_a_program_outlives_who_reads_it(project_root, program, shell, status, out, error):
    ended = started(program(LINES), root=project_root, shell=shell)
    assert (ended.returncode, ended.stderr) == (status, error)
    assert ended.stdout == out if out is not None else ended.stdout.endswith("line 19999\n")


def test_closed_streams_are_no_numbers_for_files_nor_for_children(project_root, program, tmp_path):
    child = f"import os; open({str(tmp_path / 'child')!r}, 'w').write(str([os.fstat(n).st_mode > 0 for n in range(3)]))"
    body = (
        f"file = open({str(tmp_path / 'file')!r}, 'w')\nassert file.fileno() > 2\nprint('x')\nfile.write('y')\n"
        f"import subprocess; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    assert started(program(body), root=project_root, shell="<&- >&- 2>&-").returncode == 0
    assert (tmp_path / "file").read_text() == "y"
    assert (tmp_path / "child").read_text() == "[True, True, True]"


def test_what_an_encoding_lacks_is_spelt_out(project_root, program):
    signs = program("print('今天 × é')\nprint('错误', file=sys.stderr)")
    ended = started(signs, root=project_root, PYTHONIOENCODING="ascii")
    assert ended.stdout == "\\u4eca\\u5929 \\xd7 \\xe9\n"
    assert ended.stderr == "\\u9519\\u8bef\n"
    assert started(signs, root=project_root, PYTHONIOENCODING=None, LC_ALL="C").stdout == "今天 × é\n"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("raise KeyboardInterrupt", 130, "stopped by Ctrl-C\n"),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('words')", 1, "words\n"),
        ("return 3", 3, ""),
    ],
)
def test_how_a_program_ends(project_root, program, body, status, told):
    ended = started(program(body), root=project_root)
    assert (ended.returncode, ended.stderr) == (status, told)


def test_ctrl_c_at_the_start_of_a_job_leaves_no_traceback(monkeypatch, capsys):
    def stop(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("launch.check.check_command_line", stop)
    assert status_of(train.main) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C\n"


def test_nothing_that_takes_time_is_loaded_before_a_program_is_ready():
    listed = "import train, sys; print({'hydra', 'omegaconf', 'numpy', 'torch'} & set(sys.modules))"
    ended = python("-c", listed)
    assert ended.stdout == "set()\n"


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


def test_ctrl_c_while_torch_is_loaded_is_not_lost_in_an_import(project_root, program):
    ended = started(program(SWALLOWED.format(name="torch")), root=project_root)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "loading torch …\nstopped by Ctrl-C\n")


def test_what_is_loaded_already_is_not_spoken_of(project_root, program):
    ended = started(program(SWALLOWED.format(name="os")), root=project_root)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")


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


SLIPS = [
    (["tabel", "runs"], ["tabel: unknown command. Did you mean table?", "compare, gate, report"]),
    (["calibrat", "runs/x"], ["unknown command. Did you mean calibrate?"]),
    (["destill"], ["destill: unknown command. Did you mean distill?"]),
    (["table", "runs", "--markdwon", "x"], ["--markdwon: unknown option. Did you mean --markdown?"]),
    (["archive", "runs", "--split", "dev"], ["--split: unknown option. It is an option of space, mteb"]),
    (["index", "search", "x", "--file", "a"], ["--file: unknown option. It is an option of", "index remove"]),
    (["table", ""], ["error: folder: "]),
    (["table", "runs", "--csv", " "], ["error: --csv"]),
    (["table", "a" * 300], ["(300 characters): File name too long"]),
    (["table"], ["Missing argument 'folder'. See juzhen table --help"]),
    (["mine", "lcqmc", "bm25"], ["Missing option '--out'. See juzhen mine --help"]),
    (
        ["table", "runs", "--split", "tset"],
        ["'--split': 'tset' is not one of 'dev', 'test', 'both'. See juzhen table"],
    ),
    (["fuse", "a"], ["See juzhen fuse --help"]),
    (["calibrate", "a", "--sets"], ["Option '--sets' requires an argument. See juzhen calibrate --help"]),
    (["models"], ["python train.py --help", "docs/guides/choose.md"]),
    (["curves", "runs"], ["juzhen report", "metrics/"]),
    ([], ["Missing command. See juzhen --help"]),
    (
        ["table", "a", "split=dev"],
        ["split=dev: not an option. Type --split dev. See juzhen table --help"],
    ),
    (["table", "a", "b"], ["Got unexpected extra argument(s) (b)"]),
    (["table", "a", "-5度"], ["after --"]),
]


@pytest.mark.parametrize(("words", "parts"), SLIPS, ids=lambda value: " ".join(value))
@pytest.mark.sampled(2)
def test_a_slip_is_met_with_what_there_is(capsys, words, parts):
    assert verbs(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    for part in parts:
        assert part in told


@pytest.mark.parametrize("module", ["benchmarks", "tools.loss_table", "tools.halve"])
@pytest.mark.slow
def test_a_program_of_one_module_starts(module):
    ended = python("-m", module, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")


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
