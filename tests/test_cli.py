"""`juzhen`: its verbs and their help, what old commands answer, what a shell completes."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forks import python

from juzhen.cli import completion, encode, export, verbs
from juzhen.cli.main import main
from juzhen.cli.verbs import SUITE, VERBS, load_verb, parser_of
from juzhen.encoders import load_encoder

MINI = Path(__file__).resolve().parents[1] / "juzhen" / "builtin" / "mini_zh"


@pytest.mark.parametrize("name", VERBS)
def test_what_a_verb_reads_is_what_its_function_takes(name):
    parser, function = parser_of(name), load_verb(name).run
    taken = inspect.signature(function).parameters
    actions = {action.dest: action for action in parser._actions if action.dest != "help"}
    assert set(actions) == set(taken)
    required = {one.dest for one in actions.values() if one.required}
    assert {one.name for one in taken.values() if one.default is inspect.Parameter.empty} <= required
    assert function.__doc__
    assert parser.description
    assert parser.prog == f"juzhen {name}"


def test_help_lists_every_verb_at_once_and_loads_nothing_for_it():
    code = (
        "import sys, time; from juzhen.cli.main import main; assert main(['--help']) == 0\n"
        "heavy = {'torch', 'hydra', 'omegaconf', 'numpy', 'rich', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert time.process_time() < 0.5"
    )
    ended = python("-c", code)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert all(f"  {name} " in ended.stdout and about in ended.stdout for name, about in VERBS.items())


def test_help_of_no_verb_waits_for_a_heavy_library():
    code = (
        "import sys; from juzhen.cli.main import main\n"
        f"for name in {list(VERBS)}: assert main([name, '--help']) == 0\n"
        "heavy = {'torch', 'hydra', 'numpy', 'scipy', 'sklearn', 'rich', 'transformers', 'wandb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    ended = python("-c", code)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_without_the_clone_a_verb_of_the_suite_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(verbs, "ROOT", tmp_path)
    for name in SUITE:
        assert main([name, "runs"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert f"juzhen {name} is of the suite" in told
    assert main(["compare", "runs", "--split", "dev"]) == 2
    assert "--split: an option of table, report alone" in capsys.readouterr().err
    assert completion.candidates(["status", ""]) == []


def test_the_clone_is_found_from_anywhere(project_root, tmp_path):
    code = "import sys; sys.path = [{0!r}, *sys.path]; from juzhen.cli.verbs import load_verb; sys.path.remove({0!r})"
    code += "; load_verb('status'); print(sys.path[0])"
    ended = python("-c", code.format(str(project_root)), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, f"{project_root}\n"), ended.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([""], [*VERBS, "--help", "--version"]),
        (["table", "--"], ["--help", "--metric", "--split", "--markdown", "--csv", "--picture"]),
        (["table", "--split", ""], ["dev", "test", "both"]),
        (["table", "--split", "=", "de"], ["dev", "test", "both"]),
        (["table", "--split", "="], ["dev", "test", "both"]),
        (["table", ""], [completion.FILES]),
        (["table", "runs", "--csv", "a"], [completion.FILES]),
        (["table", "runs", ""], []),
        (["calibrate", "runs/x", "--batch-tokens", ""], []),
        (["calibrate", "--no-plot", ""], [completion.FILES]),
        (["completion", ""], ["bash", "zsh"]),
        (["nothing", ""], []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_may_come_next(words, found):
    assert completion.candidates(words) == found


@pytest.fixture
def shell_folder(tmp_path, project_root):
    """A folder with the program and with files to be completed."""
    (tmp_path / "runs").mkdir()
    program = tmp_path / "juzhen"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={project_root} exec {sys.executable} -m juzhen "$@"\n')
    program.chmod(0o755)
    return tmp_path


def test_bash_completes(shell_folder):
    found = {
        "ta": {"table"},
        "table --spl": {"--split"},
        "table --split ''": {"dev", "test", "both"},
        "table --split = d": {"dev"},
        "table ru": {"runs"},
        "table x": set(),
    }
    script = "source <(juzhen completion bash); complete -p juzhen >/dev/null\n" + "".join(
        f"COMP_WORDS=(juzhen {words}); COMP_CWORD={len(words.split())}; _juzhen; echo ${{COMPREPLY[@]}}\n"
        for words in found
    )
    environment = os.environ | {"PATH": f"{shell_folder}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=shell_folder, env=environment, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    answers = [set(line.split()) for line in ended.stdout.splitlines()]
    assert dict(zip(found, answers, strict=True)) == found


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_takes_its_script():
    script = completion.SCRIPTS["zsh"].replace("compdef _juzhen juzhen", "whence -w _juzhen")
    ended = subprocess.run(["zsh", "-fc", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "_juzhen: function\n"), ended.stderr


def test_lines_of_a_file_become_an_array(tmp_path, capsys):
    texts = ["今天天气很好", "A man is playing a guitar.", "今天天气很好"]
    file = tmp_path / "a.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert main(["encode", str(MINI), str(file)]) == 0
    expected = load_encoder(MINI).eval().encode(texts, batch_tokens=512, progress=False)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=1e-6)
    assert capsys.readouterr().err.endswith(
        f"3 embeddings of {expected.shape[1]} numbers: {tmp_path / 'a.npy'}\n"
    )
    encode.run(MINI, file, output=tmp_path / "b", cache=tmp_path / "cache")
    np.testing.assert_array_equal(np.load(tmp_path / "b"), np.load(tmp_path / "a.npy"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["encode", "x", "no.txt"], "no.txt: no such file"),
        (["encode", "x", "pairs.tsv"], "expected .txt, .txt.zst, .txt.gz"),
        (["encode", "x", "FILE"], "a.txt:2: the line is empty"),
        (["encode", "x", "FILE", "--backend", "onx"], "--backend=onx: no such back end; did you mean onnx?"),
        (["export", "x", "encoder.bin"], "expected a file that ends in .onnx"),
        (["export", "nowhere", "encoder.onnx"], "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_encoded_or_exported(tmp_path, capsys, words, told):
    (tmp_path / "a.txt").write_text("好\n\n好\n", encoding="utf-8")
    assert main([str(tmp_path / "a.txt") if one == "FILE" else one for one in words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("int8", [False, True])
def test_an_exported_file_computes_what_the_encoder_does(tmp_path, capsys, int8):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from juzhen.backends.onnx_backend import _computed

    export.run(MINI, tmp_path / "encoder.onnx", int8=int8)
    assert "computes what" in capsys.readouterr().out
    encoder, texts = load_encoder(MINI), ["今天天气很好", "你好"]
    tokens = encoder.collate(encoder.tokenize(texts))
    expected = encoder.encode(texts, batch_tokens=512, progress=False)
    found = _computed(tmp_path / "encoder.onnx", tokens, pad=encoder.pad)
    np.testing.assert_allclose(found, expected, atol=0.1 if int8 else 1e-4)
    assert [one.name for one in tmp_path.iterdir()] == ["encoder.onnx"]
