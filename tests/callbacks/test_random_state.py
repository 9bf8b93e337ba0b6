import random

import numpy as np
import torch

from callbacks.resume import random_state, restore_random_state


def draw():
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.standard_normal(3).tolist(),
        torch.rand(3).tolist(),
        torch.nn.functional.dropout(torch.ones(64)).tolist(),
    )


def test_every_generator_goes_on_where_it_was(tmp_path):
    random.gauss(0, 1)  # keeps a second number back, in Python as in NumPy
    np.random.standard_normal(1)
    torch.save(random_state(), tmp_path / "state.pt")
    expected = draw()
    assert draw() != expected
    # As a checkpoint brings it back: plain values and tensors only.
    restore_random_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert draw() == expected
