"""What all tests share: no network, no stray output, shapes checked at run time."""

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"
os.environ.pop("WANDB_API_KEY", None)
# The suite runs in several processes; each must not take every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from jaxtyping import install_import_hook

# Every Float[Tensor, "batch dim"] of these packages is checked while tests run, and only then.
install_import_hook(["losses", "encoders.pooling"], "beartype.beartype")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def project_root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; the test is skipped, by name, where there is none."""
    folder = os.environ.get("JUZHEN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets: set JUZHEN_DATA to the folder that holds them")
    return Path(folder)
