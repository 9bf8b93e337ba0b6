"""Batches of a job whose weights are sharded over processes. That it learns the same: tests/test_ddp.py."""

import numpy as np
import pytest

from juzhen.data.sampler import TokenBudget


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_processes_that_wait_for_one_another_have_as_many_batches(world):
    lengths = np.arange(1, 42)
    shares = [
        TokenBudget(lengths, max_tokens=90, rank=rank, world=world, even=True).batches
        for rank in range(world)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {int(row) for share in shares for batch in share for row in batch} == {*range(41)}
