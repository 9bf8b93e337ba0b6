"""Numbers on the command line: ASCII digits within their range, or one line, in every program."""

import pytest

from conf.duration import Duration
from juzhen.cli.main import main
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
    ["distill", "x", "mrpc", "--out", "of_tests_a.tsv"],
    ["mine", "mrpc", "bm25", "--out", "of_tests_a.tsv"],
]


@pytest.mark.parametrize("value", ["0", "-1", "３", "1e3", "x", ""])
@pytest.mark.parametrize("words", VERBS_WITH_TOKENS, ids=lambda words: words[0])
def test_a_number_of_tokens(words, value, capsys):
    assert "Invalid value for '--batch-tokens'" in told([*words, f"--batch-tokens={value}"], capsys)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["space", "x", "--seed=-1"], "'--seed': Input should be greater than or equal to 0"),
        (["space", "x", "--texts=9"], "'--texts': Input should be greater than or equal to 10"),
        (["transfer", "x", "mrpc", f"--seed={2**32}"], "'--seed': Input should be less than or equal to"),
        (["leaks", "--all", "--threshold=nan"], "--threshold nan: "),
        (
            ["mine", "x", "bm25", "--out", "of_tests_a.tsv", "--range-max=0"],
            "'--range-max': Input should be greater",
        ),
        (
            ["mine", "x", "bm25", "--out", "of_tests_a.tsv", "--relative-margin=all"],
            "'--relative-margin': could not convert string to float: 'all'",
        ),
        (
            ["mine", "x", "bm25", "--out", "of_tests_a.tsv", "--relative-margin=nan"],
            "--relative-margin nan: expected a number from 0",
        ),
    ],
)
def test_other_numbers(words, part, capsys):
    assert part in told(words, capsys)


@pytest.mark.parametrize("text", ["３ epochs", "٣ steps", "1_0 steps", "1e3 steps", "-1 steps", "inf steps"])
def test_a_duration_is_ascii(text):
    with pytest.raises(UserError, match="expected a number and one unit"):
        Duration.parse(text)
