"""The bi-encoder's parts: batches, the plan of an evaluation, the optimizer."""

import numpy as np
import pytest
import torch
from jobs import module_of, typed_job

from juzhen.core.examples import Examples, Kind
from juzhen.encoders import load_backbone, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.evaluation.scoring import assemble_outputs
from lightning_modules.biencoder import BiEncoder, CosinePlan

FIRST = ["今天天气很好", "怎么改密码", "今天天气很好", "他在跑步"]
SECOND = ["天气不错", "今天天气很好", "他在跑步", "他在跑步"]


def pairs(name="pairs", split="dev", first=FIRST, second=SECOND):
    targets = np.arange(len(first), dtype=np.float32) / len(first)
    return Examples.from_texts(
        name, split, kind=Kind.SCORED_PAIR, texts={"text_a": first, "text_b": second}, targets=targets
    )


@pytest.fixture
def build(tiny_backbone):
    def module(*words, warmup_steps=0):
        return module_of(
            tiny_backbone, "optimizer.lr=1e-3", *words, total_steps=20, warmup_steps=warmup_steps
        )

    return module


def test_a_batch_holds_each_sentence_once_and_spells_the_rows(build):
    module, examples = build(), pairs()
    rows = np.array([3, 0, 2])
    batch = module.collate(examples, rows)
    assert len(batch.tokens) == len(batch.sentence_ids) == len(set(batch.sentence_ids.tolist())) == 3
    packed = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    spelt = [packed[place].tolist() for place in batch.tokens.inverse_permutation]
    for column, texts in (("text_a", FIRST), ("text_b", SECOND)):
        expected = module.encoder.tokenize([texts[row] for row in rows]).tolist()
        assert [spelt[place] for place in batch.columns[column].tolist()] == expected
    assert batch.tensors["targets"].tolist() == examples.targets[rows].tolist()
    assert batch.rows.tolist() == rows.tolist()
    assert (batch.task, len(batch)) == ("pairs", 3)


def test_equal_texts_are_known_as_equal_across_columns(build):
    encoded = build().encode(build().collate(pairs(), np.arange(4)))
    first, second = encoded["text_ids"].T.tolist()
    for i, text in enumerate(FIRST):
        for j, other in enumerate(SECOND):
            assert (first[i] == second[j]) == (text == other)


def test_a_plan_encodes_each_sentence_once_and_scores_every_set(build):
    encoder = build().encoder
    sets = [pairs(), pairs("others", "test", SECOND[::-1], ["退货", "他在跑步", "退货", "退货"])]
    plan = CosinePlan(sets)
    sentences = plan.examples.texts("text")
    assert sorted(sentences) == sorted({*FIRST, *SECOND, "退货"})
    outputs = encoder.encode(sentences, batch_tokens=999, show_progress=False)
    for one, scores in zip(sets, plan.scores(outputs), strict=True):
        for row, score in enumerate(scores):
            pair = [one.texts(column)[row] for column in one.columns]
            first, second = encoder.encode(pair, batch_tokens=999, show_progress=False).astype(np.float64)
            cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            assert score == pytest.approx(cosine, abs=1e-5)


def test_the_score_in_training_is_that_of_evaluation(build):
    module, examples = build(), pairs()
    module.eval()
    plan = module.plan([examples])
    with torch.no_grad():
        outputs = module.output(module.collate(plan.examples, np.arange(len(plan.examples)))).numpy()
        scores = module.score(module.collate(examples, np.arange(4))).numpy()
    np.testing.assert_allclose(scores, plan.scores(outputs)[0], atol=1e-6)


def test_outputs_come_back_in_the_order_of_the_rows():
    values = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    order = [np.array([4, 1]), np.array([0]), np.array([2, 3]), np.array([0])]
    assembled = assemble_outputs([(rows, values[rows]) for rows in order], 5)
    np.testing.assert_array_equal(assembled, values)


def test_biases_and_norms_are_not_decayed(build):
    module = build("optimizer.weight_decay=0.3")
    groups = module.configure_optimizers()["optimizer"].param_groups
    decay = {id(one): group["weight_decay"] for group in groups for one in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(decay) == len(list(module.parameters()))
    for name, parameter in module.named_parameters():
        spared = name.endswith(".bias") or "LayerNorm" in name
        assert decay[id(parameter)] == (0.0 if spared else 0.3), name
    assert set(decay.values()) == {0.0, 0.3}


def rates(module):
    """The learning rate of each step, and the one after the last."""
    configured = module.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    found = []
    for _ in range(module.total_steps + 1):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_the_learning_rate_rises_and_falls(build):
    steps = 4
    found = rates(build(warmup_steps=steps))
    assert found[0] == 0
    assert found[1] == pytest.approx(1e-3 / steps)
    assert found[steps] == max(found) == pytest.approx(1e-3)
    assert found[20] == pytest.approx(0)
    falls = np.diff(found[steps:])
    np.testing.assert_allclose(falls, -1e-3 / (20 - steps), rtol=1e-6)


def test_a_constant_rate_stays_after_the_warm_up(build):
    found = rates(build("optimizer.decay=constant", warmup_steps=2))
    assert found[:2] == [0, pytest.approx(5e-4)]
    assert set(found[2:]) == {1e-3}


def test_a_rate_that_falls_by_the_root_is_whole_at_the_end_of_the_warm_up(build):
    found = rates(build("optimizer.decay=inverse_sqrt", warmup_steps=4))
    assert found[:4] == pytest.approx([0, 2.5e-4, 5e-4, 7.5e-4])
    assert found[4:] == pytest.approx([1e-3 * (4 / step) ** 0.5 for step in range(4, 21)])
    # The equation of the CoSENT note, which has no factor for the root of the warm-up, is the same curve.
    literal = [1e-3 * min(1, step / 4) / max(step, 4) ** 0.5 for step in range(21)]
    assert found == pytest.approx([2 * rate for rate in literal])


def test_without_a_warm_up_the_first_step_is_a_full_one(build):
    assert rates(build())[0] == pytest.approx(1e-3)


def test_gradients_are_scaled_down_and_only_down(build):
    for length, expected in ((5.0, 1.0), (0.5, 0.5)):
        module = build("optimizer.clip_norm=1.0")
        module._compares = True  # as a batch that has something to compare says
        parameters = list(module.parameters())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        parameters[0].grad.view(-1)[0] = length
        module.configure_gradient_clipping(None)
        assert parameters[0].grad.norm().item() == pytest.approx(expected, rel=1e-4)
    module = build("optimizer.clip_norm=null")
    parameter = next(module.parameters())
    parameter.grad = torch.full_like(parameter, 7.0)
    module.configure_gradient_clipping(None)
    assert parameter.grad.max() == 7.0


@pytest.mark.slow
def test_weights_that_are_started_from_keep_their_own_layers(tmp_path, tiny_backbone):
    """`backbone.layers` is of the backbone, which init_from replaces: the default's 4 must not cut or add any."""
    settings = BackboneConfig(path=str(tiny_backbone), initialize="random", layers=6)
    folder = save_encoder(load_backbone(settings, seed=1), tmp_path / "six", card={"name": "six"})
    for words, layers in (
        ((f"init_from={folder}",), 6),
        (("backbone=local", f"backbone.path={folder}"), 6),
        ((), 4),
    ):
        job = typed_job("dataset=[demo_sts]", *words)
        assert len(BiEncoder.load_encoder(job).backbone.encoder.layer) == layers
