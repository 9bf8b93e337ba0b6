"""AdamW with moments of 8 bits: it learns nearly the same, in a quarter of the memory, and goes on bit by bit."""

import io

import pytest
import torch
from jobs import run_job, typed_job
from torch import nn

from juzhen.core.result import Result
from juzhen.training.optimizer import adamw
from launch.memory import plan_of

pytest.importorskip("torchao")


@pytest.fixture(autouse=True)
def uncompiled():
    with torch.compiler.set_stance("force_eager"):
        yield


def trained(bits, steps, *, model=None, state=None, first=0):
    if model is None:
        torch.manual_seed(0)
        model = nn.Linear(128, 64)
    optimizer = adamw(model, lr=1e-3, state_bits=bits)
    if state is not None:
        optimizer.load_state_dict(state)
    for step in range(first, steps):
        rows = torch.randn(32, 128, generator=torch.Generator().manual_seed(step))
        (model(rows) - rows[:, :64]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


@pytest.mark.slow
def test_it_learns_nearly_the_same_in_a_quarter_of_the_memory():
    (whole, states), (small, small_states) = trained(32, 60), trained(8, 60)
    start, _ = trained(32, 0)
    moved = (whole.weight - start.weight).norm()
    assert (small.weight - whole.weight).norm() < 0.05 * moved
    moments = [
        optimizer.state[model.weight]["exp_avg"]
        for model, optimizer in ((whole, states), (small, small_states))
    ]
    assert moments[1].codes.nbytes + moments[1].scale.nbytes < 0.27 * moments[0].nbytes


def test_a_saved_state_goes_on_bit_by_bit():
    whole, _ = trained(8, 12)
    model, optimizer = trained(8, 6)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    model, _ = trained(8, 12, model=model, state=torch.load(file, weights_only=True), first=6)
    assert torch.equal(model.weight, whole.weight)


@pytest.mark.slow
def test_a_job_learns_with_it_and_its_key_says_so(tmp_path, tiny_backbone):
    runs = [run_job(tmp_path / str(bits), tiny_backbone, f"optimizer.state_bits={bits}") for bits in (8, 32)]
    results = [Result.read(run) for run in runs]
    assert results[0].key != results[1].key
    dev = [result.scores["dev/demo_sts/spearman"].value for result in results]
    assert dev[0] == pytest.approx(dev[1], abs=0.02)
    assert plan_of(typed_job("optimizer.state_bits=8")).optimizer_bytes < 2.1
