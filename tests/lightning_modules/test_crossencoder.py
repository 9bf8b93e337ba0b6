"""The cross-encoder as a model: what it learns from, what it refuses, and what becomes of a finished run."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from expected_losses import AROUND, EXPECTED
from jobs import logged, module_of, run_job, weights
from jobs import typed_job as whole_job

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.data import loading
from juzhen.data.rankings import RankingSet
from juzhen.encoders import CrossEncoder, load_encoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.evaluators import CrossEncoderPlan
from juzhen.evaluation.two_stage import two_stage
from juzhen.metrics.classification import score_classes
from juzhen.metrics.correlation import spearman
from juzhen.mining import MiningOptions
from juzhen.mining.negatives import mine
from lightning_modules.crossencoder import CrossEncoderModule
from lightning_modules.loss_factory import declared_loss, match_losses
from tools.loss_table import losses_for, options

JOINT = ("model=crossencoder", "training.duration=2 steps", "evaluation.splits=[dev]")
GRADED = {"demo_sts", "demo_qmc", "demo_order", "demo_nli"}
FITS = {
    name: one.sets
    for name, one in EXPECTED.items()
    if one.sets and declared_loss(options("loss")[name]).input_type in CrossEncoderModule.provides
}
"""Losses that a cross-encoder learns from, and the demo sets they take; all others on file are refused."""
CONVERTED = {
    "lists": dict.fromkeys(GRADED, Kind.TRIPLET),
    "drawn_lists": {
        "demo_nli": Kind.TRIPLET,
        "demo_order": Kind.POSITIVE_PAIR,
        "demo_qmc": Kind.POSITIVE_PAIR,
    },
}
"""What a loss reads → set → kind that its rows are converted to; such losses are advised only where no other fits."""


def typed_job(*overrides):
    return whole_job("benchmark=none", *overrides)


@pytest.mark.slow
def test_every_loss_fits_or_is_refused_with_a_reason():
    nodes = losses_for(options("model")["crossencoder"])
    nodes = {loss: node for loss, node in nodes.items() if "_target_" in node}
    assert set(FITS) < set(nodes)
    for dataset in sorted(GRADED):
        job = typed_job("model=crossencoder", f"dataset=[{dataset}]")
        for loss, job.loss in nodes.items():
            if dataset in FITS.get(loss, ()):
                converted = CONVERTED.get(declared_loss(job.loss).input_type, {})
                expected = converted.get(dataset, job.dataset[dataset].kind)
                assert match_losses(job)[dataset].kind == expected
                continue
            with pytest.raises(UserError, match=f"loss={loss} needs") as refused:
                match_losses(job)
            if loss not in FITS and EXPECTED[loss].kinds not in ("teacher", "guide", "lists"):
                told, _, named = str(refused.value).partition("hoose one of ")
                assert "model=crossencoder gives none" in told, (loss, dataset)
                assert (
                    set(named.split(", "))
                    == {
                        name
                        for name, sets in FITS.items()
                        if dataset in sets and declared_loss(nodes[name]).input_type not in CONVERTED
                    }
                    - AROUND
                )


@pytest.mark.parametrize("loss", FITS)
@pytest.mark.sampled(24)
def test_every_loss_that_fits_takes_steps(loss, tmp_path, tiny_backbone):
    dataset = min(FITS[loss] & {"demo_nli"} or {"demo_qmc"})
    run = run_job(tmp_path, tiny_backbone, *JOINT, f"dataset=[{dataset}]", f"loss={loss}", "debug_rows=24")
    assert Result.read(run).training["steps"] == 2
    before = CrossEncoder.load(run).head.weight
    assert before.shape[0] == (3 if loss == "ce" else 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    """A finished run on 0/1 pairs, with both orders."""
    words = ("dataset=[demo_qmc]", "loss=bce", "model.symmetric=true", "backbone.max_length=24")
    return run_job(
        tmp_path_factory.mktemp("runs"), tiny_backbone, *JOINT[:1], *words, "training.length_window=2"
    )


def dev_pairs(job):
    (dev,) = [one for one in loading.load_job_data(job, {}).evaluation if one.split == "dev"]
    return dev


def test_the_result_is_that_of_the_saved_encoder_and_of_predict(run, tmp_path):
    job = typed_job("model=crossencoder", "dataset=[demo_qmc]", "debug_rows=48")
    job.evaluate, job.dataset = job.dataset, {}
    dev = dev_pairs(job)
    scores = CrossEncoder.load(run).score(list(zip(dev.texts("text_a"), dev.texts("text_b"), strict=True)))
    result = Result.read(run)
    assert result.scores["dev/demo_qmc/spearman"].value == pytest.approx(
        spearman(scores, dev.targets), abs=1e-3
    )
    assert {"accuracy", "f1", "average_precision"} <= {key.split("/")[2] for key in result.scores}

    path, columns = tmp_path / "pairs.tsv", ("text_a", "text_b")
    rows = ["\t".join(pair) for pair in zip(*(dev.texts(column) for column in columns), strict=True)]
    path.write_text("\n".join(["sentence1\tsentence2", *rows]) + "\n", encoding="utf-8")
    assert main(["score", str(run), "--file", str(path)]) == 0
    with (tmp_path / "pairs.scored.tsv").open(encoding="utf-8") as file:
        written = [
            float(row["score"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    np.testing.assert_allclose(written, scores, atol=2e-6)


def test_a_loaded_scorer_is_symmetric(run):
    encoder = CrossEncoder.load(run)
    assert encoder.score("今天天气很好", "我改密码") == encoder.score("我改密码", "今天天气很好")


def test_a_finished_run_evaluated_again_has_the_same_scores(run, tmp_path, tiny_backbone):
    words = ("model=crossencoder", "dataset=[]", "benchmark=demo", "~evaluate.demo_nli", f"init_from={run}")
    again = run_job(tmp_path, tiny_backbone, *words)
    found, before = Result.read(again), Result.read(run)
    assert CrossEncoder.load(again).symmetric
    for key in ("dev/demo_qmc/spearman", "test/demo_qmc/accuracy"):
        assert found.scores[key].value == pytest.approx(before.scores[key].value, abs=1e-3)


@pytest.mark.slow
def test_a_head_is_kept_where_it_fits_and_new_where_it_does_not(run, tmp_path, tiny_backbone):
    still = (*JOINT, "optimizer.lr=1e-30", "debug_rows=24")
    sts = run_job(tmp_path, tiny_backbone, *still, "loss=cosent", f"init_from={run}")
    old, kept = CrossEncoder.load(run), CrossEncoder.load(sts)
    assert torch.equal(kept.head.weight, old.head.weight)
    assert (kept.symmetric, kept.inner.max_length) == (True, 24)
    two = run_job(tmp_path, tiny_backbone, *still, "dataset=[demo_qmc]", "loss=ce", f"init_from={run}")
    classes = CrossEncoder.load(two)
    assert classes.outputs == 2
    for name, weight in old.backbone.state_dict().items():
        assert torch.equal(classes.backbone.state_dict()[name], weight), name
    # A loss of scores goes on with two nodes: their difference is a score.
    again = run_job(tmp_path, tiny_backbone, *still, "loss=cosent", f"init_from={two}")
    assert torch.equal(CrossEncoder.load(again).head.weight, classes.head.weight)


@pytest.mark.slow
def test_a_bi_encoder_gets_a_head(tmp_path, tiny_backbone):
    still = ("training.duration=1 steps", "optimizer.lr=1e-30", "debug_rows=24", "evaluation.splits=[dev]")
    apart = run_job(tmp_path, tiny_backbone, *still)
    joint = run_job(tmp_path, tiny_backbone, *still, "model=crossencoder", f"init_from={apart}")
    weights = [CrossEncoder.load(joint).backbone.state_dict(), load_encoder(apart).backbone.state_dict()]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_classes_of_nli_are_judged_by_accuracy_and_macro_f1(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, *JOINT, "dataset=[demo_nli]", "loss=ce", "debug_rows=24")
    scores = Result.read(run).scores
    spread = {"score_mean", "score_variance", "ks", "ks_p_value"}
    assert {key.split("/")[2] for key in scores} == {"spearman", "pearson", "accuracy", "macro_f1"} | spread
    assert 0 <= scores["dev/demo_nli/macro_f1"].value <= 1


def test_macro_f1_by_hand():
    texts = {column: list("abcd") for column in ("premise", "hypothesis")}
    examples = Examples.from_texts("nli", "dev", kind=Kind.NLI_PAIR, texts=texts, targets=[0, 0, 1, 2])
    found = score_classes(np.eye(3)[[0, 1, 1, 0]], examples)
    # class 0: one of two found, one of two right: 1/2; class 1: 2/3; class 2 never named: 0
    assert found["macro_f1"].value == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)
    assert found["accuracy"].value == 0.5


def test_a_plan_holds_each_pair_once_and_both_orders_apart():
    sets = [
        Examples.from_texts(
            name,
            "dev",
            kind=Kind.SCORED_PAIR,
            texts={"text_a": first, "text_b": second},
            targets=np.zeros(len(first)),
        )
        for name, first, second in (
            ("one", ["a", "b", "a"], ["b", "a", "b"]),
            ("two", ["b", "a"], ["c", "b"]),
        )
    ]
    plan = CrossEncoderPlan(sets)
    pairs = list(zip(plan.examples.texts("text_a"), plan.examples.texts("text_b"), strict=True))
    assert sorted(pairs) == [("a", "b"), ("b", "a"), ("b", "c")]
    outputs = np.array([[ord(a) * 1000 + ord(b), 7] for a, b in pairs], dtype=np.float64)
    for one, scores, logits in zip(sets, plan.scores(outputs), plan.logits(outputs), strict=True):
        texts = zip(one.texts("text_a"), one.texts("text_b"), strict=True)
        assert scores.tolist() == [ord(a) * 1000 + ord(b) for a, b in texts]
        assert logits.tolist() == [[7]] * len(one)


STEADY = ("training.duration=2 epochs", "logger.every_steps=1", "evaluation.splits=[dev]")


def test_what_the_head_sees_is_dropped_as_the_layers_drop_or_at_a_rate_of_its_own(tiny_backbone):
    for words, rate in (
        ((), 0.1),
        (("backbone.dropout=0.3",), 0.3),
        (("model.head_dropout=0",), 0.0),
        (("model.head_dropout=0.5", "backbone.dropout=0"), 0.5),
    ):
        job = typed_job(
            "model=crossencoder", "backbone=random_small", f"backbone.path={tiny_backbone}", *words
        )
        encoder = CrossEncoderModule.load_encoder(job)
        assert encoder.dropout.p == rate
        zeros = (encoder.dropout(torch.ones(50_000)) == 0).float().mean()
        assert zeros.item() == pytest.approx(rate, abs=0.01)
    encoder.eval()
    assert encoder.dropout(torch.ones(9)).tolist() == [1.0] * 9


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path, tiny_backbone):
    words = ("model=crossencoder", "dataset=[demo_qmc]", "loss=ce", *STEADY)
    first, again, other = (
        run_job(tmp_path / name, tiny_backbone, *words, f"seed={seed}")
        for name, seed in (("first", 5), ("again", 5), ("other", 6))
    )
    assert weights(first, "head") == weights(again, "head") != weights(other, "head")
    assert logged(first) == logged(again) != logged(other)


def test_what_training_scores_evaluation_scores(tiny_backbone):
    module = module_of(tiny_backbone, "model=crossencoder", "dataset=[demo_nli]", "loss=ce").eval()
    texts = {"premise": ["今天天气很好", "他在跑步"], "hypothesis": ["天气不错", "今天天气很好"]}
    examples = Examples.from_texts("nli", "dev", kind=Kind.NLI_PAIR, texts=texts, targets=[0, 1])
    plan = module.plan([examples])
    with torch.no_grad():
        outputs = module.output(module.collate(plan.examples, np.arange(2))).numpy()
        encoded = module.encode(module.collate.training_batch(examples, np.arange(2), index=0))
    np.testing.assert_allclose(plan.scores(outputs)[0], encoded["scores"], atol=1e-6)
    np.testing.assert_allclose(plan.logits(outputs)[0], encoded["logits"], atol=1e-6)


@pytest.mark.parametrize("loss", ["cosent", "bce", "ce", "margin_ranking"])
@pytest.mark.slow
def test_what_it_was_taught_it_scores_rightly(loss, tmp_path, tiny_backbone):
    """A few pairs, seen until they are known: positives score higher, not lower."""
    words = ("dataset=[demo_qmc]", "debug_rows=24", "training.duration=60 epochs", "backbone.dropout=0.0")
    run = run_job(
        tmp_path,
        tiny_backbone,
        "model=crossencoder",
        *words,
        f"loss={loss}",
        "evaluation.splits=[]",
        "optimizer.lr=5e-3",
    )
    job = typed_job(
        "model=crossencoder", "dataset=[demo_qmc]", f"loss={loss}", "debug_rows=24", "evaluation.splits=[]"
    )
    train = loading.load_job_data(job, {"demo_qmc": Kind.LABELLED_PAIR}).train["demo_qmc"]
    scores = CrossEncoder.load(run).score(
        list(zip(train.texts("text_a"), train.texts("text_b"), strict=True))
    )
    assert scores[train.targets == 1].min() > scores[train.targets == 0].max()


EXCHANGED = "symmetric=false"


def test_no_other_door_leads_an_asymmetric_set_to_it(run, tmp_path, capsys):
    ranking = RankingSet(
        "some", "dev", ["甲", "乙"], ["丙", "丁"], [{0: 1.0}, {1: 1.0}], candidates=[np.array([0, 1])] * 2
    )
    encoder = CrossEncoder.load(run)
    with pytest.raises(UserError, match=f"dev/some: query and document .*{EXCHANGED}"):
        evaluate(run, [ranking])
    evaluate(run, [replace(ranking, symmetric=True)])
    with pytest.raises(UserError, match=EXCHANGED):
        two_stage("lexical", encoder, replace(ranking, candidates=None), depths=[1])
    with pytest.raises(UserError, match=EXCHANGED):
        mine(
            replace(ranking, candidates=None),
            ["bm25"],
            MiningOptions(range_max=2),
            folder=tmp_path / "x",
            cross_encoder=encoder,
        )
    table = tmp_path / "pairs.tsv"
    table.write_text("premise\thypothesis\n甲\t乙\n", encoding="utf-8")
    for words in (
        ["score", str(run), "--file", str(table), "--columns", "premise", "hypothesis"],
        ["distill", str(run), "demo_nli", "--out", str(tmp_path / "of_tests_graded.tsv"), "--limit", "4"],
        ["evaluate", str(run), "--dataset", "demo_nli"],
    ):
        assert main(words) != 0
        assert EXCHANGED in capsys.readouterr().err
