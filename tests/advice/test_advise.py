"""`juzhen advise` on a stranger's table, with the sets that juzhen ships."""

import csv
import json
import shlex
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from chromium import browse, require_chromium
from hydra.core.override_parser.overrides_parser import OverridesParser

import juzhen.advice.target as chosen_rows
from juzhen.advice.advise import _html as page_of
from juzhen.advice.advise import advise, command_of
from juzhen.advice.search import Search, difference
from juzhen.advice.target import Reading, read_sources, read_target
from juzhen.advice.trials import OWN, Recipe, Trials, measured, row_values
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from juzhen.data.tables import TableReading
from juzhen.metrics.comparison import Scored, paired_gap

DATA = ROOT / "juzhen" / "builtin" / "data"


def table(path, rows):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([("用户问法", "标准问法", "是否同义"), *rows])
    return path


@pytest.fixture(scope="module")
def faq(tmp_path_factory):
    """A hundred pairs of a demo set under other headers; six of them are in its training set, too."""
    dev, train = (
        [
            line.split("\t")
            for line in (DATA / "demo_qmc" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]
        ]
        for split in ("dev", "train")
    )
    words = {"0": "否", "1": "是"}
    rows = [(first, second, words[label]) for first, second, label in (*dev[:94], *train[:6])]
    return table(tmp_path_factory.mktemp("own") / "客服.csv", rows)


@pytest.fixture
def reading(tmp_path):
    return Reading(tmp_path)


def test_a_table_is_divided_and_sources_lose_its_rows(faq, reading):
    target = read_target(str(faq), reading)
    assert len(target.scored) == 100
    assert target.is_dev.sum() == 40
    assert len(target.own.rows) == 60
    dev = {*target.scored.select(target.is_dev).texts("text_a")}
    assert len(dev & {*target.own.rows.texts("text_a")}) < len(dev) / 2
    (source,), left_out = read_sources(["demo_qmc"], target, reading)
    assert source.leaky >= 6
    assert left_out == {}
    assert len(source.rows.sentences) == len({*source.rows.texts("text_a"), *source.rows.texts("text_b")})


def test_the_same_seed_divides_alike(faq, reading):
    first, again = (read_target(str(faq), reading) for _ in range(2))
    assert first.scored.texts("text_a") == again.scored.texts("text_a")


@pytest.mark.parametrize(
    ("word", "sources", "named"),
    [
        ("few.csv", None, "Give at least"),
        ("demo_retrieval/none", None, "demo_retrieval"),
        ("faq", ["demo_nothing"], "demo_nothing"),
    ],
)
def test_what_cannot_be_advised_on_is_refused(word, sources, named, faq, reading, tmp_path):
    if word == "few.csv":
        word = str(table(tmp_path / word, [("退货", "怎么退货", "是"), ("发货", "退款", "否")] * 5))
    with pytest.raises(UserError, match=named):
        read_sources(sources, read_target(str(faq) if word == "faq" else word, reading), reading)


def test_scores_and_errors_are_those_of_the_metric_and_of_compare(encoder_folder, faq, reading):
    target = read_target(str(faq), reading)
    trials = Trials(str(encoder_folder), target, [])
    trial = trials.make(Recipe((), 1))
    for rows, part in {"dev": trials.dev, "all": target.scored}.items():
        found = trials.scored(trials.base, [part])
        score = found.scores[f"dev/{part.name}/spearman"].value
        assert trial.scores[rows][0] == pytest.approx(100 * score, abs=1e-4)
    rows = found.rows[f"dev/{part.name}"]
    other = replace(rows, columns={**rows.columns, "score": -(rows["score"] ** 2)})
    sides = [[measured(*row_values(each, "spearman"), len(rows))] for each in (rows, other)]
    gap = paired_gap([Scored(rows)], [Scored(other)], "spearman")
    ours = difference(*sides, 0.0)
    assert (ours.value, ours.row_error) == pytest.approx((100 * gap.value, 100 * gap.error))


