import math

import pytest

from juzhen.core.result import Result
from juzhen.report.build import build_report, markdown
from juzhen.report.compare import Reference
from juzhen.report.matrix import Matrix, build_matrix
from juzhen.report.page import html
from juzhen.report.table import to_csv, to_markdown

SCORES = {"dev/bq/spearman": 0.5}


def matrix_of(*results: Result) -> Matrix:
    return build_matrix(results, metric="spearman")


def labels(results) -> list[str]:
    return [row.label for row in matrix_of(*results).rows]


def test_rows_columns_and_cells(small_matrix_results):
    matrix = matrix_of(*small_matrix_results)
    assert [row.label for row in matrix.rows] == ["lexical", "untrained", "lcqmc", "lcqmc → csts"]
    assert matrix.columns == ["dev/csts", "test/lcqmc"]
    lexical, untrained, lcqmc, _ = matrix.rows
    assert (lexical.cells["test/lcqmc"].low, lexical.cells["test/lcqmc"].high) == (0.40, 0.44)
    assert untrained.cells["test/lcqmc"].mean == 0.20
    both = lcqmc.cells["test/lcqmc"]
    assert (both.mean, both.num_seeds) == (pytest.approx(0.71), 2)
    assert both.std == pytest.approx(0.02 / math.sqrt(2))


def test_a_null_is_left_out_of_the_mean_and_its_set_keeps_its_column(small_matrix_results, make_result):
    lcqmc = matrix_of(*small_matrix_results).rows[2]
    assert lcqmc.num_seeds == 2
    assert (lcqmc.cells["dev/csts"].mean, lcqmc.cells["dev/csts"].num_seeds) == (0.60, 1)
    scores = {"dev/csts/spearman": 0.5, "test/csts/spearman": None, "dev/bq/spearman": None}
    matrix = matrix_of(make_result(["csts"], scores))
    assert matrix.columns == ["dev/bq", "dev/csts"]
    assert list(matrix.rows[0].cells) == ["dev/csts"]
    results = [make_result(["csts"], scores | {"test/bq/spearman": None})]
    assert build_matrix(results, metric="spearman", split="both").columns == ["test/bq", "dev/csts"]


def test_a_column_never_mixes_splits_and_both_stand_side_by_side(small_matrix_results, make_result):
    results = [
        make_result(["a"], {"dev/bq/spearman": 0.5, "test/bq/spearman": 0.4}),
        make_result(["b"], {"dev/bq/spearman": 0.6}),
    ]
    assert matrix_of(*results).columns == ["dev/bq"]
    assert matrix_of(*results[:1]).columns == ["test/bq"]
    splits = {
        one: build_matrix(small_matrix_results, metric="spearman", split=one)
        for one in ("both", "test", "dev", None)
    }
    assert splits["both"].columns == ["dev/csts", "dev/lcqmc", "test/lcqmc"]
    assert splits["both"].counted == ["dev/csts", "test/lcqmc"]  # an average counts a set once
    assert splits["both"].hidden == []
    assert (splits["test"].columns, splits["test"].hidden) == (["test/lcqmc"], ["dev/csts", "dev/lcqmc"])
    assert splits["dev"].columns == splits["dev"].counted == ["dev/csts", "dev/lcqmc"]
    assert splits[None].hidden == ["dev/lcqmc"]


def test_columns_are_in_the_order_of_the_longest_suite_then_by_name(make_result):
    scores = {f"dev/{name}/spearman": 0.5 for name in ("bq", "atec", "csts", "afqmc", "xiaobu")}
    results = [
        make_result(["bq"], scores, evaluate={"xiaobu": {}, "csts": {}, "bq": {}}),
        make_result(["csts"], scores, evaluate={"bq": {}}),
    ]
    columns = [column.split("/")[1] for column in matrix_of(*results).columns]
    assert columns == ["xiaobu", "csts", "bq", "afqmc", "atec"]


def test_rows_have_the_names_that_sweeps_gave_them_and_others_their_training(make_result):
    def made(trained_on, name, **more):
        order = {"name": "serial", "order": None, "stages": {}, "sets": {}}
        numbers = {"sample_by": "size", "temperature": 1.0}
        result = make_result(trained_on, SCORES, sweep_row=name, schedule=order | numbers, **more)
        result.config["dataset"] = {one: {"name": one} for one in ("a", "b")}
        return result

    first, last = made(["a"], "best"), made(["a", "b"], "best", stage=1)
    assert labels([first, last]) == ["a", "best"]  # a stage on the way to a row is not that row
    again = made(["a", "b"], "best", stage=1, seed=2)
    (row,) = matrix_of(last, again).rows
    assert (row.label, row.num_seeds) == ("best", 2)
    other = made(["a", "b"], "v2", stage=1, seed=2)
    assert labels([last, other]) == ["best, v2"]  # two sweeps, one training
    longer = made(["a", "b"], "best", stage=1, training={"duration": "9 epochs"})
    assert labels([last, longer]) == ["best, 3 epochs", "best, 9 epochs"]


