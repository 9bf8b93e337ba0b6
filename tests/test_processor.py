"""A processor without products of bfloat16 is known by what the system tells, and choosing bf16 there is warned of."""

import pytest
import torch

from juzhen.core import machine
from launch.check import check_command_line
from sweeps.runners import LocalRunner
from train import CONFIGURATION

WITH = "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fpu avx2 avx512_bf16\n\nmodel name\t: Fast One\n"
WITHOUT = "processor\t: 0\nmodel name\t: Old One\nflags\t\t: fpu avx2 avx512f\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd {}\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Lets the system tell something else."""
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(
    ("told", "lacks", "name"),
    [
        (WITH, False, "Fast One"),
        (WITHOUT, True, "Old One"),
        (ARM.format("bf16"), False, None),
        (ARM.format("svebf16"), True, None),  # of vectors only; torch asks for the other
        ("nothing that is known", False, None),
        (None, False, None),
    ],
)
def test_what_the_system_tells(cpuinfo, told, lacks, name):
    if told is not None:
        cpuinfo.write_text(told)
    assert machine.lacks_bf16() is lacks
    assert machine.processor_name() == name


@pytest.mark.parametrize(
    ("told", "arguments", "warns"),
    [
        (WITHOUT, ["hardware=cpu_bf16"], True),
        (WITHOUT, ["-m", "hardware=cpu,cpu_bf16"], True),
        (WITHOUT, ["-m", "hardware.precision=32-true,bf16-mixed"], True),
        (WITHOUT, ["-m", "hardware=cpu_bf16", "training.batch_size=8,16"], True),
        (WITHOUT, ["hardware=cpu"], False),
        (WITHOUT, ["hardware=cuda"], False),
        (WITH, ["hardware=cpu_bf16"], False),
    ],
)
@pytest.mark.sampled(6)
def test_a_command_line_that_chooses_bf16(cpuinfo, capsys, told, arguments, warns):
    cpuinfo.write_text(told)
    check_command_line(arguments, conf_dir=CONFIGURATION)
    said = capsys.readouterr().err
    assert said.count("no instructions for bfloat16") == warns
    assert not warns or "Type hardware=cpu" in said


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Lets the system tell of other control groups, on a machine of eight cores."""
    monkeypatch.setattr(machine, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "sys")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)

    def write(lines, **files):
        (tmp_path / "cgroup").write_text(lines)
        for path, text in files.items():
            file = tmp_path / "sys" / path.replace("__", "/").replace("cpu_", "cpu.")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return write


V1 = "4:memory:/a\n3:cpuacct,cpu:/docker/abc\n"


@pytest.mark.parametrize(
    ("lines", "files", "quota", "cores"),
    [
        ("0::/pod/box\n", {"pod__box__cpu_max": "150000 100000\n"}, 1.5, 1),
        ("0::/pod/box\n", {"pod__cpu_max": "300000 100000\n", "pod__box__cpu_max": "max 100000\n"}, 3.0, 3),
        ("0::/../..\n", {"cpu_max": "50000 100000\n"}, 0.5, 1),
        ("1:cpu:/\n0::/box\n", {"unified__box__cpu_max": "200000 100000\n"}, 2.0, 2),
        (V1, {"cpuacct,cpu__cpu_cfs_quota_us": "100000", "cpuacct,cpu__cpu_cfs_period_us": "100000"}, 1.0, 1),
        (
            V1,
            {"cpu__docker__abc__cpu_cfs_quota_us": "250000", "cpu__docker__abc__cpu_cfs_period_us": "50000"},
            5.0,
            5,
        ),
        (V1, {"cpu__cpu_cfs_quota_us": "-1", "cpu__cpu_cfs_period_us": "100000"}, None, 8),
        ("nonsense", {}, None, 8),
        ("0::/box\n", {"box__cpu_max": "many"}, None, 8),
        ("0::/box\n", {"box__cpu_max": "6400000 100000"}, 64.0, 8),
    ],
)
def test_a_cpu_quota_limits_the_cores(groups, lines, files, quota, cores):
    groups(lines, **files)
    assert machine.cpu_quota() == quota
    assert machine.num_cores() == cores


def test_threads_and_sweeps_keep_to_the_quota_and_say_so(groups, monkeypatch, capsys):
    groups("0::/box\n", box__cpu_max="200000 100000")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    chosen = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    machine._limit_once.cache_clear()
    machine.limit_threads()
    machine.limit_threads()
    assert chosen == [2]
    assert (
        capsys.readouterr().err.count(
            "threads: 2 in the place of 8: the CPU quota of this process's control group is 2"
        )
        == 1
    )
    machine.limit_threads(5)
    assert chosen == [2, 5]
    place = LocalRunner([], jobs=2, threads=None, gpus=None, devices=0)
    assert place.threads == 1
    assert LocalRunner([], jobs=None, threads=None, gpus=None, devices=0).jobs == 1
