"""The sets of conf/dataset as they are described there, for those who name one that a job was not composed with."""

from pathlib import Path

from conf.job import DatasetConfig
from juzhen.core.errors import UserError, nearest
from juzhen.data.files import DATASETS
from juzhen.data.labels import read_description


def configured_set(name: str, *, folder: Path = DATASETS) -> DatasetConfig:
    """The description of a set. Raises UserError, with the nearest name, where there is none."""
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name not in files:
        raise UserError(f"{name}: no conf/dataset/{name}.yaml; {nearest(name, files)}")
    return read_description(files[name])
