"""The sets that something is mined from: those of conf/dataset, as they lie below a folder."""

from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.data.configured import configured_set
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, Source


def read_set(
    folder: Path, name: str, split: str, *, data_dir: Path, config_dir: Path | None = None
) -> tuple[DatasetConfig, Examples]:
    """Configuration and rows of a split. Raises UserError for an unknown set, and where there is no file of it.

    folder      that of the configured sets, one file each
    config_dir  holds a further folder dataset/, such as `juzhen mine` writes
    """
    config = configured_set(name, folder=folder, config_dir=config_dir)
    found = None
    if config.source in (Source.BUILTIN, Source.LOCAL) or data_dir.is_dir():
        root = data_dir if data_dir.is_dir() else Path()  # a set that was written says itself where it lies
        found = load_examples(config, split, source=Source.LOCAL, data_dir=root, on_bad_row="error")
    if found is None:
        raise UserError(
            f"{name}/{split}: no file of it below {data_dir}; type --data-dir <folder that holds the data sets>"
        )
    return config, found
