"""In a job of several processes random numbers follow from the place of a batch; alone they are left as they are."""

from types import SimpleNamespace

import torch

from lightning_modules.base import seed_draws


def drawn(*, rank=0, world=2, seed=42, stage=0, index=7, alike=False):
    datamodule = SimpleNamespace(stage=SimpleNamespace(index=stage))
    trainer = SimpleNamespace(world_size=world, global_rank=rank, datamodule=datamodule)
    seed_draws(SimpleNamespace(trainer=trainer, job=SimpleNamespace(seed=seed)), index, alike=alike)
    return torch.rand(4).tolist()


def test_each_process_and_each_place_has_its_own_and_always_the_same():
    places = [{}, {"rank": 1}, {"seed": 43}, {"stage": 1}, {"index": 8}, {"alike": True}]
    found = [drawn(**place) for place in places]
    assert [drawn(**place) for place in places] == found
    assert len({tuple(one) for one in found}) == len(places)


def test_what_a_loss_draws_is_the_same_in_all_processes():
    assert drawn(rank=0, alike=True) == drawn(rank=1, alike=True)


def test_one_process_goes_on_drawing():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        expected = torch.rand(8).tolist()
        torch.manual_seed(1)
        assert drawn(world=1) + drawn(world=1) == expected
