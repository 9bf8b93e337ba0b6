"""What a job whose weights are shared out over processes is refused; that it learns the same: tests/test_ddp.py."""

import numpy as np
import pytest
from jobs import typed_job

from juzhen.core.errors import UserError
from juzhen.data.sampler import TokenBudget
from lightning_modules.loss_factory import match_losses


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (("hardware.precision=16-mixed",), "hardware.precision=bf16-mixed"),
        (("callbacks=[default,ema]",), "callbacks.ema=null"),
        (("mining=dynamic", "dataset=[demo_qmc]", "loss=info_nce"), "callbacks.mining=null"),
        (("adapter=qlora",), "adapter=lora"),
    ],
)
def test_what_needs_whole_weights_is_refused(words, way_out):
    with pytest.raises(UserError, match=way_out):
        match_losses(typed_job("hardware=cuda_fsdp", *words))


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_processes_that_wait_for_one_another_have_as_many_batches(world):
    lengths = np.arange(1, 42)
    shares = [
        TokenBudget(lengths, max_tokens=90, rank=rank, world=world, even=True).batches
        for rank in range(world)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {int(row) for share in shares for batch in share for row in batch} == {*range(41)}
