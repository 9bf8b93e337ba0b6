"""Hardware that is not there is named before anything is read."""

import pytest
import torch
from jobs import compose_job

from launch.job import read_job


@pytest.mark.parametrize(("has_bf16", "words"), [(True, ()), (False, ("hardware.precision=16-mixed",))])
def test_a_gpu_without_bfloat16_is_taken_where_none_is_asked_for(monkeypatch, has_bf16, words):
    from juzhen.evaluation.settings import require_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    # torch says yes to whoever does not rule out that it is imitated.
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: has_bf16 or including_emulation
    )
    hardware = read_job(compose_job("benchmark=none", "hardware=cuda", *words)).hardware
    require_device(hardware)
