"""The benchmarks: the same work on both sides, honest turns and ratios, and pages that come from the results."""

import json

import pytest
import torch

from benchmarks import measure, report
from benchmarks.__main__ import build_parser
from benchmarks.measure import StepClock, alternate, apart, medians
from benchmarks.table import BENCHMARKS, OPTIONS, SCALES, resolve

RATIO = {"ratio": 2.5, "ratio_low": 2.4, "ratio_high": 2.6}


def result(benchmark, *rows, curves=None):
    head = {"benchmark": benchmark, "options": {}, "machine": {}, "rows": list(rows), "checks": {}}
    return head | {"curves": curves or {}, "notes": [], "seconds": 1.0, "format_version": 1}


def test_turns_alternate_and_every_second_round_runs_backwards():
    seen = []
    turns = {side: lambda number, side=side: seen.append((number, side)) or {"seconds": 1.0} for side in "ab"}
    assert len(alternate(turns, 3)["a"]) == 3
    assert seen == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_rows_have_medians_of_numbers_and_ratios_are_taken_round_by_round():
    """A machine that is slow in the second round must not look like a difference."""
    turns = {"ours": [1.0, 10.0, 1.0], "theirs": [2.0, 20.0, 3.0]}
    turns = {side: [{"seconds": value, "result": "x"} for value in values] for side, values in turns.items()}
    rows = medians(turns, "seconds", lambda side: "theirs")
    assert rows["ours"] == {"seconds": 1.0, "ratio": 2.0, "ratio_low": 2.0, "ratio_high": 3.0}
    assert rows["theirs"]["ratio"] == 1


@pytest.fixture
def gpu(monkeypatch):
    """The device in name; the waits that were made of it."""
    waits = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(True))
    monkeypatch.setenv(measure.VARIABLE, "cpu")  # is put back afterwards
    measure.choose_device("cuda")
    return waits


def test_a_clock_waits_for_a_gpu_where_steps_begin_to_count_and_at_the_end(gpu, monkeypatch):
    times = iter([0.0, 9.0, 9.1, 20.0, 20.1, 26.0])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(times))
    clock = StepClock(6)
    for number in range(6):
        clock.record(torch.tensor(float(number)))
    assert len(gpu) == 2
    assert clock.losses == [0, 1, 2, 3, 4, 5]
    assert clock.seconds(skipped=4) == pytest.approx((26 - 20) / 2)  # single steps have no time of their own
    monkeypatch.setenv(measure.VARIABLE, "cpu")
    clock.times = [0.0, 9, 18, 27, 28, 30, 60]
    assert clock.seconds(skipped=4) == 2  # the median


