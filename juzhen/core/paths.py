"""Paths of the package, of its data, and of the clone around it."""

import glob
import os
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of the package `juzhen`. Its data is below builtin/."""

ROOT = PACKAGE.parent
"""Folder of the clone with the training CLI. For an installed package, the folder it is installed in."""

IS_CLONE = (ROOT / "train.py").is_file()

BUILTIN = PACKAGE / "builtin"
CONFIGURATION = ROOT / "conf"
DATASETS = CONFIGURATION / "dataset" if IS_CLONE else PACKAGE / "data" / "descriptions"
"""Descriptions of datasets, one YAML file each: of the clone, or of the installed package."""

DISTRIBUTION = "juzhen-embeddings"
"""Name for `pip`. "juzhen" is another project there."""


TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet", ".arrow", ".feather", ".xlsx")
"""Suffixes of tables. All but that of Excel may be followed by one of COMPRESSIONS."""
COMPRESSIONS = (".zst", ".gz")


def suffix_of(path: Path) -> str:
    """Return the suffix of the format, in lower case: the one before .gz or .zst for a packed file.

    Args:
        path: Path of a file, which need not exist.

    Returns:
        Suffix with its dot. "" if there is none.

    >>> suffix_of(Path("faq.v2.CSV.gz")), suffix_of(Path("faq"))
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes and suffixes[-1] in COMPRESSIONS else suffixes[-1:])


def is_table(name: str | Path) -> bool:
    """True if a name is that of a table file, and not of a set: its suffix decides.

    Args:
        name: Name or path as typed. The file need not exist.

    Returns:
        True for the suffixes of tables, also packed.

    >>> is_table("faq.csv"), is_table("lcqmc/dev")
    (True, False)
    """
    return suffix_of(Path(name)) in TABLES


def newest(path: str) -> str:
    """Add the newest revision to the path of a built-in encoder that has revisions. Other paths stay.

    Args:
        path: Path of an encoder, a folder or the name on the hub.

    Returns:
        The path with `@` and a number, or the same path.

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
    """Return a path as results record it: the plain name of a built-in encoder means its first revision there.

    Args:
        path: Path of an encoder.

    Returns:
        The path, with @1 for a built-in encoder that has revisions and is named without one.

    >>> as_recorded("builtin/mini_zh"), as_recorded("builtin/mini_zh@2"), as_recorded("builtin/encoder")
    ('builtin/mini_zh@1', 'builtin/mini_zh@2', 'builtin/encoder')
    """
    return path if newest(path) == path else f"{os.path.normpath(path)}@1"


def is_here(path: Any) -> bool:
    """True if an encoder is a local folder or built in. Only encoders of the hub have a revision.

    Args:
        path: Path or name as typed. None is not an encoder.

    Returns:
        False for a name on the hub. `~` is expanded.
    """
    text = str(path or "")
    return text.startswith("builtin/") or Path(text).expanduser().is_dir()


def files_below(folder: str | Path, name: str) -> list[Path]:
    """Find the files of a name below a folder.

    A link is followed if it is in `folder` itself, or if the file is in its target: people collect links to runs, and a
    link to a whole disk further down is not searched. Each folder counts once, under its own path if that is below
    `folder`, too.

    Args:
        folder: The folder.
        name: Name of the files.

    Returns:
        Sorted paths.
    """
    found, seen, starts = list[Path](), set[str](), [str(folder)]
    for start in starts:  # links come last, and so under the path that is not one
        for place, folders, names in os.walk(start):
            if (real := os.path.realpath(place)) in seen:
                folders.clear()
                continue
            seen.add(real)
            if name in names:
                found.append(Path(place, name))
            links = [path for path in (os.path.join(place, each) for each in folders) if os.path.islink(path)]
            is_top = place == str(folder)
            starts += [link for link in links if is_top or os.path.isfile(os.path.join(link, name))]
    return sorted(found)