def test_what_is_said_about_a_set_makes_no_row(make_result):
    results = [make_result(["a"], SCORES, seed=1), make_result(["a"], SCORES, seed=2)]
    results[0].config["dataset"]["a"] |= {"rows": {"test": None}, "about": "x", "layout": "tsv"}
    results[1].config["dataset"]["a"] |= {"rows": {"test": 1361}, "about": "y", "layout": "tsv"}
    for one, layouts in zip(results, ({"tsv": {}}, {"tsv": {}, "original": {"files": {}}}), strict=True):
        one.config["dataset"]["a"]["layouts"] = layouts
    assert labels(results) == ["a"]


def test_the_latest_of_equal_runs_counts_once(make_result):
    old = make_result(["a"], {"dev/bq/spearman": 0.1, "dev/csts/spearman": 0.3}, finished_at="2026-01-01")
    new = make_result(["a"], {"dev/bq/spearman": 0.2}, finished_at="2026-01-02")
    for results in ([old, new], [new, old]):
        (row,) = matrix_of(*results).rows
        assert row.num_seeds == 1
        assert row.cells["dev/bq"].mean == 0.2
        assert row.cells["dev/csts"].mean == 0.3  # evaluated by the older run alone, same weights


def test_a_stage_of_a_curriculum_is_the_row_of_its_prefix(make_result):
    alone = make_result(["a"], SCORES, seed=1)
    stage = make_result(["a"], {"dev/bq/spearman": 0.7}, seed=2, schedule="serial")
    stage.config["dataset"]["b"] = {"name": "b", "limit": None}
    (row,) = matrix_of(alone, stage).rows
    assert (row.label, row.num_seeds) == ("a", 2)


def test_rows_are_called_by_what_they_learnt_from_in_order(make_result):
    def both(schedule):
        return labels([make_result(sets, SCORES, schedule=schedule) for sets in (["a", "b"], ["b", "a"])])

    assert both("serial") == ["a → b", "b → a"]
    assert both("mix") == ["a + b"]
    one_stage = {"name": "serial", "order": ["all"], "stages": {"all": {"dataset": ["b", "a"]}}, "sets": {}}
    assert both(one_stage | {"sample_by": "size", "temperature": 1.0}) == ["a + b"]
    later = make_result(["a", "b"], SCORES, untrained={"dev/bq/spearman": 0.4}, schedule="serial", stage=1)
    assert labels([later]) == ["a → b"], "what later stages started from is not untrained"
    starts = [([], "models/minilm"), (["a"], "models/minilm"), (["a"], None)]
    results = [make_result(sets, SCORES, init_from=start) for sets, start in starts]
    assert labels(results) == ["models/minilm", "a", "models/minilm → a"]


def test_untrained_weights_are_one_row_wherever_they_were_measured(make_result):
    results = [
        make_result(["a"], SCORES, untrained={"dev/bq/spearman": 0.1}),
        make_result([], {"dev/csts/spearman": 0.2}, loss={"_target_": "juzhen.losses.cosine.Cosine"}),
    ]
    untrained = matrix_of(*results).rows[0]
    assert (untrained.label, set(untrained.cells)) == ("untrained", {"dev/bq", "dev/csts"})


