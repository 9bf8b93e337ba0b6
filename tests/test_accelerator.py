"""hardware=auto: what is found on a machine, what a job makes of it, and that it is said before torch is loaded."""

import ctypes
import importlib.util
import platform
from dataclasses import fields
from types import SimpleNamespace

import pytest
from forks import python
from jobs import compose_job
from omegaconf import OmegaConf

from juzhen.core import machine
from juzhen.core.machine import (
    HARDWARE,
    cuda_devices,
    found_hardware,
    has_metal,
    require_accelerator,
    torch_has,
)
from juzhen.evaluation.settings import HardwareConfig
from launch.check import check_command_line
from launch.job import read_job, run_key
from train import CONFIGURATION


class Driver:
    """NVIDIA's driver library with so many devices; `status` is what it answers to being started."""

    def __init__(self, devices, status=0):
        self.devices, self.status = devices, status

    def cuInit(self, flags):  # noqa: N802
        return self.status

    def cuDeviceGetCount(self, count):  # noqa: N802
        count._obj.value = self.devices
        return 0


@pytest.fixture
def another_machine(monkeypatch, tmp_path):
    """A function that makes this another machine: devices (None: no driver), what torch was built for, a Mac."""

    def make(devices=None, *, status=0, built_for="None", mac=None):
        def library(name):
            if devices is None:
                raise OSError(name)
            return Driver(devices, status)

        (tmp_path / "version.py").write_text(
            f"__version__ = '2.13.0'\ncuda: Optional[str] = {built_for}\nhip = None\n"
        )
        found = importlib.util.spec_from_file_location("torch", tmp_path / "__init__.py")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
        monkeypatch.setattr(ctypes, "CDLL", library)
        monkeypatch.setattr(platform, "system", lambda: "Darwin" if mac else "Linux")
        monkeypatch.setattr(platform, "machine", lambda: "arm64" if mac else "x86_64")
        monkeypatch.setattr(platform, "mac_ver", lambda: (mac or "", ("", "", ""), ""))
        found_hardware.cache_clear()

    yield make
    found_hardware.cache_clear()


@pytest.mark.parametrize(
    ("there", "expected", "reason"),
    [
        ({"devices": 1, "built_for": "'13.0'"}, "cuda", "1 device, one is used"),
        ({"devices": 8, "built_for": "'13.0'"}, "cuda", "8 devices, one is used"),
        ({"devices": 1}, "cpu", "this build of torch has no CUDA"),
        ({"devices": 0, "built_for": "'13.0'"}, "cpu", "no CUDA device"),
        ({"devices": 1, "status": 100, "built_for": "'13.0'"}, "cpu", "no CUDA device"),
        ({"built_for": "'13.0'"}, "cpu", "no CUDA device and no Metal"),
        ({"mac": "15.2"}, "mps_m4", "a Mac with Metal"),
        ({"mac": "12.2.1"}, "cpu", "no CUDA device and no Metal"),
    ],
)
def test_what_is_found(another_machine, there, expected, reason):
    another_machine(**there)
    assert (found_hardware()[0], reason in found_hardware()[1]) == (expected, True)


def test_this_very_machine_is_told_apart_as_torch_does():
    import torch

    found_hardware.cache_clear()
    assert torch_has("cuda") == (torch.version.cuda is not None)
    assert (cuda_devices() > 0 and torch_has("cuda")) == torch.cuda.is_available()
    assert has_metal() == torch.backends.mps.is_available()


@pytest.mark.parametrize(
    ("there", "same"),
    [({"devices": 2, "built_for": "'13.0'"}, "cuda"), ({"mac": "15.2"}, "mps_m4"), ({}, "cpu")],
)
@pytest.mark.sampled(3)
def test_a_job_is_the_one_that_names_the_hardware(another_machine, there, same):
    """Its precision and its tokens too, and so its key."""
    another_machine(**there)
    auto, named = (compose_job("benchmark=none", f"hardware={one}") for one in ("auto", same))
    assert read_job(auto).hardware == read_job(named).hardware
    keys = [run_key(OmegaConf.to_container(one, resolve=True)) for one in (auto, named)]
    assert keys[0] == keys[1]
    assert auto.run_dir == named.run_dir


def test_a_number_that_is_typed_stands(another_machine):
    another_machine(1, built_for="'13.0'")
    hardware = read_job(compose_job("benchmark=none", "hardware=auto", "hardware.precision=32-true")).hardware
    assert (hardware.accelerator, hardware.precision) == ("cuda", "32-true")


def test_the_file_has_every_key_and_so_has_each_that_it_reads():
    keys = {field.name for field in fields(HardwareConfig)}
    for name in ("auto", "cuda", "mps_m4", "cpu"):
        assert set(OmegaConf.load(HARDWARE / f"{name}.yaml")) == keys, name


@pytest.mark.slow
def test_it_is_said_once_for_all_runs_of_a_sweep(another_machine, capsys):
    another_machine()
    check_command_line(["-m", "hardware=auto", "seed=1,2", "benchmark=none"], conf_dir=CONFIGURATION)
    line = "hardware=auto is hardware=cpu here: no CUDA device and no Metal\n"
    assert capsys.readouterr().err == line
    check_command_line(["hardware=cpu", "benchmark=none"], conf_dir=CONFIGURATION)
    assert capsys.readouterr().err == ""


def test_torch_is_not_loaded_for_it():
    code = (
        "import sys; from juzhen.core import machine as a; a.found_hardware(); print('torch' in sys.modules)"
    )
    told = python("-c", code, check=True)
    assert told.stdout.strip() == "False"


def test_the_driver_is_asked_by_its_name(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Plan 9")
    assert machine.cuda_devices() == 0


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"devices": 1, "built_for": "'12.6'"}, {"accelerator": "cuda", "precision": "16-mixed"}),
        ({"mac": "15.1"}, {"accelerator": "mps"}),
        ({}, {}),
    ],
)
def test_hardware_that_is_there_is_taken(another_machine, there, words):
    another_machine(**there)
    require_accelerator(
        SimpleNamespace(**{"accelerator": "cpu", "devices": 1, "precision": "32-true"} | words)
    )


def test_a_torch_for_another_maker_of_gpus_is_left_to_torch(another_machine, tmp_path):
    another_machine(devices=None)
    (tmp_path / "version.py").write_text("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n")
    require_accelerator(SimpleNamespace(accelerator="cuda", devices=1, precision="32-true"))
