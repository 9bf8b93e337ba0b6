"""`juzhen`: its verbs and their help, what a slip is answered with, what a shell completes."""

import inspect
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forks import printed

import juzhen
from juzhen.cli import verbs
from juzhen.cli.encode import encode
from juzhen.cli.main import main
from juzhen.cli.verbs import SUITE, VERBS, commands, verb
from juzhen.core import aliases
from juzhen.core.aliases import RENAMED_NAMES, RENAMED_VERBS
from juzhen.encoders import load_encoder

MINI = Path(__file__).resolve().parents[1] / "juzhen" / "builtin" / "mini_zh@2"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_help_with_an_example_and_a_meaning_for_each_word(name):
    for words, command in commands(name).items():
        assert f"\b\njuzhen {words}" in command.help or name == "encode"
        assert all(param.help for param in command.params)
        function = inspect.unwrap(command.callback)
        assert {param.name for param in command.params} == set(inspect.signature(function).parameters)


def test_help_lists_every_verb_at_once_and_loads_nothing_for_it():
    code = (
        "import sys, time; from juzhen.cli.main import main; assert main(['--help']) == 0\n"
        "heavy = {'torch', 'hydra', 'omegaconf', 'numpy', 'pandas', 'rich', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert time.process_time() < 0.5"
    )
    told = printed("-c", code, env=os.environ | {"COLUMNS": "120"}, silent=True)
    assert all(f"  {name} " in told and about in told for name, about in VERBS.items())


def test_help_of_no_verb_waits_for_a_heavy_library():
    code = (
        "import sys; from juzhen.cli.main import main\n"
        f"for words in {[words.split() for name in VERBS for words in commands(name)]}: "
        "assert main([*words, '--help']) == 0\n"
        "heavy = {'torch', 'hydra', 'numpy', 'scipy', 'sklearn', 'rich', 'transformers', 'wandb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    printed("-c", code, silent=True)


def test_without_the_clone_a_verb_of_the_suite_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(verbs, "ROOT", tmp_path)
    for name in SUITE:
        assert main([name, "runs"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert f"juzhen {name}" in told
        assert "clone" in told.lower()
    assert main(["archive", "runs", "--split", "dev"]) == 2
    told = capsys.readouterr().err
    assert "--split" in told
    assert "table, compare" in told


@pytest.mark.parametrize(("old", "new"), RENAMED_VERBS.items())
def test_a_renamed_verb_is_accepted_with_a_line_of_notice(old, new, capsys, monkeypatch):
    monkeypatch.setattr(aliases, "_noted", set())  # another test may have typed it
    assert main([old, "--help"]) == 0
    told = capsys.readouterr()
    assert f"juzhen {new}" in told.out
    assert told.err.count("\n") == 1
    assert f"juzhen {new}" in told.err


@pytest.mark.parametrize(("old", "new"), RENAMED_NAMES.items())
def test_a_renamed_name_of_the_library_is_accepted_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(juzhen, old) is getattr(juzhen, new)


def test_the_clone_is_found_from_anywhere(project_root, tmp_path):
    code = "import sys; sys.path.insert(0, {0!r}); from juzhen.cli.verbs import verb; "
    code += "sys.path = [one for one in sys.path if one != {0!r}]; verb('status'); print(sys.path[0])"
    assert printed("-c", code.format(str(project_root)), cwd=tmp_path) == f"{project_root}\n"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--train", "a", "b", "--evaluate", "c"], {"train": ["a", "b"], "evaluate": ["c"]}),
        (["--train", "a", "--train", "b"], {"train": ["a", "b"]}),
        (["--train", "a", "b", "--counts"], {"train": ["a", "b"], "counts": True}),
    ],
)
def test_an_option_of_several_values_takes_all_words_up_to_the_next(words, values):
    assert verb("leaks").make_context("leaks", words).params.items() >= values.items()


def test_words_after_two_dashes_are_texts():
    parsed = (
        verb("score").make_context("score", ["run", "--columns", "0", "1", "--", "-5度", "--file"]).params
    )
    assert (parsed["encoder"], parsed["sentences"], parsed["columns"]) == (
        "run",
        ["-5度", "--file"],
        ["0", "1"],
    )


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ("juzhen ta", {"table"}),
        ("juzhen table --spl", {"--split"}),
        ("juzhen table --split ", {"dev", "test", "both"}),
    ],
)
def test_bash_completes(project_root, words, candidates):
    environment = {
        "_JUZHEN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "PYTHONPATH": str(project_root),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "juzhen"], env=os.environ | environment, capture_output=True, text=True
    )
    assert (set(ended.stdout.split()), ended.stderr) == (candidates, "")


def test_lines_of_a_file_become_an_array(tmp_path, capsys, monkeypatch):
    texts = ["今天天气很好", "A man is playing a guitar.", "今天天气很好"]
    file = tmp_path / "a.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert main(["encode", str(MINI), str(file)]) == 0
    expected = load_encoder(MINI).eval().encode(texts, batch_tokens=512, show_progress=False)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=1e-6)
    assert capsys.readouterr().err.endswith(
        f"3 embeddings of {expected.shape[1]} dimensions: {tmp_path / 'a.npy'}\n"
    )
    encode(MINI, file, output=tmp_path / "b", cache=tmp_path / "cache")
    np.testing.assert_array_equal(np.load(tmp_path / "b"), np.load(tmp_path / "a.npy"))
    monkeypatch.setattr("sys.stdin", io.StringIO(file.read_text(encoding="utf-8")))
    assert main(["encode", str(MINI), "-", "--output", str(tmp_path / "c.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), np.load(tmp_path / "a.npy"))
