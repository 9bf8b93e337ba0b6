"""Hardware that is not there is named before anything is read."""

import pytest
import torch
from jobs import compose_job

import train
from juzhen.core.errors import UserError
from launch.job import read_job


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["hardware=cuda"], r"accelerator=cuda: .* accelerator=cpu"),
        (["hardware=mps_m4"], r"accelerator=mps: .* accelerator=cpu"),
        (["hardware.precision=16-mixed"], "precision=16-mixed needs CUDA.*bf16-mixed"),
    ],
)
@pytest.mark.sampled(2)
def test_what_the_machine_lacks_is_said(tmp_path, monkeypatch, overrides, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    config = compose_job("benchmark=none", f"output_dir={tmp_path}", *overrides)
    with pytest.raises(UserError, match=message):
        train.run_job(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("has_bf16", "words"), [(False, ()), (True, ()), (False, ("hardware.precision=16-mixed",))]
)
@pytest.mark.sampled(2)
def test_a_gpu_without_bfloat16_is_told_what_to_take(monkeypatch, has_bf16, words):
    from juzhen.evaluation.settings import require_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    # torch says yes to whoever does not rule out that it is imitated.
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: has_bf16 or including_emulation
    )
    hardware = read_job(compose_job("benchmark=none", "hardware=cuda", *words)).hardware
    if has_bf16 or words:
        require_device(hardware)
        return
    with pytest.raises(UserError, match=r"Tesla T4 would only imitate bfloat16. .*precision=16-mixed"):
        require_device(hardware)
