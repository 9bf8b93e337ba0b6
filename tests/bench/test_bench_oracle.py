"""Both sides of the training benchmark learn the same, where dropout does not tell them apart."""

from importlib import import_module

import pytest

from tools.bench.work import order_of, training_work, write_bert

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def other_side():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")


@pytest.fixture
def folder(tmp_path):
    return write_bert(tmp_path / "bert", "tiny", dropout=0.0)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 2e-5), ("bf16", 2e-2)])
def test_the_loss_curves_are_one_without_dropout(folder, precision, tolerance):
    from tools.bench.ours import train_ours
    from tools.bench.theirs import train_theirs

    work = training_work(folder, datasets=["demo_sts", "demo_qmc"], batch_size=8, steps=6).at(precision)
    ours, theirs = train_ours(work, seed=0).losses, train_theirs(order_of(work), seed=0).losses
    assert len(ours) == 6
    assert len(set(ours)) == 6
    assert ours == pytest.approx(theirs, rel=tolerance)


def test_both_see_the_same_rows_in_the_same_order(folder):
    work = training_work(folder, datasets=["demo_sts", "demo_qmc"], batch_size=8, steps=40)
    order = order_of(work)
    texts = [
        text for chosen in work.batches()
        for text in work.data.train[chosen.task].select(chosen.rows).texts("text_b")
    ]  # fmt: skip
    assert order.rows["text_b"] == texts
    assert len(texts) == 40 * 8
    assert {chosen.task for chosen in work.batches()} == {"demo_sts", "demo_qmc"}


def test_both_optimizers_and_schedules_have_the_same_numbers(folder, tmp_path):
    from sentence_transformers.training_args import SentenceTransformerTrainingArguments

    from tools.bench.theirs import training_numbers

    work = training_work(folder, datasets=["demo_sts"], batch_size=8, steps=2)
    numbers = training_numbers(order_of(work), str(tmp_path), seed=0)
    theirs, ours = SentenceTransformerTrainingArguments(**numbers), work.job.optimizer
    assert theirs.learning_rate == ours.lr
    assert theirs.weight_decay == ours.weight_decay
    assert [theirs.adam_beta1, theirs.adam_beta2] == ours.betas
    assert (theirs.adam_epsilon, theirs.max_grad_norm) == (ours.eps, ours.clip_norm)
    assert (theirs.warmup_steps, ours.warmup, theirs.lr_scheduler_type) == (0, "0 steps", ours.decay)
    assert theirs.optim == "adamw_torch_fused"
    assert 1 / work.job.loss["temperature"] == 20


def test_cosent_gives_one_number_in_three_ways():
    from tools.bench.cosent import DEFINITION, OURS, THEIRS, draw_rows, loss_of, step

    found = {}
    for side in (OURS, THEIRS, DEFINITION):
        scores, targets = draw_rows(97)
        step(loss_of(side), scores, targets)
        found[side] = scores.grad.tolist()
    assert found[OURS] == pytest.approx(found[DEFINITION], abs=1e-5)
    assert found[THEIRS] == pytest.approx(found[DEFINITION], abs=1e-5)


@pytest.mark.parametrize(("benchmark", "make"), [("crossencoder", "joint_work"), ("distill", "taught_work")])
def test_other_models_learn_the_same_without_dropout(tmp_path, benchmark, make):
    module = import_module(f"tools.bench.{benchmark}")
    work = getattr(module, make)(tmp_path / "bert", "tiny", ["demo_qmc"], dropout=0.0, batch_size=8, steps=6)
    ours, theirs = (module.turn(work, side, seed=0).losses for side in ("ours", "theirs"))
    assert len(set(ours)) == 6
    assert ours == pytest.approx(theirs, rel=2e-5)