def test_namesakes_are_told_apart_by_what_differs(make_result):
    cosent = make_result(["a"], SCORES)
    colder = make_result(
        ["a"],
        SCORES,
        loss={"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent", "temperature": 0.01},
    )
    cosine = make_result(
        ["a"], SCORES, loss={"_target_": "juzhen.losses.cosine.Cosine", "target_range": [0, 1]}
    )
    by_kind = make_result(["a"], SCORES, loss={"scored_pair": {"_target_": "juzhen.losses.cosine.Cosine"}})
    longer = make_result(["b"], SCORES, training={"duration": "9 epochs"})
    assert labels([cosent, longer]) == ["a", "b"]
    assert labels([cosent, cosine]) == ["a, cosent", "a, cosine"]
    assert labels([cosent, by_kind]) == ["a, by_kind", "a, cosent"]
    dataset = {"a": {"name": "a", "kind": "scored_pair", "convert_to": None}}
    of_kinds = {
        "scored_pair": {"_target_": "juzhen.losses.cosine.Cosine"},
        "labelled_text": {"_target_": "losses.x.X"},
    }
    narrow, wide = (
        make_result(["a"], SCORES, loss=loss, dataset=dataset)
        for loss in (dict([*of_kinds.items()][:1]), of_kinds)
    )
    assert len(labels([narrow, wide])) == 1  # a loss of a kind that the sets have not changes no row
    unchanged = make_result(["a"], SCORES, augmentation={"views": [], "delete": 0.1})
    changed = make_result(["a"], SCORES, augmentation={"views": ["delete"], "delete": 0.1})
    assert labels([cosent, unchanged]) == ["a"]
    assert len(labels([cosent, changed])) == 2
    assert labels([cosent, colder, cosine]) == [
        "a, cosent, temperature 0.01",
        "a, cosent, temperature 0.05",
        "a, cosine",
    ]


def test_variants_of_a_model_are_told_by_name_and_only_namesakes_by_their_numbers(make_result):
    def cot(variant, **numbers):
        result = make_result(["a"], SCORES)
        result.config["model"] = {
            "_target_": "lightning_modules.cot.CotEncoder",
            "variant": variant,
            **numbers,
        }
        return result

    two_stages, one = cot("cot", stage_2="so [MASK]", read="last"), cot("cot_long", stage_2=None, read="last")
    assert labels([two_stages, one]) == ["a, cot", "a, cot_long"]
    assert labels([two_stages, one, cot("cot_long", stage_2=None, read="mean")]) == [
        "a, cot",
        "a, cot_long, read last",
        "a, cot_long, read mean",
    ]


def test_what_a_job_does_not_read_is_in_no_label(make_result):
    def row(model, **changes):
        result = make_result(["a"], SCORES, **changes)
        result.config["model"] = {"_target_": f"lightning_modules.{model}", "read": "last"}
        return result

    cot, simcse = row("cot.CotEncoder"), row("biencoder.BiEncoder")
    masked = row("mlm.MaskedLanguageModel")
    for result in (cot, simcse, masked):
        result.config["backbone"] |= {"pooling": "cls", "path": "box"}
    assert labels([cot, simcse]) == ["a", "a, cot"]
    assert labels([masked, simcse]) == ["a", "a, mlm"]
    mean = row("biencoder.BiEncoder")
    mean.config["backbone"] |= {"pooling": "mean", "path": "box"}
    assert sorted(labels([cot, simcse, mean])) == [
        "a, cls pooling",
        "a, cot",
        "a, mean pooling",
    ]


def test_a_backbone_is_told_by_its_name_and_its_own_numbers_go_without_saying(make_result):
    small = {"path": "builtin/mini_zh", "initialize": "pretrained", "layers": 4, "dropout": 0.1}
    fresh = {
        "name": "random_small",
        "path": "builtin/encoder",
        "initialize": "random",
        "layers": None,
        "dropout": None,
    }
    deep = small | {"layers": 6}
    results = [make_result([], {"dev/bq/spearman": 0.4}, backbone=one) for one in (small, fresh, deep)]
    assert {*labels(results)} == {
        "mini_zh, untrained, 4 layers",
        "random_small, untrained",
        "mini_zh, untrained, 6 layers",
    }
    runs = [small | {"path": f"{place}/runs/a/encoder"} for place in ("here", "there")]
    results = [make_result([], {"dev/bq/spearman": 0.4}, backbone=one) for one in runs]
    assert {*labels(results)} == {f"{one['path']}, untrained" for one in runs}, (
        "folders of one name are told whole"
    )


def test_hardware_and_folders_make_no_rows_and_several_devices_are_told(make_result):
    results = [
        make_result(["a"], SCORES, seed=1, hardware={"accelerator": "cpu"}, evaluation={"splits": ["dev"]}),
        make_result(["a"], SCORES, seed=2, hardware={"accelerator": "cuda"}, output_dir="elsewhere"),
    ]
    assert labels(results) == ["a, on cpu and cuda"]
    assert labels(results[1:]) == ["a"], "where all are of one device, nobody is told"


