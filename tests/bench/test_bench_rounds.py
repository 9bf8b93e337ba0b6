"""Turns, ratios, predictions, operation counts and options: the parts that need no clock."""

import ast
import inspect
import itertools

import pytest
import torch
from forks import ROOT
from torch import nn

from juzhen.core.errors import UserError
from tools.bench import rounds
from tools.bench.__main__ import build_parser
from tools.bench.child import in_child
from tools.bench.contest import contests
from tools.bench.memory import predicted_mib
from tools.bench.options import BENCHMARKS, SCALES, resolve
from tools.bench.rounds import alternate, compare, seconds_per_call
from tools.bench.steps import Order, Steps
from tools.bench.work import linear_weights, training_flops


def test_turns_alternate_and_every_second_round_runs_backwards():
    seen = []

    def turn(name):
        return lambda number: seen.append((number, name)) or float(number)

    found = alternate({name: turn(name) for name in "ab"}, rounds=3)
    assert seen == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert found == {"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 2.0]}


def test_something_can_be_measured_before_each_turn():
    looked = []
    alternate({"a": lambda _: 1.0, "b": lambda _: 2.0}, rounds=2, before_turn=looked.append)
    assert looked == ["a", "b", "b", "a"]


def test_ratios_are_taken_round_by_round():
    # A machine that is slow in the second round must not look like a difference.
    assert compare([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == (2.0, 2.0, 2.0)
    assert compare([1.0, 4.0], [1.0, 1.0]) == (2.5, 1.0, 4.0)


def test_rounds_of_different_number_are_refused():
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        compare([1.0, 2.0], [1.0])


def test_a_quick_call_is_repeated(monkeypatch):
    ticks = itertools.count(step=0.4)
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: next(ticks))
    calls = []
    assert seconds_per_call(lambda: calls.append(1), at_least=1.0) == pytest.approx(1.2 / 2)
    assert len(calls) == 2


def test_linear_weights_leave_out_tables_and_biases():
    model = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    assert linear_weights(model) == 8 * 16 + 16 * 4


def test_operations_of_a_step_agree_with_what_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=10, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=32, attn_implementation="eager")  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    with FlopCounterMode(display=False) as counter:
        states = model(torch.ones(3, 5, dtype=torch.long)).last_hidden_state
        states.sum().backward()
    expected = training_flops([5, 5, 5], weights=linear_weights(model), layers=2, width=8)
    assert counter.get_total_flops() == pytest.approx(expected)


def test_memory_is_predicted_from_the_growth_between_the_last_two_batches():
    assert predicted_mib([], 64) == 0
    assert predicted_mib([(0, 500.0), (64, 564.0)], 128) == 628
    assert predicted_mib([(0, 500.0), (64, 564.0), (256, 948.0)], 1024) == 948 + 768 * 2


@pytest.mark.slow
def test_a_process_of_its_own_says_what_it_found_and_its_peak():
    found = in_child("tests.bench.child_work:answer", number=21)
    assert found["answer"] == 42
    assert found["peak_mib"] > found["held_mib"] >= 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "error", "said"),
    [("fail", RuntimeError, "no such luck"), ("be_killed", MemoryError, "killed")],
)
def test_a_process_that_fails_says_why_and_one_that_is_killed_ran_out_of_memory(function, error, said):
    with pytest.raises(error, match=said):
        in_child(f"tests.bench.child_work:{function}")


def test_an_order_is_read_as_it_was_written(tmp_path):
    order = Order("folder", {"text_a": ["一"], "score": [0.5]}, batch_size=1, max_length=64, learning_rate=1e-4,
                  weight_decay=0.01, betas=[0.9, 0.999], eps=1e-8, clip_norm=1.0, bf16=False)  # fmt: skip
    assert Order.read(order.write(tmp_path / "order.json")) == order


def test_steps_last_from_end_to_end():
    assert Steps.between([1.0, 3.0, 3.5], [9.0, 8.0]) == Steps([2.0, 0.5], [9.0, 8.0])


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_takes_the_options_it_names(benchmark):
    source = (ROOT / "tools" / "bench" / f"{benchmark}.py").read_text("utf-8")
    (measure,) = [one for one in ast.parse(source).body if getattr(one, "name", None) == "measure"]
    taken = {one.arg for one in measure.args.kwonlyargs}
    if measure.args.kwarg:  # the rest is of a contest, whose other argument is not asked for
        taken |= set(inspect.signature(contests).parameters) - {"make", "train", "per_second"}
    assert taken == set(resolve(benchmark, "modest", {}))


@pytest.mark.parametrize(
    ("typed", "least"),
    [
        ("training --steps 4", 5),
        ("training --memory-steps 1", 2),
        ("overhead --steps 1", 2),
        ("spin --steps 1", 2),
    ],
)
def test_steps_that_are_all_left_out_of_the_time_are_refused(typed, least):
    with pytest.raises(UserError, match=f"expected a whole number from {least} on, such as "):
        build_parser().parse_args(typed.split())


def test_what_is_typed_comes_before_the_scale():
    given = vars(
        build_parser().parse_args(["training", "--scale", "tiny", "--steps", "9", "--sizes", "M", "B"])
    )
    options = resolve("training", given["scale"], given)
    assert (options["steps"], options["sizes"], options["rounds"]) == (9, ["M", "B"], 2)
    assert options["compile"] is False


@pytest.mark.parametrize("scale", SCALES)
def test_all_takes_every_benchmark_at_its_scale(scale):
    given = vars(build_parser().parse_args(["all", "--scale", scale]))
    for benchmark in BENCHMARKS:
        assert None not in resolve(benchmark, scale, given).values()
