"""Training steps on a GPU that is not there: nothing is on the wrong device, and nothing waits for the device."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import decoders
import pytest
import torch
from device_jobs import GROUPS, WAITS, on_their_sets
from forks import python
from torch.utils.cpp_extension import include_paths, library_paths

from benchmarks.work import random_bert

pytestmark = pytest.mark.slow  # a compiler, and a program for each group of jobs

BF16 = "hardware.precision=bf16-mixed"


@pytest.fixture(scope="module")
def device(tmp_path_factory) -> Path:
    compiler = shutil.which("c++") or shutil.which("g++")
    if torch.version.cuda or compiler is None:
        pytest.skip("a CPU build of torch and a C++ compiler")
    library = tmp_path_factory.mktemp("device") / "device.so"
    folders = [
        *(f"-I{one}" for one in include_paths()),
        *(word for one in library_paths() for word in (f"-L{one}", f"-Wl,-rpath,{one}")),
    ]
    source = Path(__file__).with_name("absent_gpu") / "device.cpp"
    words = [compiler, "-std=c++20", "-O0", "-shared", "-fPIC", *folders, str(source), "-o", str(library)]
    made = subprocess.run([*words, "-lc10", "-ltorch_cpu"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    return library


@pytest.fixture
def outcomes(device, tmp_path, project_root, tiny_backbone, news):
    """A function: of each of some jobs the calls of its last step, or what went wrong."""

    def run(jobs: list[list[str]], backbone: Path = tiny_backbone) -> dict[str, str | int]:
        steps = project_root / "tests" / "absent_gpu" / "steps.py"
        named = json.dumps({" ".join(words): on_their_sets(words, news, tmp_path) for words in jobs})
        environment = os.environ | {
            "LD_PRELOAD": str(device),  # torch asks for its devices once, when it is imported
            "PYTHONPATH": os.pathsep.join([str(project_root), str(project_root / "tests")]),
        }
        program = python(steps, tmp_path, backbone, named, env=environment)
        assert program.returncode == 0, program.stderr[-3000:]
        return json.loads(program.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("precision", [BF16, "hardware.precision=32-true"])
@pytest.mark.parametrize("group", GROUPS)
def test_steps_are_taken(outcomes, group, precision):
    found = outcomes([[*words, precision] for words in GROUPS[group]])
    assert [f"{name}: {why}" for name, why in found.items() if isinstance(why, str)] == []


@pytest.mark.parametrize("precision", [BF16, "hardware.precision=32-true"])
@pytest.mark.parametrize("family", ["qwen3", "qwen2", "gemma3_text", "modernbert"])
def test_steps_of_decoders_and_windows_are_taken(outcomes, family, precision, tmp_path):
    folder = decoders.write(family, tmp_path / family)
    jobs = [["loss=info_nce", "dataset=[demo_qmc]", "backbone.pooling=last", precision]]
    if family in decoders.DECODERS:
        jobs.append(["loss=cosent", "backbone.attention=bidirectional", precision])
    found = outcomes(jobs, folder)
    assert [f"{name}: {why}" for name, why in found.items() if isinstance(why, str)] == []


def test_it_is_known_which_steps_wait(outcomes):
    found = outcomes([words.split() for words in WAITS])
    assert {
        name: str(why).partition(": ")[2].removesuffix(".default") for name, why in found.items()
    } == WAITS


MOST_CALLS = 2400
"""Of aten operators in a step of 12 layers; 2,377 were counted, and 4,901 in sentence-transformers on a processor."""


def test_few_calls_are_made_whatever_the_batch(outcomes, tmp_path):
    with random_bert("thin") as folder:
        jobs = [
            ["loss=cosent", f"training.batch_size={rows}", "debug_rows=null", BF16] for rows in (8, 64, 512)
        ]
        found = outcomes(jobs, folder)
    assert {type(calls) for calls in found.values()} == {int}, found
    assert len(set(found.values())) == 1, found
    assert max(found.values()) <= MOST_CALLS


def test_every_loss_is_among_them(project_root):
    there = {path.stem for path in (project_root / "conf" / "loss").glob("*.yaml")}
    words = [word for group in GROUPS.values() for job in group for word in job]
    words += [word for name in WAITS for word in name.split()]
    assert there <= {word.removeprefix("loss=") for word in words}