@pytest.mark.slow
def test_it_answers_and_leaves_runs(encoder_folder, faq, tmp_path, monkeypatch):
    monkeypatch.setattr(chosen_rows, "MOST_TRAIN", 96)  # one round of sources
    lines = []
    answer = advise(
        faq, encoder=str(encoder_folder), minutes=20, sources=["demo_qmc", "demo_sts"], data_dir=tmp_path,
        out=tmp_path / "advice", learning_rate=1e-3, report=lines.append,
    )  # fmt: skip
    recipes = [line.recipe for line in answer.lines]
    assert {("demo_qmc",), ("demo_sts",), (OWN,), ()} <= {*recipes}
    assert any(recipe[-1:] == (OWN,) and len(recipe) > 1 for recipe in recipes)
    assert answer.curve.rows == (15, 30, 60)
    of_own = {
        line.rows: f"{line.score:.1f} with {sum(line.rows)}" for line in answer.lines if line.recipe == (OWN,)
    }
    assert len(of_own) == 3
    for score in of_own.values():  # the table and the sentence have one scale
        assert any(told.startswith("Own rows alone: ") and score in told for told in answer.statements)
    assert ("\nTrain it:\n" in str(answer)) == (answer.lines[0].gain.low > 0)
    assert all(line.gain.low <= line.gain.value <= line.gain.high for line in answer.lines)
    assert answer.is_decided == (not any("ndecided against" in told for told in answer.statements))
    told = json.loads((tmp_path / "advice" / "advice.json").read_text("utf-8"))
    assert told["statements"] == answer.statements
    assert "<table>" in (tmp_path / "advice" / "index.html").read_text("utf-8")
    assert len(lines) >= len(recipes)
    from juzhen.report.collect import read_all

    results = read_all(tmp_path / "advice" / "runs", report=pytest.fail)
    assert len(results) >= len(recipes)


@pytest.mark.parametrize("made_before", [1, 2])
@pytest.mark.sampled(2)
def test_ctrl_c_gives_the_answer_so_far(made_before, encoder_folder, faq, tmp_path, monkeypatch):
    made = Trials.make

    def make(self, recipe, **options):
        if len(self.made) == made_before:
            raise KeyboardInterrupt
        return made(self, recipe, **options)

    monkeypatch.setattr(Trials, "make", make)
    answer = advise(
        faq,
        encoder=str(encoder_folder),
        minutes=2,
        sources=["demo_sts"],
        data_dir=tmp_path,
        report=lambda _: None,
    )
    assert len(answer.lines) == made_before
    assert any("Ctrl-C" in told for told in answer.statements)
    if made_before == 1:
        assert not answer.is_decided
        assert answer.statements[0].startswith("Undecided")


