"""What stands around every program: its streams outlive their readers and take any text; a slip is met with a hint."""

import io
import os
import subprocess
import sys
from textwrap import indent

import pytest
from forks import python

import launch
import train
from juzhen.cli import program as program_module
from juzhen.cli.main import main as verbs
from juzhen.cli.streams import readable

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
    """The program as a shell starts it, with `shell` after it; what it said, and how it ended."""
    quoted = "'" + "' '".join(word.replace("'", "'\\''") for word in command) + "'"
    variables = {
        **os.environ,
        "PYTHONPATH": str(root),
        **{name: value for name, value in environment.items() if value is not None},
    }
    for name in [name for name, value in environment.items() if value is None]:
        variables.pop(name, None)
    script = f"{quoted} {shell}; exit ${{PIPESTATUS[0]}}"
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


def test_no_file_takes_the_number_of_a_closed_stream(project_root, program, tmp_path):
    body = (
        f"file = open({str(tmp_path / 'kept')!r}, 'w')\nassert file.fileno() > 2\nprint('x')\nfile.write('y')"
    )
    assert started(program(body), root=project_root, shell="<&- >&- 2>&-").returncode == 0
    assert (tmp_path / "kept").read_text() == "y"


def test_a_child_of_a_program_without_streams_has_some(project_root, program, tmp_path):
    child = f"import os; open({str(tmp_path / 'told')!r}, 'w').write(str([os.fstat(n).st_mode > 0 for n in range(3)]))"
    body = f"import subprocess; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert started(program(body), root=project_root, shell="<&- >&- 2>&-").returncode == 0
    assert (tmp_path / "told").read_text() == "[True, True, True]"


SIGNS = "print('今天 × ± … → “a” ┏━┳━┓ ┃█░ é', sys.argv[1])\nprint('错误', file=sys.stderr)"


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": None},
    ],
    ids=["stream", "locale"],
)
def test_a_terminal_that_knows_ascii_alone_is_shown_plain_signs(project_root, program, environment):
    ended = started([*program(SIGNS), "句子"], root=project_root, **environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == '\\u4eca\\u5929 x +- ... -> "a" +-+-+ |## e \\u53e5\\u5b50\n'
    assert ended.stderr == "\\u9519\\u8bef\n"


def test_a_locale_of_ascii_alone_leaves_files_with_chinese_names(project_root, program, tmp_path):
    body = f"open({str(tmp_path)!r} + '/' + sys.argv[1], 'w').write('好')"
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    assert started([*program(body), "句子"], root=project_root, **plain).returncode == 0
    assert (tmp_path / "句子").read_text(encoding="utf-8") == "好"


def test_signs_of_the_terminal_are_left_alone(project_root, program):
    ended = started([*program(SIGNS), "句子"], root=project_root, PYTHONIOENCODING=None, LC_ALL="C")
    assert ended.stdout == "今天 × ± … → “a” ┏━┳━┓ ┃█░ é 句子\n"


def test_a_byte_that_is_no_utf8_is_shown_as_its_number():
    error = UnicodeEncodeError("utf-8", "a\udcffb", 1, 2, "surrogates not allowed")
    assert readable(error) == ("\\xff", 2)


def test_the_folder_is_gone(project_root, program, tmp_path):
    (tmp_path / "here").mkdir()
    body = f'cd {tmp_path}/here; rmdir {tmp_path}/here; PYTHONPATH={project_root} exec "$@"'
    ended = subprocess.run(
        ["bash", "-c", body, "bash", *program("print('x')")], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: the folder that this was started in is no longer there")


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (
            "from juzhen.core.errors import UserError\nraise UserError('no such thing')",
            2,
            "error: no such thing\n",
        ),
        (
            "open('a' * 300)",
            2,
            f"error: script.py: {'a' * 200}… (300 characters): File name too long; give a shorter one\n",
        ),
        ("raise KeyboardInterrupt", 130, "stopped by Ctrl-C\n"),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('words')", 1, "words\n"),
        ("return 3", 3, ""),
    ],
)
def test_how_a_program_ends(project_root, program, body, status, told):
    ended = started(program(body), root=project_root)
    assert (ended.returncode, ended.stderr) == (status, told)


def test_tracebacks_are_shown_to_who_asks_for_them(project_root, program):
    body = "from juzhen.core.errors import UserError\nraise UserError('no such thing')"
    ended = started(program(body), root=project_root, HYDRA_FULL_ERROR="1")
    assert (ended.returncode, ended.stderr.count("Traceback")) == (1, 1)


def test_ctrl_c_at_the_start_of_a_job_leaves_no_traceback(monkeypatch, capsys):
    def stop(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "check_command_line", stop)
    assert program_module.status_of(train.main) == 130
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


@pytest.mark.parametrize(
    ("columns", "kept"),
    [("²", None), ("٣٣", None), ("0", None), ("-3", None), ("x", None), ("99999999", None), ("72", "72")],
)
def test_a_width_that_is_none_is_forgotten(monkeypatch, columns, kept):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.delenv("LINES", raising=False)
    program_module._forget_odd_sizes()
    assert os.environ.get("COLUMNS") == kept


def test_what_is_loaded_is_announced_once(monkeypatch, capsys):
    monkeypatch.setattr(program_module, "_announced", set())
    for name in ("no_such_library", "no_such_library", "sys"):
        program_module.announce(name)
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
    with pytest.raises(KeyError), program_module.checking():
        raise KeyError
    assert stream.getvalue() == told


SLIPS = [
    (verbs, ["tabel", "runs"], ["tabel: there is no such command; did you mean table?", "compare, report"]),
    (verbs, ["calibrat", "runs/x"], ["there is no such command; did you mean calibrate?"]),
    (verbs, ["destil"], ["destil: there is no such command; did you mean distil?"]),
    (
        verbs,
        ["table", "runs", "--markdwon", "x"],
        ["--markdwon: there is no such option; did you mean --markdown?"],
    ),
    (verbs, ["compare", "runs", "--split", "dev"], ["--split: an option of table, report, dashboards alone"]),
    (verbs, ["table", ""], ["error: folder: expected a file or a folder, not an empty text"]),
    (verbs, ["table", "runs", "--csv", " "], ["error: --csv: expected a file or a folder"]),
    (verbs, ["table", "a" * 300], ["(300 characters): File name too long"]),
    (verbs, ["table"], ["missing: folder; see juzhen table --help"]),
    (verbs, [], ["missing: command; see juzhen --help"]),
    (verbs, ["table", "a", "b"], ["b: one argument too many"]),
    (verbs, ["curves", "a", "-5度"], ["a text that begins with a dash goes after --"]),
]


@pytest.mark.parametrize(
    ("main", "words", "parts"), SLIPS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_slip_is_met_with_what_there_is(capsys, main, words, parts):
    assert program_module.status_of(lambda: main(words)) == 2
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
