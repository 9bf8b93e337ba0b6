import torch

from callbacks.trainer import forget_peak, peak_mib


def test_memory_is_that_of_the_device_that_trains(monkeypatch):
    """A job on the processor of a machine with a GPU took 0 MiB of the GPU, and that is not what it took."""
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", asked.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: asked.append(device) or 3 * 2**20)
    forget_peak(torch.device("cpu"))
    assert peak_mib(torch.device("cpu")) > 10
    assert asked == []
    gpu = torch.device("cuda", 1)
    forget_peak(gpu)
    assert peak_mib(gpu) == 3
    assert asked == [gpu, gpu]
