"""Which accelerator this machine has, told without loading torch: a driver is asked, and a file of torch is read."""

import ctypes
import importlib.util
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

HARDWARE = Path(__file__).resolve().parents[1] / "conf" / "hardware"
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


def torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA; its own account is read, and nothing of it is run."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    try:
        told = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^cuda\b[^=]*=\s*['\"]", told, flags=re.MULTILINE) is not None


def has_metal() -> bool:
    """Whether this is a Mac whose GPU torch can compute on."""
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return False
    version = tuple(int(part) for part in platform.mac_ver()[0].split(".")[:2] if part.isdigit())
    return version >= FIRST_MAC_WITH_METAL


@cache
def found_hardware() -> tuple[str, str]:
    """The option of conf/hardware that suits this machine, and why, in words. Asked once per process."""
    devices = cuda_devices()
    if devices and torch_has_cuda():
        return "cuda", f"NVIDIA's driver has {devices} device{'s' if devices > 1 else ''}, one is used"
    if has_metal():
        return "mps_m4", "a Mac with Metal"
    if devices:
        return "cpu", "there is a CUDA device, but this build of torch has no CUDA"
    return "cpu", "no CUDA device and no Metal"


def this_machine(key: str) -> Any:
    """The value of a key in the file of conf/hardware that suits this machine."""
    return OmegaConf.load(HARDWARE / f"{found_hardware()[0]}.yaml")[key]


def register() -> None:
    """Makes `${this_machine:key}` known to OmegaConf; may be called again."""
    OmegaConf.register_new_resolver("this_machine", this_machine, replace=True)
