"""Stages of a job: which there are, what each has of its own, and what is refused before anything runs."""

from dataclasses import replace

import pytest
from jobs import compose_job, tiny_encoder

from datamodules.datamodule import loss_weights
from juzhen.data.rows import as_examples
from launch import curriculum
from launch.job import history, plan_job, read_job
from lightning_modules.loss_factory import chosen_losses

SERIAL = ("schedule=serial", "dataset=[demo_nli,demo_sts]", "loss=by_kind")
TWICE = (
    "schedule=serial",
    "dataset=[demo_sts]",
    "schedule.order=[first,second]",
    "+schedule.stages.first.dataset=[demo_sts]",
    "+schedule.stages.second.dataset=[demo_sts]",
    "+loss@schedule.stages.second.loss=cosine",
)


def plans(*overrides):
    config = compose_job(*overrides)
    read_job(config)
    return plan_job(read_job(config))


@pytest.mark.slow
def test_a_mixture_is_one_stage_and_a_curriculum_one_per_set():
    (mixture,) = plans("dataset=[demo_nli,demo_sts]")
    assert (mixture.name, mixture.datasets) == ("demo_nli+demo_sts", ("demo_nli", "demo_sts"))
    first, second = plans(*SERIAL)
    assert (first.datasets, second.datasets) == (("demo_nli",), ("demo_sts",))
    assert list(first.job.dataset) == ["demo_nli"]
    assert {"demo_nli", "demo_sts"} <= set(first.job.evaluate)
    (untrained,) = plans("schedule=serial", "dataset=[]")
    assert untrained.datasets == ()


def test_a_stage_has_numbers_of_its_own():
    first, second = plans(
        *SERIAL,
        "+schedule.stages.demo_sts.training.batch_size=16",
        "+schedule.stages.demo_sts.optimizer.lr=1e-5",
        "+schedule.stages.demo_sts.share_percent=50",
        "training.duration=3 epochs",
    )
    assert (second.job.training.batch_size, second.job.optimizer.lr) == (16, 1e-5)
    assert (first.job.training.batch_size, first.job.optimizer.lr) == (64, 5e-4)
    assert (first.job.training.duration, second.job.training.duration) == ("3 epochs", "1.5 epochs")


@pytest.mark.slow
def test_a_set_comes_again_with_another_loss():
    first, second = plans(*TWICE)
    assert [plan.job.loss["name"] for plan in (first, second)] == ["cosent", "cosine"]
    assert history([first, second], 1) == ("demo_sts", "demo_sts")
    again = plans(*SERIAL, "schedule.order=[demo_sts,demo_nli,demo_sts]")
    assert history(again, 2) == ("demo_sts", "demo_nli", "demo_sts")


def test_a_stage_may_be_a_mixture():
    several = plans(
        *SERIAL, "schedule.order=[both,demo_sts]", "+schedule.stages.both.dataset=[demo_nli,demo_sts]"
    )
    assert history(several, 1) == ("demo_nli+demo_sts", "demo_sts")


@pytest.mark.parametrize(
    ("name", "of_tasks"),
    [
        ("", {"msmarco", "snli", "mnli"}),
        ("_zh", {"simclue_positive", "ocnli"}),
        ("_demo", {"demo_qmc", "demo_nli"}),
    ],
)
def test_three_stages_have_the_numbers_of_the_recipe(name, of_tasks):
    first, tasks, last = [plan.job for plan in plans(f"experiment=three_stage{name}", "benchmark=none")]
    matches = [chosen_losses(job) for job in (first, tasks, last)]
    for found, temperature in zip(matches, (0.05, 0.07, 0.05), strict=True):
        ranked = {each: match.loss for each, match in found.items() if match.loss["name"] == "info_nce"}
        assert {(loss["temperature"], loss["symmetric"]) for loss in ranked.values()} == {(temperature, True)}
    assert ranked.keys() <= of_tasks
    weights = loss_weights(tasks, list(tasks.dataset))
    (graded,) = tasks.dataset.keys() - of_tasks
    assert matches[1][graded].loss["name"] == "mse"
    assert set(weights.values()) == {2, 1, 1.5}
    assert weights[graded] == 1
    shares = {each: tasks.schedule.sets[each].weight for each in tasks.dataset}
    assert sorted([shares.pop(graded), shares.pop(*first.dataset), sum(shares.values())]) == [1, 1.5, 2]
    assert tasks.schedule.sample_by == "drawn"
    assert [job.training.batch_size for job in (first, tasks, last)] == [64, 64, 32]
    assert tasks.schedule.sets[graded].batch_size == 32
    assert loss_weights(first, list(first.dataset)) == loss_weights(last, list(last.dataset)) == {}


