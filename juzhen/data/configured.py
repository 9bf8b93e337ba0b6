"""Descriptions of data sets, in the files of conf/dataset."""

from pathlib import Path

from juzhen.core.aliases import require_set
from juzhen.core.opened import read_yaml
from juzhen.core.places import DATASETS
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig


def described_sets(folder: Path, config_dir: Path | None = None) -> dict[str, Path]:
    """The files that describe sets, by name, in order.

    folder      of the sets that come with juzhen
    config_dir  holds a further folder dataset/; None: there is none
    """
    further = [] if config_dir is None else sorted((config_dir / "dataset").glob("*.yaml"))
    return {path.stem: path for path in [*sorted(folder.glob("*.yaml")), *further]}


def configured_set(name: str, *, folder: Path = DATASETS, config_dir: Path | None = None) -> DatasetConfig:
    """The description of a set. Raises UserError, with the nearest name, where there is none."""
    files = described_sets(folder, config_dir)
    require_set("set", name, files)
    return read_description(files[name])


def read_description(path: Path) -> DatasetConfig:
    """What a file of conf/dataset says. Raises UserError where it is no such file."""
    return validated(DatasetConfig, read_yaml(path), where=str(path))
