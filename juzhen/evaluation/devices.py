"""Whether this machine has what the hardware group asks for; asked before anything is read."""

import torch

from juzhen.core.errors import UserError
from juzhen.core.machine import present_devices
from juzhen.evaluation.spec import HardwareConfig


def device_name(hardware: HardwareConfig) -> str:
    """What numbers are computed on: `cpu`, `mps`, or the name of the CUDA device."""
    return torch.cuda.get_device_name() if hardware.accelerator == "cuda" else hardware.accelerator


def require_device(hardware: HardwareConfig) -> None:
    """Raises UserError when the accelerator is absent, or cannot do the precision."""
    available = present_devices()
    if not available[hardware.accelerator]:
        present = ", ".join(name for name, is_there in available.items() if is_there)
        raise UserError(
            f"accelerator={hardware.accelerator}: this machine, or this build of torch, has none. "
            f"There is: {present}; choose accelerator=cpu, or install a torch that fits the device."
        )
    bf16_on_cuda = hardware.accelerator == "cuda" and hardware.precision == "bf16-mixed"
    if bf16_on_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(
            f"precision=bf16-mixed: {torch.cuda.get_device_name()} has no bfloat16 and would only imitate it; choose "
            "precision=16-mixed"
        )