def test_recipes_with_search_pairs_score_retrieval():
    for words in ("experiment=three_stage", "experiment=four_tasks"):
        last = plans(words)[-1].job
        assert "retrieval" in {each.kind for each in last.evaluate.values()}, words


UNMEANT = [
    (("+schedule.stages.demo_sts.optimizer.lr=1e-5",), "a mixture has one stage. Type schedule=serial"),
    ((*SERIAL, "schedule.order=[demo_nli]"), "no stage learns from demo_sts"),
    ((*SERIAL, "schedule.order=[demo_nli,demo_sts,demo_qmc]"), r"no set demo_qmc\. .*dataset=\[demo_nli"),
    ((*SERIAL, "schedule.order=[]"), "expected names of stages"),
    ((*SERIAL, "+schedule.stages.demo_st.share_percent=50"), "Did you mean demo_sts"),
    ((*SERIAL, "+schedule.stages.demo_sts.optimizer.lrr=1"), r"optimizer.lrr: .*Did you mean lr\?"),
    (
        (*SERIAL, "+schedule.stages.demo_sts.optimizer.lr=-1"),
        "schedule.stages.demo_sts.optimizer.lr=-1.* greater than 0",
    ),
    ((*SERIAL, "+schedule.stages.demo_sts.training.batch_size=x"), "batch_size=x"),
    ((*SERIAL, "+schedule.stages.demo_sts.dataset=[demo_sts,demo_sts]"), "expected each set once"),
    ((*TWICE, "+schedule.stages.second.loss.temprature=1"), "loss.temprature: unknown key"),
    (("+schedule.sets.demo_qmc.batch_size=4",), "does not learn from demo_qmc"),
    (("+schedule.sets.demo_sts.weight=2",), "sample_by=weight"),
    (
        ("schedule.sample_by=weight", "+schedule.sets.demo_sts.weight=0"),
        "demo_sts.weight=0.*greater than 0",
    ),
    (("+schedule.sets.demo_qmcs.loss_weight=2",), "does not learn from demo_qmcs"),
    (("schedule.temperature=0",), "greater than 0"),
    (("schedule.sample_by=sizes",), "Did you mean size"),
]


@pytest.mark.parametrize(
    ("rows", "symmetric", "prompts", "named"),
    [
        ([("怎么退货", "东西想退掉")], None, {"query": "问：", "document": "答："}, True),
        ([("怎么退货", "东西想退掉", "何时发货")], None, {"query": "问："}, True),
        ([("怎么退货", "东西想退掉")], False, {"query": "问：", "document": "答："}, False),
        ([("怎么退货", "东西想退掉")], None, {}, False),
        ([("怎么退货", "东西想退掉", 0.5)], None, {"query": "问："}, False),
    ],
)
def test_prompts_that_no_row_reads_are_said_before_training(tiny_backbone, rows, symmetric, prompts, named):
    encoder = tiny_encoder(tiny_backbone)
    encoder.prompts = prompts
    examples = replace(as_examples(rows), symmetric=symmetric)
    line = curriculum._prompts_line(encoder, {"faq": examples})
    assert ("++dataset.faq.symmetric=false" in (line or "")) == named
