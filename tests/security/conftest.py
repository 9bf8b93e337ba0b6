"""One composed job and one run for many questions, and a module that nobody may import."""

import shutil
import signal
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from jobs import compose_job, run_job
from omegaconf import DictConfig, OmegaConf, open_dict


@pytest.fixture(scope="session")
def _composed() -> DictConfig:
    return compose_job("dataset=[demo_sts]")


@pytest.fixture
def job_with(_composed) -> Callable[..., DictConfig]:
    """Gives the job with other values: `a__b` for the key a.b."""

    def change(**settings: object) -> DictConfig:
        job = deepcopy(_composed)
        with open_dict(job):
            for key, value in settings.items():
                OmegaConf.update(job, key.replace("__", "."), value)
        return job

    return change


@pytest.fixture
def trap(tmp_path, monkeypatch) -> Path:
    """A module that can be imported and says so by a file; a class in it that would train."""
    folder = tmp_path / "path"
    folder.mkdir()
    sprung = tmp_path / "sprung"
    text = (
        f"import pathlib\npathlib.Path({str(sprung)!r}).touch()\nfrom juzhen.losses import CoSENT as Trap\n"
    )
    (folder / "a_trap.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return sprung


@pytest.fixture(scope="session")
def lexical_run(tmp_path_factory, tiny_backbone) -> Path:
    words = ("model=lexical", "dataset=[]", "benchmark=demo", "debug_rows=8")
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *words)


@pytest.fixture
def tiny_lexical(lexical_run, tmp_path) -> Path:
    """The folder of a finished run that took no training."""
    return Path(shutil.copytree(lexical_run, tmp_path / "run"))


@pytest.fixture
def at_once():
    """Opening a pipe would wait for ever."""

    def late(*_):
        raise TimeoutError("it waits for a pipe")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
