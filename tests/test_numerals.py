"""Numbers on the command line: ASCII digits within their range, or one line, in every program."""

import pytest

import evaluate_runs
import predict
from callbacks.trial import TrialAddress
from conf.duration import Duration
from juzhen.calibration.__main__ import _parser as analysis_parser
from juzhen.calibration.__main__ import main as analysis
from juzhen.core.errors import UserError
from juzhen.mining.__main__ import _parser as mining_parser
from juzhen.mining.__main__ import main as mining
from sweeps.__main__ import _parser as sweeps_parser
from tools.bench.__main__ import build_parser


def told(main, words, capsys):
    status = main(words)
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


PROGRAMS = {
    "predict": (predict.main, ["x", "a", "b"]),
    "evaluate_runs": (evaluate_runs.main, ["runs"]),
    "calibrate": (analysis, ["calibrate", "x"]),
    "fuse": (analysis, ["fuse", "x", "y"]),
    "transfer": (analysis, ["transfer", "x", "mrpc"]),
    "space": (analysis, ["space", "x"]),
    "distil": (mining, ["distil", "x", "mrpc", "--out", "a.tsv"]),
}


@pytest.mark.parametrize("value", ["0", "-1", "３", "1_0", "1e3", "x", "", "9" * 30])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_number_of_tokens(program, value, capsys):
    main, words = PROGRAMS[program]
    line = told(main, [*words, f"--batch-tokens={value}"], capsys)
    assert f"--batch-tokens {value}: expected a number of tokens, such as 16384" in line


@pytest.mark.parametrize(
    ("main", "words", "part"),
    [
        (analysis, ["space", "x", "--seed=-1"], "--seed -1: expected a whole number, 0 or more"),
        (analysis, ["space", "x", "--sentences=٣٣"], "--sentences ٣٣: expected at least 10, such as 1000"),
        (analysis, ["transfer", "x", "mrpc", "--seed=-1"], "--seed -1: expected a whole number, 0 or more"),
        (analysis, ["transfer", "x", "mrpc", f"--seed={2**32}"], "--seed 4294967296: expected"),
        (analysis, ["transfer", "x", "mrpc", "--limit=9"], "--limit 9: expected at least 10 rows"),
        (analysis, ["leaks", "--all", "--threshold=nan"], "--threshold nan: expected a number, such as"),
        (analysis, ["leaks", "--all", "--threshold=٣"], "--threshold ٣: expected a number"),
        (mining, ["whiten", "x", "y", "--dataset", "z", "--power=inf"], "--power inf: expected a number"),
        (mining, ["whiten", "x", "y", "--dataset", "z", "--limit=0"], "--limit 0: expected at least 1 row"),
        (mining, ["distil", "x", "z", "--out", "a.tsv", "--seed=²"], "--seed ²: expected"),
    ],
)
def test_other_numbers(main, words, part, capsys):
    assert part in told(main, words, capsys)


PARSERS = [
    predict._parser,
    evaluate_runs._parser,
    analysis_parser,
    mining_parser,
    sweeps_parser,
    build_parser,
]


def test_no_option_leaves_numbers_to_python():
    """int() and float() take the digits of other scripts, 1_0, and whatever has no meaning for the option."""
    left, seen = [], 0
    for build in PARSERS:
        for parser in commands(build()):
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