def test_precision_and_back_end_make_rows_that_say_so(make_result):
    full, half = ({"accelerator": "cpu", "precision": name} for name in ("32-true", "bf16-mixed"))
    results = [
        make_result(["a"], SCORES, hardware=full),
        make_result(["a"], {"dev/bq/spearman": 0.4}, hardware=half, untrained={"dev/bq/spearman": 0.1}),
        make_result(["a"], {"dev/bq/spearman": 0.6}, seed=2, hardware={**full, "accelerator": "cuda"}),
    ]
    matrix = matrix_of(*results)
    assert {row.label: row.cells["dev/bq"].mean for row in matrix.rows} == {
        "untrained, on cpu": 0.1,
        "a, on cpu and cuda": pytest.approx(0.55),
        "a, bf16, on cpu": 0.4,
    }
    compiled = make_result(["a"], SCORES, hardware={**full, "compile": True})
    assert {*labels([results[0], compiled])} == {"a, compiled", "a"}
    assert labels(results[1:2]) == ["untrained", "a"], "where all rows have one precision, nobody is told"
    encoded = [make_result(["a"], SCORES, evaluation={"backend": name}) for name in ("torch", "onnx_int8")]
    assert labels([*encoded, make_result(["a"], SCORES, evaluation={"splits": ["dev"]})]) == [
        "a",
        "a, onnx_int8",
    ]
    lexical = [
        make_result([], SCORES, model="lightning_modules.lexical.Lexical", hardware=one)
        for one in (full, half)
    ]
    assert labels(lexical) == ["lexical"]


FAQ = {"dev/faq/recall_at_1": 0.7, "dev/faq/mrr": 0.8, "dev/faq/ranking_accuracy": 1.0}


def test_each_column_has_the_metric_that_speaks_for_its_set(make_result):
    scores = {
        "dev/csts/spearman": 0.5,
        "dev/bq/spearman": 0.4,
        "dev/cmrc/ndcg_at_10": 0.3,
        "dev/cmrc/mrr": 0.2,
    }
    matrix = build_matrix([make_result(["csts"], scores), make_result(["faq"], FAQ)], metric=None)
    assert {column: matrix.measures[column] for column in matrix.columns} == {
        "dev/bq": "spearman", "dev/cmrc": "ndcg_at_10", "dev/csts": "spearman", "dev/faq": "recall_at_1",
    }  # fmt: skip
    assert matrix.rows[1].cells["dev/faq"].mean == 0.7
    assert (matrix.metric, matrix.counted) == ("spearman", ["dev/bq", "dev/csts"])  # of one metric alone
    shown = to_markdown(matrix)
    assert "faq (dev) R@1" in shown
    assert "csts (dev) |" in shown
    assert ",dev,faq,recall_at_1,0.7," in to_csv(matrix)


def test_a_folder_of_positive_pairs_alone_has_a_table_and_a_report(make_result):
    results = [make_result(["faq"], FAQ, untrained={"dev/faq/recall_at_1": 0.6})]
    matrix = build_matrix(results, metric=None)
    assert (matrix.metric, matrix.columns) == ("recall_at_1", ["dev/faq"])
    assert to_markdown(matrix).startswith("R@1 ×100. Row")
    report = build_report(results, metric=None, reference=Reference([], []), audit=None)
    assert "+10.0" in markdown(report)
    assert "faq" in html(report, title="faq")


def test_rows_of_which_some_rank_a_few_texts_alone_are_compared_by_that(make_result):
    """A cross-encoder, or a result from before all standard questions were ranked."""
    few = {"dev/faq/ranking_accuracy": 0.9}
    pair = [make_result(["faq"], FAQ), make_result(["old"], few)]
    assert build_matrix(pair, metric=None).measures["dev/faq"] == "ranking_accuracy"
    assert build_matrix(pair, metric="recall_at_1").measures["dev/faq"] == "recall_at_1"
    assert build_matrix(pair[:1], metric=None).measures["dev/faq"] == "recall_at_1"


def test_hidden_tokens_speak_where_nothing_else_does(make_result):
    matrix = build_matrix([make_result(["text"], {"dev/text/mlm_accuracy": 0.3})], metric=None)
    assert matrix.rows[0].cells["dev/text"].mean == 0.3


def test_texts_that_an_encoder_does_not_know_have_a_table_where_results_count_them(make_result):
    old, new = make_result(["csts"], SCORES), make_result(["bq"], SCORES)
    reference = Reference([], [])
    keys = [table.key for table in build_report([old], metric=None, reference=reference, audit=None).tables]
    assert "unknown_texts" not in keys
    new.data["dev/bq"] = {"unknown": {"looked_at": 200, "texts": 3, "pairs": 2, "share": 0.015}}
    report = build_report([old, new], metric=None, reference=reference, audit=None)
    assert [line[1:] for line in report.table("unknown_texts").body] == [("bq (dev)", "3", "1.5", "2")]
