"""A split of a Hugging Face hub dataset as columns."""

from collections.abc import Mapping, Sequence

import numpy as np

from datamodules.readers import Table
from schema.config import HubConfig
from schema.errors import UserError, foreign_reason


def read_hub(name: str, hub: HubConfig, split: str, *, labels: Mapping[str, int]) -> Table:
    """The hub's split that `hub.splits` gives for ours.

    labels  known gold labels: a hub's class goes by its name where that is among them, else by its number

    Raises UserError when the hub cannot be reached, or has no such dataset or split.
    """
    # Imported here: it costs a second, and whoever reads local files does not need it.
    import datasets

    try:
        rows = datasets.load_dataset(hub.id, name=hub.subset, revision=hub.revision, split=hub.splits[split])
    except (
        Exception
    ) as error:  # the library raises a dozen unrelated types, those of its network layers included
        raise UserError(
            f"{name}/{split}: cannot be read from the hub as {hub.id}, split {hub.splits[split]} "
            f"({foreign_reason(error)}). "
            f"Without network, download the files elsewhere and type source=local data_dir=<folder>"
        ) from error
    wanted = set(hub.columns.values())
    columns = [
        _values(rows, column, labels) if wanted & {column, position} else ()
        for position, column in enumerate(rows.column_names)
    ]
    place = f"{hub.id}/{hub.splits[split]}"
    return Table(
        place, rows.column_names, columns, np.arange(1, len(rows) + 1, dtype=np.int32), has_lines=False
    )


def _values(rows: "datasets.Dataset", column: str, labels: Mapping[str, int]) -> Sequence:
    """One column as a list, class numbers as the words that `labels` knows."""
    values = rows[column][:]
    names = getattr(rows.features[column], "names", None)
    if names is None:
        return values
    words = {number: word if word in labels else str(number) for number, word in enumerate(names)}
    return [words.get(number, number) for number in values]  # -1: no label given