def answer(number):
    held = bytearray(64 * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    return {"answer": 2 * number, "held": len(held)}


@pytest.mark.slow
def test_a_process_of_its_own_gives_numbers_and_its_peak():
    numbers = apart(answer, 21)
    assert numbers["answer"] == 42
    assert numbers["mib_peak"] > 64


def test_what_is_typed_comes_before_the_scale():
    options = resolve("training", "tiny", ["steps=9", "sizes=M,B", "datasets=csts"])
    assert (options["steps"], options["sizes"], options["datasets"]) == (9, ["M", "B"], ["csts"])
    assert options["rounds"] == OPTIONS["rounds"][1]
    assert resolve("training", "full", [], has_bf16=False)["precisions"] == ["fp32"]  # bf16 would be imitated
    assert resolve("training", "full", ["precisions=bf16"], has_bf16=False)["precisions"] == ["bf16"]


def test_help_names_every_benchmark_and_option():
    text = build_parser().format_help()
    assert all(name in text for name in (*BENCHMARKS, *OPTIONS, *SCALES, "--device"))


STEP = {"size": "S", "precision": "bf16", **RATIO, "vs_default": 4.0, "peak_share": 0.4}
TRAINING = result(
    "training",
    STEP | {"side": "ours", "mib_peak": 900.0},
    STEP | {"side": "theirs", "mib_peak": 1100.0},
    curves={"S bf16 ours": [3.0, 2.0], "S without dropout ours": [3.0, 1.9]},
)
MINING = result(
    "mining",
    *(
        {
            "side": side,
            "documents": 10_000,
            **RATIO,
            "same_share": 0.997,
            "cpu_seconds": 2.0,
            "same_work_ratio": 3.0,
            "mib_peak": peak,
        }
        for side, peak in (("ours", 900.0), ("theirs", 1200.0))
    ),
)


def held(side, cached, batch_size, mib_peak):
    row = {"size": "S", "loss": "cosent", "side": side, "cached": cached, "batch_size": batch_size}
    return row | {"seconds_per_step": 2.0 if mib_peak else None, "mib_peak": mib_peak}


AT_ONCE = [held("ours", "no", 64, 700.0), held("theirs", "no", 64, 1000.0), held("theirs", "no", 256, None)]
AT_ONCE += [held("ours", "yes", 256, 800.0), held("ours", "yes", 4096, 900.0)]
MEMORY = result("memory", *AT_ONCE)


def test_the_table_has_a_line_for_each_measurement_of_ours():
    lines = report.table([MINING, MEMORY, TRAINING], "en").splitlines()
    assert lines[2:] == [
        "| training, S, bf16 | 2.50 × as fast [2.40, 2.60] | 4.00 × its default; 40 % of the matrix peak, "
        "900 of 1,100 MiB |",
        "| memory of 4,096 pairs in pieces, S, cosent | no such thing there | 900 MiB, 2.0 s per step; 64 pairs at "
        "once: 700 MiB, theirs 1,000 |",
        "| mining hard negatives, 10,000 documents | 2.50 × as fast [2.40, 2.60] | 2.0 s of processor time; 3.00 × "
        "without near copies, digests and candidates on disk; 900 of 1,200 MiB; the same negatives for 99.7 % of the "
        "queries |",
    ]
    assert len(report.table([MINING, MEMORY, TRAINING], "zh").splitlines()) == len(lines)
    cached = result("memory", *AT_ONCE, held("theirs", "yes", 4096, 1800.0))
    assert "| 0.50 × theirs in pieces |" in report.table([cached], "en")


@pytest.mark.parametrize("made", [TRAINING, MEMORY], ids=lambda made: made["benchmark"])
@pytest.mark.slow
def test_what_is_written_is_read_back_and_drawn_the_same_again(made, tmp_path):
    pytest.importorskip("matplotlib")
    path = report.write(made, tmp_path / "out")
    assert report.read(path) == made
    picture = path.with_suffix(".svg").read_bytes()
    assert picture.count(b"<path") > 3
    report.draw(made, path.with_suffix(".svg"))
    assert path.with_suffix(".svg").read_bytes() == picture


def test_committed_results_are_of_benchmarks_and_say_where_they_were_measured(project_root):
    paths = sorted((project_root / "results" / "bench").glob("*.json"))
    assert {report.read(path)["benchmark"] for path in paths} == set(BENCHMARKS)
    for path in paths:
        made = json.loads(path.read_text(encoding="utf-8"))
        assert made["machine"]["packages"]["sentence-transformers"]
        assert made["machine"]["processor"]
        assert len({tuple(row) for row in made["rows"]}) == 1


def test_only_what_is_between_the_markers_changes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n", encoding="utf-8")
    report.write_into(page, "new")
    assert page.read_text(encoding="utf-8") == f"before\n{report.START}\nnew\n{report.END}\nafter\n"


@pytest.mark.slow
def test_operations_of_a_step_agree_with_what_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=10, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=128, attn_implementation="eager")  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    with FlopCounterMode(display=False) as counter:
        model(torch.ones(3, 5, dtype=torch.long)).last_hidden_state.sum().backward()
    assert counter.get_total_flops() == pytest.approx(measure.training_flops([5, 5, 5], "tiny"))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("benchmark", "precision", "tolerance"),
    [
        ("training", "fp32", 2e-5),
        ("training", "bf16", 2e-2),
        ("crossencoder", "fp32", 2e-5),
        ("distill", "fp32", 2e-5),
    ],
)
def test_both_sides_have_the_same_numbers_and_without_dropout_the_same_losses(
    benchmark, precision, tolerance, tmp_path
):
    pytest.importorskip("accelerate")
    from sentence_transformers.training_args import SentenceTransformerTrainingArguments

    from benchmarks import ours, theirs
    from benchmarks.work import Work, random_bert

    with random_bert("tiny", dropout=0.0) as folder:
        sets = ["demo_qmc"] if benchmark == "crossencoder" else ["demo_sts", "demo_qmc"]
        work = Work.of(benchmark, folder, sets, 8, 6)._replace(precision=precision)
        rows = ours.rows_of(work)
        losses = ours.train(work, rows, seed=0).losses
        assert len(set(losses)) == 6
        assert losses == pytest.approx(theirs.train(work, rows, seed=0).losses, rel=tolerance)

    numbers = theirs.training_numbers(work, str(tmp_path), seed=0)
    other, job = SentenceTransformerTrainingArguments(**numbers), ours.read(work)[0]
    own = job.optimizer
    assert (other.learning_rate, other.weight_decay) == (own.lr, own.weight_decay)
    assert [other.adam_beta1, other.adam_beta2] == own.betas
    assert (other.adam_epsilon, other.max_grad_norm) == (own.eps, own.clip_norm)
    assert (other.warmup_steps, own.warmup, other.lr_scheduler_type) == (0, "0 steps", own.decay)
    assert other.optim == "adamw_torch_fused"
    assert benchmark != "training" or 1 / job.loss["temperature"] == theirs.SCALE
