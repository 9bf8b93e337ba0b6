"""Where the package lies, and what lies beside it in a clone of the project."""

import glob
import os
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of `juzhen`, with its data below builtin/."""

ROOT = PACKAGE.parent
"""The clone, where the suite lies beside the package; of an installed package, the folder that it is installed in."""

IS_CLONE = (ROOT / "train.py").is_file()

BUILTIN = PACKAGE / "builtin"
CONFIGURATION = ROOT / "conf"
DATASETS = CONFIGURATION / "dataset" if IS_CLONE else PACKAGE / "data" / "descriptions"
"""What is known of each data set, one yaml each: of the clone, or as it was packed with the package."""

DISTRIBUTION = "juzhen-embeddings"
"""What `pip` calls it; "juzhen" is another project there."""


def newest(path: str) -> str:
    """Complete the path of a built-in encoder that has revisions with the newest one; any other path stays.

    >>> newest("builtin/mini_zh"), newest("builtin/mini_zh@1"), newest("builtin/encoder")
    ('builtin/mini_zh@2', 'builtin/mini_zh@1', 'builtin/encoder')
    """
    where, _, name = os.path.normpath(path).rpartition("/")
    if where != "builtin" or not name or (BUILTIN / name).is_dir():
        return path
    revisions = [
        int(number)
        for folder in BUILTIN.glob(f"{glob.escape(name)}@*")
        if (number := folder.name.rpartition("@")[2]).isdigit()
    ]
    return f"builtin/{name}@{max(revisions)}" if revisions else path


def as_recorded(path: str) -> str:
    """A path as results name it: the plain name of a built-in encoder is its first revision there.

    >>> as_recorded("builtin/mini_zh"), as_recorded("builtin/mini_zh@2"), as_recorded("builtin/encoder")
    ('builtin/mini_zh@1', 'builtin/mini_zh@2', 'builtin/encoder')
    """
    return path if newest(path) == path else f"{os.path.normpath(path)}@1"


def is_here(path: Any) -> bool:
    """Whether an encoder lies in a folder, or is built in: a revision is of the hub."""
    text = str(path or "")
    return text.startswith("builtin/") or Path(text).expanduser().is_dir()
