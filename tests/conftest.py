"""What all tests share: no network, no stray output, shapes checked at run time."""

import json
import os
import shutil
import sys
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
sys.path.append(str(ROOT / "tests"))


@pytest.fixture(scope="session")
def project_root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What jobs of the tests keep between runs lies here, and not in the project."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["JUZHEN_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; the test is skipped, by name, where there is none."""
    folder = os.environ.get("JUZHEN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets: set JUZHEN_DATA to the folder that holds them")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded encoder, tokenizer included, shrunk to one layer of 32: seconds of training teach it something."""
    folder = tmp_path_factory.mktemp("backbone")
    for file in (ROOT / "builtin" / "encoder").iterdir():
        if file.suffix in (".json", ".txt"):
            shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
