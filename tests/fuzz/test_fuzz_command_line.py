"""Whatever is typed, a command line is a composition or one UserError; so are the options of the other programs."""

import contextlib
import io

import pytest
import typer
from fuzzing import answer, memory_bound, on_examples, sizes
from hypothesis import strategies as st

import train
from conf.job import Duration, JobConfig
from juzhen.cli.verbs import GROUPS, verb
from launch.check import Check, check_command_line
from launch.hydra_internals import opened
from launch.job import register_resolvers
from launch.overrides import parse_flags

KEYS = [
    "dataset",
    "benchmark",
    "loss",
    "model",
    "backbone",
    "hardware",
    "experiment",
    "sweep",
    "debug",
    "schedule",
    "seed",
    "name",
    "data_dir",
    "output_dir",
    "init_from",
    "trial",
    "training.batch_size",
    "training.duration",
    "training.monitor",
    "training",
    "optimizer.lr",
    "optimizer.betas",
    "loss.temperature",
    "loss._target_",
    "model._target_",
    "backbone.path",
    "backbone.max_length",
    "dataset.demo_sts",
    "dataset.demo_sts.labels",
    "dataset.demo_sts.layouts.tsv.files.train",
    "dataset.demo_sts.layouts.tsv.columns",
    "dataset.demo_sts.score_range",
    "schedule.order",
    "schedule.stages.x.training.batch_size",
    "schedule.sets.demo_sts.loss",
    "evaluation.splits",
    "hydra.run.dir",
    "hydra/sweeper",
    "hydra.sweeper.params",
    *JobConfig.__dataclass_fields__,
]
VALUES = [
    "", "null", "1", "-1", "0", "1e999", "nan", "inf", "true", "off", "[", "]", "[]", "{}", "{a:1}", "[demo_sts]",
    "demo_sts", "[demo_sts,demo_qmc]", "cosent", "cosnet", "a,b", "range(1,3)", "choice(1,2)", "interval(0,1)",
    "${seed}", "${nope}", "${", "${oc.env:HOME}", "${run_key:}", "1 epochs", "'1 epochs'", "3 steps", "∞", "１",
    "‘引号’", "“x”", '"', "'", "\\", "a=b", "../..", "/", "~", "[[1]]", "{0:0,1:1}", "9" * 400,
    "x" * 5000, "\t", "#", "!!python/object",
]  # fmt: skip
FLAGS = [
    "-m", "--multirun", "--cfg", "--cfg=job", "--help", "--config-dir", "--config-dir=/nowhere", "--config-name=x",
    "--resolve", "--package=a", "-h", "--", "-", "--seed=1", "--info", "--infoo", "-c", "job", "--run", "-cd",
]  # fmt: skip
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
OVERRIDE = st.builds(
    lambda sign, key, equals, value: f"{sign}{key}{equals}{value}",
    st.sampled_from(["", "", "", "+", "++", "~", "~~"]),
    st.one_of(st.sampled_from(KEYS), st.sampled_from(KEYS), TEXT),
    st.sampled_from(["=", "=", "=", "=", " = ", "＝", ""]),
    st.one_of(st.sampled_from(VALUES), st.sampled_from(VALUES), TEXT),
)
WORD = st.one_of(OVERRIDE, OVERRIDE, OVERRIDE, TEXT, st.sampled_from(FLAGS))


@pytest.fixture(scope="module")
def check():
    """One opened configuration tree for all examples."""
    memory_bound()
    register_resolvers()
    with opened(train.CONFIGURATION, None) as hydra:
        yield Check(hydra, "train", train.CONFIGURATION)


@sizes
def test_overrides_are_parsed(check, size):
    """Syntax, options, flags: what needs no composition."""

    @on_examples(size, 3, words=st.lists(WORD, min_size=1, max_size=3))
    def holds(words):
        flags = answer(lambda: _flags(words))
        if flags is not None and not isinstance(flags, str):
            answer(lambda: check.look_at(flags.overrides))


def _flags(words):
    """Flags and overrides; None where the program has shown its help and ended."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return parse_flags(words)
    except SystemExit as ended:
        assert ended.code in (0, 2)  # noqa: PT017
        return None


@sizes
def test_overrides_are_composed(check, size):
    @on_examples(size, 0.2, words=st.lists(OVERRIDE, min_size=1, max_size=2))
    def holds(words):
        answer(lambda: (check.look_at(words), check.single(words)))


@pytest.mark.slow
def test_sweeps_are_composed(check):
    @on_examples(300, words=st.lists(OVERRIDE, min_size=1, max_size=2))
    def holds(words):
        answer(lambda: (check.look_at(words), check.sweep(words)))


@pytest.mark.slow
def test_whole_command_lines():
    @on_examples(300, words=st.lists(WORD, min_size=1, max_size=3))
    def holds(words):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            answer(lambda: check_command_line(words, conf_dir=train.CONFIGURATION))


OPTIONS = [
    "--file", "--columns", "--batch-tokens", "--batch-tokens=0", "--limit", "--seed=-1", "--threshold=nan", "--out",
    "--output", "--metric", "--train", "--all", "--line=x=y", "--dataset", "--names", "--of", "-h", "--", "-x", "---",
]  # fmt: skip


@sizes
@pytest.mark.parametrize("group", GROUPS)
def test_options_of_verbs(group, size):
    @on_examples(
        size,
        2,
        name=st.sampled_from(sorted(GROUPS[group])),
        words=st.lists(st.one_of(st.sampled_from(OPTIONS), TEXT, st.sampled_from(VALUES)), max_size=5),
    )
    def holds(name, words):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                answer(lambda: verb(name).make_context(name, words))
        except typer.Exit as ended:
            assert ended.exit_code == 0  # noqa: PT017
        except typer.TyperException as error:
            assert error.format_message().strip()  # noqa: PT017


@sizes
@pytest.mark.slow
def test_durations(size):
    spelt = st.from_regex(r"\A[0-9]{1,400}(\.[0-9]+)? (steps|epochs|examples|percent)\Z")

    @on_examples(size, 5, text=st.one_of(TEXT, spelt))
    def holds(text):
        found = answer(lambda: Duration.parse(text))
        if isinstance(found, Duration):
            answer(lambda: found.in_steps(steps_per_epoch=7, batch_size=3.5, total_steps=None))
