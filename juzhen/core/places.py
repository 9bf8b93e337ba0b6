"""Where the package lies, and what lies beside it in a clone of the project."""

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


def is_here(path: Any) -> bool:
    """Whether an encoder lies in a folder, or is built in: a revision is of the hub."""
    text = str(path or "")
    return text.startswith("builtin/") or Path(text).expanduser().is_dir()
