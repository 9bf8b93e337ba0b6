"""What all tests share: no network, no stray output, shapes checked at run time."""

import gc
import json
import logging
import os
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"
os.environ.pop("WANDB_API_KEY", None)
# Tables are printed as in a pipe, whatever terminal the tests run in.
os.environ.pop("COLUMNS", None)
# Programs that tests start need not compile again what the one before them has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The suite runs in several processes; each must not take every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

sys.dont_write_bytecode = False

# Every Float[Tensor, "batch dim"] of these packages is checked while tests run, and only then.
install_import_hook(["juzhen.losses", "juzhen.encoders.pooling"], "beartype.beartype")

# Looking for cycles among all that torch and pytest have loaded took a fifth of the time of composing a job; looking
# at each 50,000 new objects took a fifteenth of all tests. A process has 250 MiB more of them so.
LOOKS = (2_000_000, 20, 20)
gc.set_threshold(*LOOKS)

# A job waits twenty times for the disk, against a power cut; what a killed process has written is there without.
os.fsync = os.fstat  # a descriptor that is none is refused all the same

# The time of an example says how busy the machine is. More of them: pytest --hypothesis-profile=thorough.
settings.register_profile("suite", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("suite")

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))


def pytest_configure() -> None:
    from compositions import share_compositions

    share_compositions()


def pytest_collection_finish() -> None:
    gc.freeze()  # a million objects of modules need not be looked at again
    if torch := sys.modules.get("torch"):
        for device in (torch.cuda, torch.mtia, torch.xpu):
            if not device.is_available():  # it would note each seed for later, with the stack of calls
                device.manual_seed_all = lambda seed: None
    known = logging.root.manager.loggerDict
    for name in [name for name in known if name.startswith("torch.")]:
        del known[
            name
        ]  # pytest listens to each of 250 three times a test, a thirtieth of the time of all tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is marked `sampled(n)` every n-th case runs by default, and the others are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1


@pytest.fixture(scope="session")
def project_root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What jobs of the tests keep between runs lies here, and not in the project."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["JUZHEN_CACHE"] = str(folder)
    return folder


@pytest.fixture(autouse=True)
def leave_no_trace() -> Iterator[None]:
    """Programs that run inside a test set up logging, some the environment, and how often garbage is looked for."""
    environment, root = dict(os.environ), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    if root.level != level:  # or all loggers forget what they know
        root.setLevel(level)
    gc.set_threshold(*LOOKS)
    environment.pop("PYTEST_CURRENT_TEST", None)
    for name in os.environ.keys() - environment.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update(environment)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; the test is skipped, by name, where there is none."""
    folder = os.environ.get("JUZHEN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets: set JUZHEN_DATA to the folder that holds them")
    return Path(folder)


@pytest.fixture(scope="session")
def e5_small_zh() -> Path:
    """The folder of a multilingual-e5-small; the test is skipped, by name, where there is none."""
    folder = Path(os.environ.get("JUZHEN_MODELS", "")) / "e5_small_zh"
    if not os.environ.get("JUZHEN_MODELS") or not folder.is_dir():
        pytest.skip("a real encoder: set JUZHEN_MODELS to the folder that holds e5_small_zh")
    return folder


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in encoder, tokenizer included, shrunk to one layer of 32: seconds of training teach it something."""
    folder = tmp_path_factory.mktemp("backbone")
    for file in (ROOT / "juzhen" / "builtin" / "encoder").iterdir():
        if file.suffix in (".json", ".txt"):
            shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with random weights, as it is saved; no test changes it."""
    from jobs import tiny_encoder

    from juzhen.encoders import save_encoder

    return save_encoder(tiny_encoder(tiny_backbone), tmp_path_factory.mktemp("some") / "encoder", card={})


@pytest.fixture(scope="session")
def two_runs(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of two losses on one set, which no test changes."""
    from jobs import run_job

    folder = tmp_path_factory.mktemp("runs")
    words = ("dataset=[demo_qmc]", "benchmark=demo")
    return [run_job(folder, tiny_backbone, *words, f"loss={loss}") for loss in ("cosent", "cosine")]


@pytest.fixture(scope="session")
def tokenizer(project_root: Path):
    """The tokenizer of the built-in encoder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(project_root / "juzhen" / "builtin" / "encoder")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """One entry per training step that is really taken: the set it learns from, its loss, its number of rows."""
    from lightning_modules.base import SentenceModule

    taken = []
    step = SentenceModule.training_step

    def counted(self, batch, index):
        taken.append((batch.task, type(self.losses[batch.task]).__name__, len(batch)))
        return step(self, batch, index)

    monkeypatch.setattr(SentenceModule, "training_step", counted)
    return taken


@pytest.fixture
def f(request: pytest.FixtureRequest):
    """All fixtures by their names, for rows of tables of refusals."""
    from refusals import Fixtures

    return Fixtures(request)


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key of W&B, no proxy."""
    for name in ("WANDB_API_KEY", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.fixture
def closed_port() -> Iterator[str]:
    """A local address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def open_port() -> Iterator[str]:
    """A local address that takes connections."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def news(tmp_path):
    """Texts of three classes, each with words of its own; the overrides that train on them."""
    from jobs import NEWS

    for split, count in (("train", 16), ("dev", 2), ("test", 2)):
        lines = ["text\tlabel"]
        for name, words in NEWS.items():
            turned = [words[turn % 6 :] + words[: turn % 6] + words[turn // 6] for turn in range(count)]
            lines += [f"{split[:1]}{text}\t{name}" for text in turned]
        folder = tmp_path / "data" / "tnews"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = "{train: tnews/train.tsv, dev: tnews/dev.tsv, test: tnews/test.tsv}"
    return (
        "dataset=[tnews]",
        "dataset.tnews.source=local",
        "dataset.tnews.rows.train=null",
        f"dataset.tnews.layouts.tsv.files={files}",
        f"data_dir={tmp_path / 'data'}",
    )
