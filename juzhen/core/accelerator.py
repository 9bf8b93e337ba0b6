"""Which accelerator this machine has, told without loading torch: a driver is asked, and a file of torch is read."""

import ctypes
import importlib.util
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.places import CONFIGURATION

HARDWARE = CONFIGURATION / "hardware"
DRIVERS = {"Linux": "libcuda.so.1", "Windows": "nvcuda.dll"}
"""Name of NVIDIA's driver library, by system."""

FIRST_MAC_WITH_METAL = (12, 3)
"""The macOS from which on torch computes on Apple's GPUs."""


def cuda_devices() -> int:
    """CUDA devices that a process here may use, as NVIDIA's driver says; CUDA_VISIBLE_DEVICES counts."""
    name = DRIVERS.get(platform.system())
    if name is None:
        return 0
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return 0
    count = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def torch_has(platform_name: str) -> bool:
    """Whether the installed torch was built for "cuda" or "hip"; its own account is read, and nothing of it is run."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        version = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(rf"^{platform_name}\b[^=]*=\s*['\"]", version, flags=re.MULTILINE) is not None


def has_metal() -> bool:
    """Whether this is a Mac whose GPU torch can compute on."""
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return False
    version = tuple(int(part) for part in platform.mac_ver()[0].split(".")[:2] if part.isdigit())
    return version >= FIRST_MAC_WITH_METAL


def require_accelerator(hardware: Any) -> None:
    """Raises UserError where this machine cannot have what is asked for, as far as drivers and files tell.

    What passes may still be refused by `juzhen.evaluation.devices`, which asks torch.
    """
    present = ", ".join(["cpu", *(["cuda"] if cuda_devices() else []), *(["mps"] if has_metal() else [])])
    setting = f"accelerator={hardware.accelerator}"
    if hardware.accelerator == "cuda" and not torch_has("hip"):
        if not torch_has("cuda"):
            raise UserError(
                f"{setting}: the installed torch was built without CUDA; choose accelerator=cpu, or install one with it"
            )
        if not cuda_devices():
            raise UserError(
                f"{setting}: NVIDIA's driver is not there, or shows no device. There is: {present}; choose "
                "accelerator=cpu"
            )
    if hardware.accelerator == "mps" and platform.system() != "Darwin":
        raise UserError(
            f"{setting}: Metal is Apple's, and this is {platform.system()}. There is: {present}; choose accelerator=cpu"
        )
    if hardware.accelerator != "cuda" and hardware.precision == "16-mixed":
        # Lightning would quietly take bfloat16 instead on a CPU.
        raise UserError(
            f"precision=16-mixed needs CUDA, and the accelerator is {hardware.accelerator}; "
            f"choose bf16-mixed or 32-true"
        )


@cache
def found_hardware() -> tuple[str, str]:
    """The option of conf/hardware that suits this machine, and why, in words. Asked once per process."""
    devices = cuda_devices()
    if devices and torch_has("cuda"):
        return "cuda", f"NVIDIA's driver has {devices} device{'s' if devices > 1 else ''}, one is used"
    if has_metal():
        return "mps_m4", "a Mac with Metal"
    if devices:
        return "cpu", "there is a CUDA device, but this build of torch has no CUDA"
    return "cpu", "no CUDA device and no Metal"
