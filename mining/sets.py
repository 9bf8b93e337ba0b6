"""The sets that something is mined from: those of conf/dataset, as they lie below a folder."""

from pathlib import Path

from datamodules.source import load_examples
from schema.config import DatasetConfig, Source
from schema.errors import UserError, nearest
from schema.examples import Examples
from schema.labels import read_description


def read_set(folder: Path, name: str, split: str, *, data_dir: Path) -> tuple[DatasetConfig, Examples]:
    """Configuration and rows of a split. Raises UserError for an unknown set, and where there is no file of it.

    folder  that of the configured sets, one file each
    """
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name not in files:
        raise UserError(f"{name}: no conf/dataset/{name}.yaml; {nearest(name, files)}")
    config = read_description(files[name])
    found = None
    if config.source == Source.BUILTIN or data_dir.is_dir():
        found = load_examples(config, split, source=Source.LOCAL, data_dir=data_dir, on_bad_row="error")
    if found is None:
        raise UserError(
            f"{name}/{split}: no file of it below {data_dir}; type --data-dir <folder that holds the data sets>"
        )
    return config, found