@pytest.mark.parametrize("minutes", [0.05, 0.2])
@pytest.mark.sampled(2)
def test_the_limit_of_time_is_kept(minutes, encoder_folder, faq, reading, monkeypatch):
    """By its own clock: no training begins that cannot end in time, and one that is slow is stopped."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    target = read_target(str(faq), reading)
    sources, _ = read_sources(["demo_qmc", "demo_sts"], target, reading)
    trials = Trials(str(encoder_folder), target, sources)
    begun, stopped = [], []
    made, forward = Trials._trained, type(trials.base).forward

    def trained(self, recipe, *given):
        begun.append(clock[0])
        return made(self, recipe, *given)

    def slow(self, *given, **options):
        clock[0] += 0.5 if self.training else 0.01  # a step takes far longer than scoring lets expect
        return forward(self, *given, **options)

    monkeypatch.setattr(Trials, "_trained", trained)
    monkeypatch.setattr(type(trials.base), "forward", slow)
    search = Search(trials, ["demo_qmc", "demo_sts"], minutes=minutes, report=stopped.append)
    search.run()
    assert search.stopped_by == "the time is up"
    assert 60 * minutes <= clock[0] < 60 * minutes + 1  # one step of training
    assert len(begun) > len(trials.made) == len(stopped)
    assert search.recipes == [()]


def test_a_clear_winner_is_named_and_a_tie_is_not(encoder_folder, faq, reading):
    """Scores are put in place of trainings: one source is 20 points better, or as good as the other."""
    target = read_target(str(faq), reading)
    sources, _ = read_sources(["demo_qmc", "demo_sts"], target, reading)
    for better, clear in ((20.0, True), (0.0, False)):
        trials = Trials(str(encoder_folder), target, sources)
        untrained = trials.make(Recipe((), 1))
        for name, gain in (("demo_qmc", 10.0), ("demo_sts", 10.0 + better)):
            for seed in (1, 2):
                scores = {
                    rows: values + gain * (np.arange(len(values)) == 0)
                    for rows, values in untrained.scores.items()
                }
                trials.made.append(type(untrained)(Recipe(((name, 500),), seed), {}, 1.0, None, scores))
        search = Search(trials, ["demo_qmc", "demo_sts"], minutes=1, report=lambda _: None)
        assert (len(search.contenders()) == 1) == clear
        assert search.contenders()[0][0][0] == ("demo_sts" if clear else search.recipes[0][0][0])


def test_the_command_trains_what_was_tried(faq, reading):
    target = read_target(str(faq), reading)
    sources, _ = read_sources(["demo_nli"], target, reading)
    known = {source.name: source for source in sources} | {OWN: target.own}
    command = command_of((("demo_nli", 500), (OWN, 60)), target, known, "builtin/mini_zh", reading)
    of_set, of_training = command.split(" && ")
    assert shlex.split(of_set) == ["juzhen", "dataset", str(faq), "--name", "set_2"]  # a key cannot be 客服
    words = shlex.split(of_training)[2:]
    read = {word.key_or_group: word.value() for word in OverridesParser.create().parse_overrides(words)}
    assert read["dataset"] == ["demo_nli", "set_2"]
    assert (read["dataset.demo_nli.convert_to"], read["dataset.demo_nli.limit"]) == ("triplet", 500)
    assert read["schedule.stages.set_2.training.duration"] == "3 epochs"
    assert "data_dir" not in read
    of_folder = replace(sources[0], config=replace(sources[0].config, source=None))
    command = command_of((("demo_nli", 500),), target, {"demo_nli": of_folder}, "builtin/mini_zh", reading)
    assert f"data_dir={reading.data_dir}" in shlex.split(command)  # else its files are not found
    assert {"++dataset.demo_nli.limit=500", "++dataset.demo_nli.convert_to=triplet"} <= {
        *words
    }  # a key may be absent


def test_the_command_starts_from_the_encoder_of_a_run(faq, reading, tmp_path):
    (tmp_path / "runs" / "STS" / "encoder").mkdir(parents=True)
    target = read_target(str(faq), reading)
    for start, folder in (("runs/STS", "runs/STS/encoder"), ("runs/STS/encoder", "runs/STS/encoder")):
        command = command_of(((OWN, 60),), target, {OWN: target.own}, str(tmp_path / start), reading)
        assert f"backbone.path={tmp_path / folder}" in shlex.split(command)


def test_the_command_reads_tables_with_the_options_of_the_call(faq, tmp_path):
    table = TableReading(
        columns={"text_a": "用户问法", "text_b": "2", "label": "3"}, header=True, on_bad_row="drop"
    )
    reading = Reading(tmp_path, config_dir=tmp_path / "conf", table=table)
    target = read_target(str(faq), reading)
    of_set, of_training = command_of(
        ((OWN, 60),), target, {OWN: target.own}, "builtin/mini_zh", reading
    ).split(" && ")
    assert shlex.split(of_set)[-5:] == [
        "--header",
        "--columns",
        "text_a=用户问法,text_b=2,label=3",
        "--config-dir",
        str(tmp_path / "conf"),
    ]
    words = shlex.split(of_training)
    assert words[2:4] == ["--config-dir", str(tmp_path / "conf")]
    assert not any(
        word.startswith("data_dir=") for word in words
    )  # `juzhen dataset` writes where the set is found


def test_a_set_with_a_chinese_name_is_made_again_under_one_that_a_key_may_have(faq, tmp_path):
    tree, data = tmp_path / "conf", tmp_path / "data"
    words = ["dataset", str(faq), "--yes", "--data-dir", str(data), "--config-dir", str(tree)]
    assert main(words) == 0
    reading = Reading(data, config_dir=tree)
    target = read_target("demo_sts", reading)
    (source,), _ = read_sources(["客服"], target, reading)
    made, trained = command_of((("客服", 30),), target, {"客服": source}, "builtin/mini_zh", reading).split(
        " && "
    )
    assert shlex.split(made)[2:5] == [str(data / "客服" / "train.csv"), "--name", "set_1"]
    assert "++dataset.set_1.limit=30" in shlex.split(trained)  # `juzhen dataset` writes no key limit
    assert target.own.place is None


@pytest.mark.slow
def test_the_page_is_as_wide_as_a_phone(tmp_path):
    require_chromium()
    head = ["train on", "rows", "score", "gain over untrained", "behind the best"]
    lines = [
        head,
        ["---"] * 5,
        ["simclue_positive → parallel_en_zh", "15,000", "86.6", "+0.0 [-2.1, +2.1]", "–"],
    ]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    answer = SimpleNamespace(
        table=lambda: table, statements=["句子"], command="python train.py dataset.path=/" + "a" * 300
    )
    (tmp_path / "index.html").write_text(page_of("What to train on", answer), "utf-8")
    given, complaints = browse(
        tmp_path / "index.html",
        ["size", [390, 844]],
        ["js", "[document.documentElement.scrollWidth, innerWidth]"],
    )
    assert (given[1], complaints) == ([390, 390], [])
