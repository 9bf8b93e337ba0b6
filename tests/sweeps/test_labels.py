"""What rows are called: what tells them apart, in words, in at most 40 characters; debug runs, letters, folders."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from juzhen.cli.main import main
from juzhen.core.result import Score
from juzhen.data.spec import made_from, parents
from juzhen.report.insights import Transfer
from juzhen.report.matrix import build_matrix
from juzhen.report.row_identity import LONGEST_LABEL, differing_settings, label_runs
from juzhen.report.significance import SUPERSCRIPTS, beaten, differences
from juzhen.report.table import to_markdown

CONF = Path(__file__).parents[2] / "conf"
SCORES = {"dev/bq/spearman": 0.5}


def labels(results):
    return [row.label for row in build_matrix(results, metric="spearman").rows]


def test_a_row_says_what_tells_it_apart_and_nothing_else(make_result):
    cross = make_result(["faq"], SCORES, model="lightning_modules.crossencoder.CrossEncoderModule")
    cross.config["model"]["name"] = "crossencoder"
    cross.config["training"] |= {
        "batch_size": 64,
        "validate_every": "0.5 epochs",
        "checkpoint_every": "9 steps",
    }
    cross.config["debug_rows"] = None
    assert labels([make_result(["faq"], SCORES), cross]) == ["faq", "faq, cross-encoder"]


def test_an_adapter_is_told_before_the_learning_rate_that_it_takes(make_result):
    def of(adapter, lr):
        return make_result(
            ["faq"], SCORES, backbone={"path": "box", "adapter": adapter}, optimizer={"lr": lr}
        )

    found = labels(
        [of(None, 5e-4), of({"kind": "lora", "rank": 16}, 1e-3), of({"kind": "dora", "rank": 16}, 1e-3)]
    )
    assert found == ["faq", "faq, DoRA", "faq, LoRA"]


CHOICES = [
    f"{group}={path.stem}" for group in ("weights", "mining") for path in sorted(CONF.glob(f"{group}/*"))
]


def chosen(make_result, group, choice, **numbers):
    """A mixture with a callback as its file describes it."""
    node = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{choice}.yaml"))
    above = [name for name in node.pop("defaults", []) if name != "_self_"]
    for name in above:
        node = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml")) | node
    name = choice if group == "callbacks" else group
    return make_result(["a", "b"], SCORES, callbacks={name: node | numbers})


def test_a_row_says_the_group_and_the_choice_by_which_it_differs(make_result):
    """What a run differs in is what was typed for it, and never a number of a choice without its name."""
    plain = make_result(["a", "b"], SCORES)
    for word in CHOICES:
        group, _, choice = word.partition("=")
        assert labels([plain, chosen(make_result, group, choice)]) == ["a + b", f"a + b, {group}: {choice}"]
    results = [chosen(make_result, *word.split("=")) for word in CHOICES]
    assert labels([plain, *results]) == sorted(
        ["a + b", *(f"a + b, {word.replace('=', ': ')}" for word in CHOICES)]
    )
    averages = [chosen(make_result, "callbacks", name) for name in ("ema", "swa", "unfreezing")]
    assert labels([plain, *averages]) == [
        "a + b",
        "a + b, average: ema",
        "a + b, average: swa",
        "a + b, unfreezing",
    ]
    both = [averages[0], chosen(make_result, "weights", "pcgrad")]
    matrix = build_matrix(both, metric="spearman")
    assert [row.label for row in matrix.rows] == ["a + b, average: ema", "a + b, weights: pcgrad"]
    assert [row.setup.split(", ")[-1] for row in matrix.rows] == ["average: ema", "weights: pcgrad"]


def test_a_number_of_a_choice_is_told_with_the_choice(make_result):
    slow, fast = (chosen(make_result, "weights", "uncertainty", lr=lr) for lr in (0.01, 0.1))
    assert labels([slow, fast]) == ["a + b, uncertainty lr 0.01", "a + b, uncertainty lr 0.1"]
    plain = make_result(["a", "b"], SCORES)
    assert labels([plain, slow, fast])[1] == "a + b, weights: uncertainty, lr 0.01"
    ema = [chosen(make_result, "callbacks", "ema", decay=decay) for decay in (0.9, 0.99)]
    assert labels(ema) == ["a + b, ema decay 0.9", "a + b, ema decay 0.99"]


def test_a_setting_of_a_set_a_stage_and_an_inner_loss_names_what_it_belongs_to(make_result):
    def sets(**limits):
        return {name: {"name": name, "limit": limits.get(name)} for name in ("a", "b")}

    limits = ({}, {"a": 9}, {"b": 9})
    of_sets = [make_result(["a", "b"], SCORES, dataset=sets(**limit)) for limit in limits]
    assert labels(of_sets) == ["a + b", "a + b, a limit 9", "a + b, b limit 9"]
    of_one = [make_result(["a"], SCORES, dataset={"a": {"name": "a", "limit": limit}}) for limit in (None, 9)]
    assert labels(of_one) == ["a", "a, limit 9"]

    def schedule(**numbers):
        usual = {
            "name": "mix",
            "order": None,
            "stages": {},
            "sets": {},
            "sample_by": "size",
            "temperature": 1,
        }
        return make_result(["a", "b"], SCORES, schedule=usual | numbers)

    assert labels([schedule(), schedule(sample_by="uniform"), schedule(temperature=2)]) == [
        "a + b",
        "a + b, sampling temperature 2",
        "a + b, sampling: uniform",
    ]
    assert labels([schedule(), *(schedule(sets={name: {"batch_size": 8}}) for name in "ab")]) == [
        "a + b",
        "a + b, a batch size 8",
        "a + b, b batch size 8",
    ]
    inner = {"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent"}
    nested = {"_target_": "juzhen.losses.matryoshka.Nested", "name": "matryoshka", "temperature": 1}
    losses = [nested | {"of": inner | {"temperature": temperature}} for temperature in (0.05, 0.1)]
    assert labels([make_result(["a"], SCORES, loss=loss) for loss in losses]) == [
        "a, cosent temperature 0.05",
        "a, cosent temperature 0.1",
    ]
    views = [{"views": views, "probability": 0.5} for views in (["synonym"], ["delete", "repeat"])]
    assert labels([make_result(["a"], SCORES, augmentation=each) for each in views]) == [
        "a, augmentation: delete repeat",
        "a, augmentation: synonym",
    ]


def test_what_is_switched_off_is_said_where_it_is_usually_not_written(make_result):
    def of(**learning):
        return make_result(["a"], SCORES, dataset={"a": {"name": "a", "learning": learning}})

    assert labels([of(num_negatives=2), of(num_negatives=2, in_batch=False)]) == ["a", "a, in batch off"]


def test_what_cannot_matter_makes_no_row(make_result):
    def of(**training):
        result = make_result(["a"], SCORES, training={"duration": "3 epochs"} | training)
        result.training = {"selected_on": []}
        return result

    last = [of(checkpoint_every="9 steps", validate_every="1 epochs"), of(patience=3, monitor="auto")]
    assert labels(last) == ["a"], "the weights of the last step are taken"
    last[0].training = {"selected_on": ["demo"]}
    assert len(labels(last)) == 2
    backbones = [{"path": "box", "pooling": "mean", "dropout": dropout} for dropout in (0.1, None)]
    untrained = [make_result([], SCORES, backbone=backbone) for backbone in backbones]
    assert labels(untrained) == ["untrained"]


def test_labels_are_short_and_of_each_row_another(make_result):
    names = [f"set_number_{number}" for number in range(6)]
    results = [make_result(names, SCORES, optimizer={"betas": [0.9, number]}) for number in range(3)]
    results += [make_result(names, SCORES, schedule="serial")]
    results += [make_result(["a" * 60], SCORES), make_result(["a" * 60], SCORES, loss={"scored_pair": {}})]
    found = labels(results)
    assert len({*found}) == len(found) == len(results)
    assert max(map(len, found)) <= LONGEST_LABEL
    assert "set_number_0 → … → set_number_5" in found
    assert any(" more" in label for label in found)


def test_runs_of_one_row_are_told_by_their_seeds(make_result):
    first, second = make_result(["a"], SCORES), make_result(["a"], SCORES, seed=2)
    other = make_result(["b"], SCORES, training={"duration": "1 epochs"})
    assert label_runs([first, second, other]) == ["a, seed 1", "a, seed 2", "b"]
    assert differing_settings([first, second]) == [("seed", "1", "2")]
    assert ("training.duration", "3 epochs", "1 epochs") in differing_settings([first, other])
    assert len({*label_runs([first, first])}) == 2


def test_letters_are_those_of_the_rows_that_one_beats(make_result):
    def of(name, value):
        return make_result([name], {"dev/bq/spearman": Score(value, value - 0.02, value + 0.02, 1000)})

    matrix = build_matrix([of("a", 0.5), of("b", 0.51), of("c", 0.8)], metric="spearman")
    wins = beaten(matrix)
    frame = differences(matrix)
    assert wins == {("c", "dev/bq"): "ᵃᵇ"}
    assert set(frame["verdict"]) == {"lower", "undecided"}
    lines = to_markdown(matrix, wins).splitlines()
    assert lines[-1] == "| c | c | 1 | **80.0ᵃᵇ [78.0, 82.0]** |"
    many = [of(f"s{number}", number / 30) for number in range(len(SUPERSCRIPTS) + 1)]
    assert beaten(build_matrix(many, metric="spearman")) == {}


def test_debug_runs_are_shown_where_asked_for_or_where_there_is_nothing_else(
    make_result, tmp_path, capsys, monkeypatch
):
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in ("whole", "tried"):
        (tmp_path / name).mkdir()
    make_result(["a"], SCORES).write(tmp_path / "whole")
    make_result(["b"], SCORES, debug_rows=64).write(tmp_path / "tried")
    assert main(["table", str(tmp_path)]) == 0
    printed, said = capsys.readouterr()
    assert "left out: results of debug runs (1); --debug shows them" in said
    assert "| b |" not in printed
    assert main(["table", str(tmp_path), "--debug", "--folders"]) == 0
    assert f"| {tmp_path}/tried |" in capsys.readouterr().out
    assert main(["table", str(tmp_path / "tried")]) == 0
    assert "| b |" in capsys.readouterr().out


def test_a_set_that_was_made_of_another_counts_as_that_one(make_result):
    origin = made_from("mine", "lcqmc/train", made_from("distill", "bq/train", "https://example.org"))
    assert parents(origin) == ["lcqmc", "bq"]
    assert parents("https://example.org/from lcqmc/train (x)") == []
    mined = make_result(["hard"], {f"dev/{name}/spearman": 0.5 for name in ("lcqmc", "bq", "csts")})
    mined.config["dataset"]["hard"]["origin"] = origin
    transfer = Transfer(matrix := build_matrix([mined], metric="spearman"), matrix.columns)
    assert transfer.in_domain.loc["hard"].to_dict() == {"dev/lcqmc": True, "dev/bq": True, "dev/csts": False}
    assert transfer.zero_shot.loc["hard"].to_dict() == {"dev/lcqmc": False, "dev/bq": False, "dev/csts": True}


def test_a_gain_is_not_lost_because_there_is_another_untrained_row(make_result):
    first = {"dev/bq/spearman": 0.5, "dev/csts/spearman": 0.6}
    trained = make_result(["a"], first, untrained={"dev/bq/spearman": 0.3})
    other = make_result([], {"dev/bq/spearman": 0.1, "dev/csts/spearman": 0.2})
    other.config["backbone"] |= {"max_length": 99}
    matrix = build_matrix([trained, other], metric="spearman")
    gains = Transfer(matrix, matrix.columns).gains.loc["a"]
    assert gains.to_dict() == {"dev/bq": pytest.approx(20), "dev/csts": pytest.approx(40)}
    for result, fingerprint in ((trained, "f"), (other, "g")):
        result.data = {"dev/csts": {"fingerprint": fingerprint}}
    matrix = build_matrix([trained, other], metric="spearman")
    assert Transfer(matrix, matrix.columns).gains.loc["a"].isna().to_dict() == {
        "dev/bq": False,
        "dev/csts": True,
    }
