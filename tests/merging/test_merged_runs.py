"""`juzhen merge` from runs to a row in the matrix."""

import json
import shutil
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jobs import run_job, tiny_encoder
from safetensors.torch import load_file

import juzhen
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.merging.merge import MergeRecipe, chosen_weights
from juzhen.merging.runs import merge_runs

QUICK = ("training.duration=2 steps", "benchmark=demo", "debug_rows=24")


@pytest.fixture(scope="module")
def parents(tmp_path_factory, tiny_backbone):
    folder = tmp_path_factory.mktemp("runs")
    return [run_job(folder, tiny_backbone, *QUICK, f"dataset=[{name}]") for name in ("demo_sts", "demo_qmc")]


@pytest.fixture(scope="module")
def merged(parents):
    out = parents[0].parent / "merged"
    assert main(["merge", *map(str, [*parents, out]), "--weights", "0.25,0.75"]) == 0
    return out


@pytest.mark.slow
def test_the_merged_weights_are_those_of_the_formula(parents, merged):
    one, two, both = (load_file(folder / "encoder" / "model.safetensors") for folder in (*parents, merged))
    assert one.keys() == both.keys()
    for name, values in both.items():
        torch.testing.assert_close(values, 0.25 * one[name] + 0.75 * two[name], atol=1e-6, rtol=0)


def test_it_is_a_run_with_parents_and_their_cost(parents, merged):
    results = [Result.read(folder) for folder in parents]
    result = Result.read(merged)
    assert result.trained_on == ["demo_sts", "demo_qmc"]
    names = [*result.config["merge"]["parents"], f"key {result.key}"]
    assert [len(name.rpartition(" ")[2]) for name in names] == [len(results[0].key)] * 3
    assert [parent["key"] for parent in result.training["parents"]] == [each.key for each in results]
    assert result.training["rows_seen"] == sum(each.training["rows_seen"] for each in results)
    assert result.training["train_seconds"] >= sum(each.training["train_seconds"] for each in results)
    assert result.scores["dev/demo_sts/spearman"].value is not None
    assert (merged / "rows.parquet").is_file()
    card = (merged / "encoder" / "README.md").read_text(encoding="utf-8")
    assert "| merged by | linear |" in card
    assert "0.75" in card


def test_the_table_shows_it_with_what_it_gained_and_forgot(merged, capsys):
    assert main(["table", str(merged.parent), "--debug"]) == 0
    printed = capsys.readouterr().out.replace("\\", "")
    assert printed.count("linear of demo_qmc + demo_sts") == 2
    assert "What do merged models gain, and forget? " in printed  # a note follows, without a full stop


def test_a_base_is_found_where_the_runs_started_alike(parents, tmp_path, tiny_backbone):
    out = tmp_path / "ties"
    result, _ = merge_runs(parents, out, MergeRecipe("ties", density=1.0))
    start = load_backbone(BackboneConfig(path=str(tiny_backbone), initialize="random"), seed=42)
    base = start.state_dict()["backbone.encoder.layer.0.output.dense.weight"]
    one, two, both = (
        load_file(folder / "encoder" / "model.safetensors")["encoder.layer.0.output.dense.weight"] - base
        for folder in (*parents, out)
    )
    agree = one.sign() == two.sign()
    torch.testing.assert_close(both[agree], ((one + two) / 2)[agree], atol=1e-6, rtol=0)
    assert result is not None
    assert result.config["merge"]["density"] == 1.0
    assert result.config["merge"]["base"] == str(tiny_backbone)


def copied(run, folder, change):
    """A copy of a run whose result is changed in place."""
    place = shutil.copytree(run, folder) / "result.json"
    about = json.loads(place.read_text("utf-8"))
    change(about)
    place.write_text(json.dumps(about), encoding="utf-8")
    return folder


def test_runs_of_two_kinds_are_not_merged(parents, tmp_path):
    other = copied(
        parents[1], tmp_path / "other", lambda about: about["config"]["model"].update(name="colbert")
    )
    with pytest.raises(UserError, match="biencoder, colbert"):
        merge_runs([parents[0], other], tmp_path / "out", MergeRecipe())


def test_a_named_base_is_taken_and_a_cost_that_is_unknown_adds_nothing(parents, tmp_path, tiny_backbone):
    other = copied(parents[1], tmp_path / "other", lambda about: about["training"].pop("rows_seen"))
    base = tmp_path / "base"
    tiny_encoder(tiny_backbone).save(base)
    recipe = MergeRecipe("task_arithmetic", weights=[1, 1])
    result, _ = merge_runs([parents[0], other], tmp_path / "out", recipe, base=base)
    assert result is not None
    assert result.config["merge"]["base"] == str(base)
    assert result.training["rows_seen"] == Result.read(parents[0]).training["rows_seen"]
    one, two, start, sum_of = (
        load_file(folder / "model.safetensors")["encoder.layer.0.output.dense.weight"]
        for folder in (parents[0] / "encoder", other / "encoder", base, tmp_path / "out" / "encoder")
    )
    torch.testing.assert_close(sum_of, one + two - start, atol=1e-6, rtol=0)


