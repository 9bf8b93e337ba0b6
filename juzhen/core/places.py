"""Where the package lies, and what lies beside it in a clone of the project."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of `juzhen`, with its data below builtin/."""

ROOT = PACKAGE.parent
"""The clone, where the suite lies beside the package; of an installed package, the folder that it is installed in."""

BUILTIN = PACKAGE / "builtin"
CONFIGURATION = ROOT / "conf"
DATASETS = CONFIGURATION / "dataset" if (ROOT / "train.py").is_file() else PACKAGE / "data" / "descriptions"
"""What is known of each data set, one yaml each: of the clone, or as it was packed with the package."""
