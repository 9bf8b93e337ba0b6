"""Training steps on a GPU that is not there: nothing is on the wrong device, and nothing waits for the device."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from expected_losses import EXPECTED
from forks import python
from torch.utils.cpp_extension import include_paths, library_paths

pytestmark = pytest.mark.slow  # a compiler, and a program for each group of jobs

BF16 = "hardware.precision=bf16-mixed"
QMC, NLI = "dataset=[demo_qmc]", "dataset=[demo_nli]"
TAUGHT = ["model=distill", "model.teacher=builtin/mini_zh"]
GUIDED = ["model=guided", "model.teacher=builtin/mini_zh", QMC]
VIEWS = "model.views=[synonym,delete,shuffle]"

SLOW_STEPS = {"clustering", "by_kind"}
"""Losses of conf/loss that are among WAITS, or tried below by several sets at once."""


def _jobs(kind: str) -> list[list[str]]:
    """Every loss whose first kind of sets is `kind`, as the words of a job."""
    words = {"graded": [], "0/1": [QMC], "nli": [NLI], "classes": [], "teacher": TAUGHT, "guide": GUIDED}[
        kind
    ]
    names = [name for name, one in EXPECTED.items() if one.kinds.split()[0] == kind]
    return [
        [f"loss={name}", *words, *(["model=crossencoder"] if name == "ce" else [])]
        for name in names
        if name not in SLOW_STEPS
    ]


CLASSES = _jobs("classes")
"""Of texts with a class; they need a data set of these."""

GROUPS = {
    "scored pairs": _jobs("graded"),
    "labelled pairs": [
        *_jobs("0/1"),
        ["loss=info_nce", QMC, "loss.symmetric=true", "loss.false_negative_margin=0"],
        ["loss=triplet", QMC, "loss.adaptive_margin=1"],
        ["loss=triplet_online", QMC, "loss.mining=semi_hard", "loss.adaptive_margin=1"],
    ],
    "inference pairs": [
        *([f"loss={name}", NLI] for name in ("cosent", "softmax", "cosent_softmax", "bilinear")),
        ["loss=by_kind", "dataset=[demo_sts,demo_nli]"],
    ],
    "classes": CLASSES,
    "a teacher": [*_jobs("teacher"), *_jobs("guide")],
    "pieces": [
        ["loss=cosent", "hardware.micro_batch_tokens=40"],
        ["loss=info_nce", QMC, "hardware.micro_batch_tokens=40"],
    ],
    "models": [
        ["loss=cosent", "model.score=bilinear", "backbone.layer_norm=true"],
        ["model=crossencoder", "loss=bce", QMC],
        ["model=crossencoder", "loss=cosent"],
        ["model=crossencoder", "loss=ce", NLI],
        ["model=crops", "loss=info_nce"],
        ["model=views", "loss=info_nce", VIEWS],
        ["model=cot", "loss=info_nce_pool", "model.untrained_mask=true"],
    ],
}


WAITS = {
    "loss=clustering": "aten._unique2",  # how many classes a batch has
    "model=mlm": "aten.nonzero",  # how many tokens are hidden
    # which templates and lengths there are
    "model=cot_published loss=info_nce_extended model.untrained_mask=true": "aten.unique_dim",
}
"""Jobs whose steps do fetch something from the GPU, and the operator that comes first."""


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
    """A function: what became of each of some jobs, None where all steps were taken."""

    def run(jobs: list[list[str]]) -> dict[str, str | None]:
        steps = project_root / "tests" / "absent_gpu" / "steps.py"
        of_classes = [*CLASSES, ["loss=clustering"]]
        named = json.dumps(
            {" ".join(words): [*words, *(news if words[:1] in of_classes else ())] for words in jobs}
        )
        environment = os.environ | {
            "LD_PRELOAD": str(device),  # torch asks for its devices once, when it is imported
            "PYTHONPATH": os.pathsep.join([str(project_root), str(project_root / "tests")]),
        }
        program = python(steps, tmp_path, tiny_backbone, named, env=environment)
        assert program.returncode == 0, program.stderr[-3000:]
        return json.loads(program.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("precision", [BF16, "hardware.precision=32-true"])
@pytest.mark.parametrize("group", GROUPS)
def test_steps_are_taken(outcomes, group, precision):
    found = outcomes([[*words, precision] for words in GROUPS[group]])
    assert [f"{name}: {why}" for name, why in found.items() if why] == []


def test_it_is_known_which_steps_wait(outcomes):
    found = outcomes([words.split() for words in WAITS])
    assert {name: why.partition(": ")[2].removesuffix(".default") for name, why in found.items()} == WAITS


def test_every_loss_is_among_them(project_root):
    there = {path.stem for path in (project_root / "conf" / "loss").glob("*.yaml")}
    words = [word for group in GROUPS.values() for job in group for word in job]
    words += [word for name in WAITS for word in name.split()]
    assert there <= {word.removeprefix("loss=") for word in words}
