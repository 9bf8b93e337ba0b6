"""Descriptions of data sets, in the files of conf/dataset."""

from pathlib import Path

from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_yaml
from juzhen.core.places import DATASETS
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig


def described_sets(folder: Path, config_dir: Path | None = None) -> dict[str, Path]:
    """The files that describe sets, by name, in order.

    folder      of the sets that come with juzhen
    config_dir  holds a further folder dataset/; None: there is none

    Raises UserError for a `config_dir` without such files.
    """
    further = [] if config_dir is None else sorted((config_dir / "dataset").glob("*.yaml"))
    if config_dir is not None and not further:
        raise UserError(f"--config-dir {config_dir}: there is no dataset/*.yaml in it")
    return {path.stem: path for path in [*sorted(folder.glob("*.yaml")), *further]}


def configured_set(name: str, *, folder: Path = DATASETS, config_dir: Path | None = None) -> DatasetConfig:
    """The description of a set. Raises UserError, with the nearest name, where there is none."""
    files = described_sets(folder, config_dir)
    if name not in files:
        raise UserError(f"{name}: no conf/dataset/{name}.yaml; {nearest(name, files)}")
    return read_description(files[name])


def read_description(path: Path) -> DatasetConfig:
    """What a file of conf/dataset says. Raises UserError where it is no such file."""
    return validated(DatasetConfig, read_yaml(path), where=str(path))
