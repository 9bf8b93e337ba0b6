"""A processor without products of bfloat16 is known by what the system tells, and choosing bf16 there is warned of."""

import pytest

from juzhen.core import processor
from launch import check_command_line
from tools.bench.options import resolve
from train import CONFIGURATION

WITH = "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fpu avx2 avx512_bf16\n\nmodel name\t: Fast One\n"
WITHOUT = "processor\t: 0\nmodel name\t: Old One\nflags\t\t: fpu avx2 avx512f\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd {}\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Lets the system tell something else."""
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
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
    assert processor.lacks_bf16() is lacks
    assert processor.processor_name() == name


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
@pytest.mark.sampled(3)
def test_a_command_line_that_chooses_bf16(cpuinfo, capsys, told, arguments, warns):
    cpuinfo.write_text(told)
    check_command_line(arguments, conf_dir=CONFIGURATION)
    said = capsys.readouterr().err
    assert said.count("no instructions for bfloat16") == warns
    assert not warns or "type hardware=cpu" in said


def test_benchmarks_leave_bf16_out_unless_asked(cpuinfo):
    cpuinfo.write_text(WITHOUT)
    assert resolve("training", "full", {})["precisions"] == ["fp32"]
    assert resolve("training", "full", {"precisions": ["bf16"]})["precisions"] == ["bf16"]
    cpuinfo.write_text(WITH)
    assert resolve("training", "full", {})["precisions"] == ["fp32", "bf16"]