def test_cross_encoders_are_merged_with_their_heads(tmp_path, tiny_backbone):
    models = [
        juzhen.CrossEncoder(
            tiny_encoder(tiny_backbone), outputs=1, segments=False, symmetric=False, seed=seed
        ).eval()
        for seed in (0, 1)
    ]
    both = juzhen.merge(models, weights=[1, 3])
    torch.testing.assert_close(both.head.weight, 0.25 * models[0].head.weight + 0.75 * models[1].head.weight)
    both.save(tmp_path / "both")
    again = juzhen.CrossEncoder.load(tmp_path / "both")
    assert again.score("你好", "您好") == pytest.approx(both.score("你好", "您好"), abs=1e-6)


def test_other_licences_are_listed(parents, tmp_path):
    for parent, name in zip(parents, ("mit", "apache-2.0"), strict=True):
        folder = tmp_path / name
        encoder = juzhen.SentenceEncoder.load(parent)
        vars(encoder)["licence"] = name
        encoder.save(folder)
    result, _ = merge_runs([tmp_path / "mit", tmp_path / "apache-2.0"], tmp_path / "out", MergeRecipe())
    assert result is None, "folders of encoders have no row"
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license:" not in card
    assert "| 1: mit | mit |" in card


def test_weights_are_found_where_dev_is_highest():
    def score(weights):
        return -sum((weight - goal) ** 2 for weight, goal in zip(weights, (0.6, 0.3, 0.1), strict=True))

    tried = chosen_weights(score, 3, method="linear", trials=40)
    assert tried.best == pytest.approx((0.6, 0.3, 0.1), abs=0.03)
    assert len(tried.values) <= 40
    assert chosen_weights(lambda w: -((w[1] - 0.7) ** 2), 2, method="slerp", trials=40).best == (0.3, 0.7)
    factors = chosen_weights(lambda w: -((w[0] - 1.4) ** 2) - (w[1] - 0.5) ** 2, 2, method="dare", trials=60)
    assert factors.best == pytest.approx((1.4, 0.5), abs=0.05)


def test_each_mixture_is_measured_once_and_no_more_than_asked_for():
    measured = []

    def score(weights):
        measured.append(weights)
        return weights[0]

    tried = chosen_weights(score, 2, method="linear", trials=40)
    shares = [round(number / 10, 1) for number in range(11)]
    assert sorted(tried.values) == [(share, round(1 - share, 1)) for share in shares]
    assert sorted(measured) == sorted(tried.values)
    assert tried.values[tried.best] == 1
    for method, count in (("linear", 2), ("linear", 3), ("dare", 2)):
        few = chosen_weights(score, count, method=method, trials=2)
        first = 1.0 if method == "dare" else round(1 / count, 4)
        assert [*few.values] == [(first,) * count, (1.0, *[0.0] * (count - 1))]


def test_weights_are_shares_of_1_or_not_negative_factors():
    def score(weights):
        return -sum(abs(a - b) for a, b in zip(weights, (1.2, -0.5, 0.9), strict=True))

    for method in ("linear", "dare"):
        tried = chosen_weights(score, 3, method=method, trials=40)
        assert min(map(min, tried.values)) == 0
        sums = {round(sum(weights), 3) for weights in tried.values}
        assert sums == {1} if method == "linear" else len(sums) > 5
        assert 10 < len(tried.values) <= 40


@given(st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_the_greedy_soup_equals_its_recipe(values):
    """By a table of the 7 soups of three models, with ties."""
    table = {
        tuple(round(1 / sum(chosen), 4) if one else 0.0 for one in chosen): value
        for chosen, value in zip([c for c in product((0, 1), repeat=3) if any(c)], values, strict=True)
    }

    def soup(chosen):
        return tuple(round(1 / len(chosen), 4) if number in chosen else 0.0 for number in range(3))

    order = sorted(range(3), key=lambda number: -table[soup([number])])
    chosen = order[:1]
    for number in order[1:]:
        if table[soup([*chosen, number])] >= table[soup(chosen)]:
            chosen = [*chosen, number]
    tried = chosen_weights(table.__getitem__, 3, method="greedy_soup", trials=9)
    assert (tried.best, tried.values[tried.best]) == (soup(chosen), table[soup(chosen)])


def test_weights_chosen_on_dev_are_in_the_result(parents, tmp_path):
    result, found = merge_runs(
        parents, tmp_path / "chosen", MergeRecipe(weights="dev", trials=9), dataset=["demo_sts"]
    )
    assert result is not None
    assert result.training["selected_on"] == ["demo_sts"]
    assert 2 <= len(found.tried) <= 9
    assert result.scores["dev/demo_sts/spearman"].value == pytest.approx(max(found.tried.values()), abs=1e-6)
