"""A loss of a package that is installed beside juzhen: declared, it is learnt with by its name; else it is refused."""

import pytest
from forks import python

from conf.own_classes import declared_losses, is_own, own_class
from launch.job import check_target
from lightning_modules.loss_factory import declared_loss

TARGET = "losses_of_somebody.Absolute"
SOURCE = """
from typing import Annotated

from pydantic import Field
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput


class Absolute(Loss):
    input_kinds = (Kind.SCORED_PAIR,)
    input_type = "scores"
    is_batchwise = False
    contrast = Contrast.VALUES

    power: Annotated[float, Field(ge=0.5, le=4)] = 1.0

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        loss = ((scores - targets).abs() ** self.power).mean()
        return loss, {"error": loss.detach()}


class Hidden(Absolute):
    pass


class NoLoss:
    pass
"""
YAML = f"_target_: {TARGET}\nname: absolute\npower: 1.5\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "package"
    about = folder / "losses_of_somebody-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "losses_of_somebody.py").write_text(SOURCE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: losses-of-somebody\nVersion: 1.0\n")
    lines = ["[juzhen.losses]", *(f"{name} = losses_of_somebody:{name}" for name in ("Absolute", "NoLoss"))]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder)
    declared_losses.cache_clear()
    yield folder
    monkeypatch.undo()
    declared_losses.cache_clear()


def test_what_a_package_declares_is_a_loss_and_its_numbers_are_checked(package):
    assert is_own(TARGET)
    assert declared_losses() == {TARGET, "losses_of_somebody.NoLoss"}
    assert declared_loss({"_target_": TARGET}).input_type == "scores"
    assert own_class(TARGET)(power=2).power == 2
    check_target({"_target_": TARGET, "name": "absolute", "power": 1.5}, "loss")


REFUSED = {
    "a key": (
        lambda: check_target({"_target_": TARGET, "powr": 1.5}, "loss"),
        r"loss\.powr: .*Did you mean power",
    ),
    "a model": (lambda: check_target({"_target_": TARGET}, "model"), "no class of juzhen"),
    **{
        f"{name}, {way}": (
            lambda name=name, read=read: read(f"losses_of_somebody.{name}"),
            "no class of juzhen",
        )
        for name in ("Hidden", "NoLoss", "Nothing")
        for way, read in {"class": own_class, "loss": lambda name: declared_loss({"_target_": name})}.items()
    },
}


@pytest.mark.slow
def test_a_job_learns_with_it_from_outside_the_clone(package, tmp_path, tiny_backbone, project_root):
    (tmp_path / "own" / "loss").mkdir(parents=True)
    (tmp_path / "own" / "loss" / "absolute.yaml").write_text(YAML)
    words = ["--config-dir", "own", "loss=absolute", "dataset=demo_sts", f"backbone.path={tiny_backbone}"]
    words += ["backbone=local", "backbone.initialize=random", "training.duration=2 steps", "name=own"]
    done = python(
        project_root / "train.py",
        *words,
        "logger.progress=false",
        cwd=tmp_path,
        env={"PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stderr
    assert "trained on demo_sts" in done.stdout
