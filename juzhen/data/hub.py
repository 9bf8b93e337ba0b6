"""A split of a Hugging Face hub dataset as columns."""

import os
from pathlib import Path

import numpy as np

from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.network import hub_problem
from juzhen.data.readers import FileTable
from juzhen.data.spec import HubConfig


def read_hub(name: str, hub: HubConfig, split: str) -> FileTable:
    """The hub's split that `hub.splits` gives for ours.

    Raises UserError when the hub cannot be reached, or has no such dataset or split.
    """
    require_hub(name, hub.id)
    # Imported here: it costs a second, and whoever reads local files does not need it.
    import datasets
    from huggingface_hub import constants

    if hub_problem() is not None:  # there is a copy, and no use in asking
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        rows = datasets.load_dataset(hub.id, name=hub.subset, revision=hub.revision, split=hub.splits[split])
    except Exception as error:  # of a dozen unrelated types, those of network layers included
        raise UserError(
            f"{name}/{split}: cannot be read from the hub as {hub.id}, split {hub.splits[split]} "
            f"({foreign_reason(error)}). With the files in a folder of yours choose source=local and data_dir=<folder>"
        ) from error
    names = set(hub.columns.values())
    columns = [
        rows[column][:] if names & {column, position} else ()
        for position, column in enumerate(rows.column_names)
    ]
    folder = f"{hub.id}/{hub.splits[split]}"
    numbers = np.arange(1, len(rows) + 1, dtype=np.int32)
    classes = {
        column: feature.names for column, feature in rows.features.items() if hasattr(feature, "names")
    }
    return FileTable(folder, rows.column_names, columns, numbers, has_lines=False, classes=classes)


def require_hub(name: str, hub_id: str) -> None:
    """Raises UserError, within seconds, when neither the hub nor a copy on this machine can give a dataset.

    The library asks for half a minute before it gives up. A folder may stand for a hub id.
    """
    problem = hub_problem()
    if problem is None or Path(hub_id).exists() or _is_kept(hub_id):
        return
    raise UserError(
        f"{name}: source=hub, but {problem}, and {hub_id} is not in the local cache. Try again with a network (and "
        "without HF_HUB_OFFLINE), or fetch the files elsewhere and choose source=local and data_dir=<folder>"
    )


def _is_kept(hub_id: str) -> bool:
    """Whether the caches of the hub's libraries have something of that name; they spell it in two ways."""
    home = Path(
        os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    )
    folders = {
        os.environ.get("HF_HUB_CACHE") or home / "hub": f"datasets--{hub_id}",
        os.environ.get("HF_DATASETS_CACHE") or home / "datasets": hub_id,
    }
    return any(
        _letters(entry.name) == _letters(name)
        for cache, name in folders.items()
        if (folder := Path(os.path.expanduser(cache))).is_dir()
        for entry in folder.iterdir()
    )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
