"""The sets that something is mined from: those of conf/dataset, as they lie below a folder."""

from pathlib import Path

from conf.job import DatasetConfig, Source
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.data.configured import configured_set
from juzhen.data.source import load_examples


def read_set(folder: Path, name: str, split: str, *, data_dir: Path) -> tuple[DatasetConfig, Examples]:
    """Configuration and rows of a split. Raises UserError for an unknown set, and where there is no file of it.

    folder  that of the configured sets, one file each
    """
    config = configured_set(name, folder=folder)
    found = None
    if config.source == Source.BUILTIN or data_dir.is_dir():
        found = load_examples(config, split, source=Source.LOCAL, data_dir=data_dir, on_bad_row="error")
    if found is None:
        raise UserError(
            f"{name}/{split}: no file of it below {data_dir}; type --data-dir <folder that holds the data sets>"
        )
    return config, found
