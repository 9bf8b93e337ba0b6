"""Where the files of a data set lie, for all who read them and for those who only ask whether they are there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.places import BUILTIN
from juzhen.data.spec import Source

BUILTIN_DATA = BUILTIN / "data"
COMPRESSIONS = (".zst", ".gz")


def on_disk(path: Path) -> Path | None:
    """The file, compressed as it is named or otherwise; None when it is not there.

    Raises UserError when only other forms are there, and more than one.
    """
    if path.exists():
        return path
    present = present_forms(path)
    if len(present) > 1:
        raise UserError(
            f"{path}: not there, but {' and '.join(form.name for form in present)} are; keep only one"
        )
    return present[0] if present else None


def present_forms(path: Path) -> list[Path]:
    """The files that are there under that name, packed or not."""
    plain = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    forms = [plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSIONS)]
    return [form for form in forms if form.exists()]


def has_split(described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path) -> bool:
    """Whether a split can be read now: all of its files are there, or the hub has it.

    described  a DatasetConfig as plain containers
    source     the job's; the set's own goes before it

    Opens no file. Raises UserError where it is not clear which file is meant.
    """
    if (described.get("source") or source) == Source.HUB:
        return split in ((described.get("hub") or {}).get("splits") or {})
    paths = _found(described, split, source=source, data_dir=data_dir)
    return bool(paths) and all(paths)


def files_of(
    described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path
) -> list[Path] | None:
    """The files that a split is read from; None where one of them is missing, or it is read from the hub.

    Arguments and errors: as `has_split`. A dev split that is held out of the lines of train is read from that file.
    """
    if (described.get("source") or source) == Source.HUB:
        return None
    paths = _found(described, split, source=source, data_dir=data_dir)
    if not paths and split == "dev":
        paths = _found(described, "train", source=source, data_dir=data_dir)
    present = [path for path in paths if path is not None]
    return present if paths and len(present) == len(paths) else None


def _found(
    described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path
) -> list[Path | None]:
    """Where each file of a split lies, None for one that is missing; empty where the layout names none."""
    is_builtin = (described.get("source") or source) == Source.BUILTIN
    folder = BUILTIN_DATA if is_builtin else Path(data_dir).expanduser()
    layout = described["layouts"].get(described["layout"]) or {}
    files = layout.get("files") or {}
    named = files.get(split) or []
    named = [named] if isinstance(named, str) else named
    beside = [files[part] for part in ("queries", "corpus") if part in files] if named else []
    return [on_disk(folder / path) for path in (*named, *beside)]
