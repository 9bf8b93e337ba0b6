"""Source sets of conf/dataset, and configurations of derived sets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import yaml

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, command, setting
from juzhen.core.examples import Examples, Kind
from juzhen.core.file_guard import check_overwritable, require_apart
from juzhen.core.paths import DATASETS, is_table
from juzhen.data.readers import files_of
from juzhen.data.rows import own_set
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, LearningConfig, Source, configured_set
from juzhen.data.tables import AS_IT_LOOKS, TableReading, warn_dropped


def read_set(
    name: str,
    split: str,
    *,
    data_dir: Path,
    config_dir: Path | None = None,
    out: Path | None = None,
    on_bad_row: str = "error",
    reading: TableReading = AS_IT_LOOKS,
) -> tuple[DatasetConfig, Examples]:
    """Read the configuration and rows of a split.

    Args:
        name: Name of a set, or path of a table, which is read whole.
        split: Such as "train".
        data_dir: Folder of the sets. A missing one is accepted for a set that knows its place.
        config_dir: Folder with a further folder dataset/, as `juzhen mine` writes it.
        out: Output table, refused if it is the input.
        on_bad_row: error raises UserError at the first faulty row. drop leaves such rows out and warns.
        reading: How to read the table.

    Returns:
        The configuration and the rows.

    Raises:
        UserError: An unknown set, or no file of it.
    """
    if is_table(name):
        if out is not None:
            require_apart(out, Path(name))
        return own_set(Path(name), replace(reading, on_bad_row=on_bad_row), split)
    reading.require_unread(name)
    config = configured_set(name, config_dir=config_dir)
    examples = None
    if config.source in (Source.BUILTIN, Source.LOCAL) or data_dir.is_dir():
        root = data_dir if data_dir.is_dir() else Path()  # a set that was written says itself where it lies
        if out is not None:
            files = files_of(asdict(config), split, source=Source.LOCAL, data_dir=root)
            require_apart(out, *(files or ()))
        examples = load_examples(config, split, source=Source.LOCAL, data_dir=root, on_bad_row=on_bad_row)
    if examples is None:
        raise UserError(
            f"{name}/{split}: no file of it below {data_dir}. Type data_dir=<folder that holds the data sets>"
        )
    warn_dropped(f"{name}/{split}", examples.num_dropped)
    return config, examples


def check_place(out: Path, example: str, *, ending: str, other_endings: Sequence[str] = ()) -> None:
    """Check the name of an output table, and that no file of another program is replaced.

    Args:
        out: Path of the table.
        example, ending: `example`_`ending`.tsv is the suggested name.
        other_endings: Endings of further output files.

    Raises:
        UserError: A name that no data set can have, an existing set, or a file of another program.
    """
    name = out.stem
    if out.suffix != ".tsv" or not (name.isascii() and name.isidentifier()):
        raise UserError(
            f"out={out}: expected a .tsv whose name is letters, digits and _, such as {example}_{ending}.tsv"
        )
    if (DATASETS / f"{name}.yaml").exists():
        raise UserError(f"out={out}: there is a dataset {name} already. Choose {name}_{ending}.tsv")
    check_overwritable(out, _description(out), *map(out.with_suffix, other_endings))


def _description(path: Path) -> Path:
    return path.parent / "conf" / "dataset" / f"{path.stem}.yaml"


def training_command(table: Path, description: Path, loss: str, data_dir: Path) -> str:
    """Return the command that trains on a written table only.

    Args:
        table: The written table. Its name is the name of the set.
        description: Its file `<config dir>/dataset/<set>.yaml`.
        loss: Override of the loss, such as `loss=info_nce`.
        data_dir: Folder of the sets.

    Returns:
        Two lines.
    """
    words = (f"dataset=[{table.stem}]", loss, setting("data_dir", data_dir))
    line = command("python", "train.py", "--config-dir", description.parents[1], *words)
    return f"train on it:\n  {line}"


def write_description(
    path: Path,
    kind: Kind,
    columns: Mapping[str, str],
    *,
    like: DatasetConfig,
    about: str,
    origin: str,
    rows: int,
    score_range: Sequence[float] | None = None,
    symmetric: bool | None = None,
) -> Path:
    """Write the configuration of a table to conf/dataset next to it.

    Args:
        path: The table. Its name without suffix is the name of the set.
        kind: Kind of its rows.
        columns: Field of the example → name of its column.
        like: Configuration of the source set, for language and license.
        about: A sentence about the rows.
        origin: Source of the rows.
        rows: Number of rows.
        score_range: Lowest and highest gold value. None: no gold values.
        symmetric: As in the configuration of a set. None leaves it to the loss.

    Returns:
        Path of the file.
    """
    config = {
        "name": path.stem,
        "kind": str(kind),
        "language": like.language,
        "about": about,
        "license": like.license,
        "origin": origin,
        "source": "local",
        "layout": "tsv",
        "layouts": {
            "tsv": {
                # From anywhere: data_dir stays free for the sets that are evaluated on.
                "files": {"train": str(path.resolve())},
                "columns": dict(columns),
                "header": True,
                "quoted": True,
            }
        },
        "rows": {"train": rows, "dev": None, "test": None},
        "hub": None,
        "labels": None,
        "ignore_labels": None,
        "score_range": score_range,
        "convert_to": None,
        "limit": None,
        "learning": asdict(LearningConfig()),
        "symmetric": symmetric,
    }
    description = _description(path)
    description.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
    write_text(description, f"# @package dataset.{path.stem}\n{text}")
    return description
