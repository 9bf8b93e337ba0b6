"""Numbers on the command line: ASCII digits within their range, or one line, in every program."""

import pytest

from callbacks.trial import TrialAddress
from conf.duration import Duration
from juzhen.cli.main import main
from juzhen.cli.verbs import VERBS, parser_of
from juzhen.core.errors import UserError


def told(words, capsys):
    status = main(words)
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


VERBS_WITH_TOKENS = [
    ["score", "x", "a", "b"],
    ["encode", "x", "a.txt"],
    ["evaluate", "runs"],
    ["calibrate", "x"],
    ["fuse", "x", "y"],
    ["transfer", "x", "mrpc"],
    ["space", "x"],
    ["distil", "x", "mrpc", "--out", "a.tsv"],
    ["mine", "mrpc", "bm25", "--out", "a.tsv"],
]


@pytest.mark.parametrize("value", ["0", "-1", "３", "1_0", "1e3", "x", "", "9" * 30])
@pytest.mark.parametrize("words", VERBS_WITH_TOKENS, ids=lambda words: words[0])
def test_a_number_of_tokens(words, value, capsys):
    line = told([*words, f"--batch-tokens={value}"], capsys)
    assert f"--batch-tokens {value}: expected a number of tokens, such as 16384" in line


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["space", "x", "--seed=-1"], "--seed -1: expected a whole number, 0 or more"),
        (["space", "x", "--sentences=٣٣"], "--sentences ٣٣: expected at least 10, such as 1000"),
        (["transfer", "x", "mrpc", "--seed=-1"], "--seed -1: expected a whole number, 0 or more"),
        (["transfer", "x", "mrpc", f"--seed={2**32}"], "--seed 4294967296: expected"),
        (["transfer", "x", "mrpc", "--limit=9"], "--limit 9: expected at least 10 rows"),
        (["leaks", "--all", "--threshold=nan"], "--threshold nan: expected a number, such as"),
        (["leaks", "--all", "--threshold=٣"], "--threshold ٣: expected a number"),
        (["distil", "x", "z", "--out", "a.tsv", "--seed=²"], "--seed ²: expected"),
        (["mine", "x", "bm25", "--out", "a.tsv", "--depth=0"], "--depth 0: expected 1 or more, such as 100"),
        (["mine", "x", "bm25", "--out", "a.tsv", "--share=all"], "--share all: expected a number, such as"),
    ],
)
def test_other_numbers(words, part, capsys):
    assert part in told(words, capsys)


def test_no_option_leaves_numbers_to_python():
    """int() and float() take the digits of other scripts, 1_0, and whatever has no meaning for the option."""
    left, seen = [], 0
    for whole in map(parser_of, VERBS):
        for parser in commands(whole):
            seen += len(parser._actions)
            left += [(parser.prog, one.option_strings) for one in parser._actions if one.type in (int, float)]
    assert seen > 100
    assert left == []


def commands(parser):
    yield parser
    for child in parser._commands().values():
        yield from commands(child)


@pytest.mark.parametrize("text", ["３ epochs", "٣ steps", "1_0 steps", "1e3 steps", "-1 steps", "inf steps"])
def test_a_duration_is_ascii(text):
    with pytest.raises(UserError, match="expected a number and one unit"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["a#３", "a#²", "a#-1", "a#", "#1"])
def test_a_trial_is_ascii(text):
    with pytest.raises(UserError, match="expected <journal>#<number>"):
        TrialAddress.parse(text)
