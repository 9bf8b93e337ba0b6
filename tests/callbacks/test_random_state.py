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


def test_the_generator_of_a_mac_goes_on_where_it_was(monkeypatch):
    there = [torch.tensor([1], dtype=torch.uint8)]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: there[-1])
    monkeypatch.setattr(torch.mps, "set_rng_state", there.append)
    state = random_state()
    there.append(torch.tensor([2], dtype=torch.uint8))
    restore_random_state(state)
    assert there[-1].tolist() == [1]


def test_a_gpu_that_is_not_in_use_is_left_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: 1 / 0)
    assert random_state()["cuda"] == []


def test_generators_of_gpus_go_on_where_they_were_as_many_as_there_are(monkeypatch):
    given = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [torch.tensor([7]), torch.tensor([8])])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda states: given.append([*map(int, states)]))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    state = random_state()
    restore_random_state(state)  # without a GPU they are left out
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    restore_random_state(state)
    restore_random_state(state | {"cuda": []})
    assert given == [[7]]
