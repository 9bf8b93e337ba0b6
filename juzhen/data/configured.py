"""Descriptions of data sets, with labels as the data files spell them, whatever YAML has made of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Kind
from juzhen.core.opened import read_yaml
from juzhen.core.places import DATASETS
from juzhen.core.typed import typed
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
    plain = read_yaml(path)
    spelt = spelt_labels(plain if isinstance(plain, Mapping) else {}, key=str(path))
    config = typed(DatasetConfig, spelt, shown=f"{path}: describes no data set")
    if config.kind not in {*Kind}:
        raise UserError(f"{path}: kind: {config.kind}: there is no such kind; {nearest(config.kind, Kind)}")
    return config


def spelt_labels(described: Mapping[Any, Any], *, key: str) -> dict[str, Any]:
    """A data set's description with the keys of `labels` and the members of `ignore_labels` as texts.

    In a YAML file `{0: 0, 1: 1}` has numbers for keys, which is what people write, and a data file has texts. Raises
    UserError where YAML has taken words for truth values, and where two keys are one text.

    >>> spelt_labels({"labels": {0: 0, 1: 1}, "ignore_labels": [-1]}, key="dataset.x")
    {'labels': {'0': 0, '1': 1}, 'ignore_labels': ['-1']}
    """
    spelt = dict(described)
    if isinstance(described.get("labels"), Mapping):
        labels = {_text(label, f"{key}.labels"): number for label, number in described["labels"].items()}
        if len(labels) < len(described["labels"]):
            raise UserError(f"{key}.labels: a label is there twice, as a number and as a text; keep one")
        spelt["labels"] = labels
    if isinstance(described.get("ignore_labels"), list):
        spelt["ignore_labels"] = [
            _text(label, f"{key}.ignore_labels") for label in described["ignore_labels"]
        ]
    return spelt


def _text(label: object, key: str) -> str:
    if isinstance(label, bool) or label is None:
        raise UserError(
            f"{key}: YAML reads yes, no, on, off, true, false and null as values of its own; put the label in quotes, "
            'as in {"yes": 1, "no": 0}'
        )
    return str(label)
