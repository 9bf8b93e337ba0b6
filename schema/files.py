"""Where the files of a data set lie, for all who read them and for those who only ask whether they are there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schema.config import Source
from schema.errors import UserError

BUILTIN_DATA = Path(__file__).resolve().parents[1] / "builtin" / "data"
DATASETS = Path(__file__).resolve().parents[1] / "conf" / "dataset"
COMPRESSIONS = (".zst", ".gz")


def on_disk(path: Path) -> Path | None:
    """The file, compressed as it is named or otherwise; None when it is not there.

    Raises UserError when only other forms are there, and more than one.
    """
    if path.is_file():
        return path
    plain = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    forms = [plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSIONS)]
    there = [form for form in forms if form.is_file()]
    if len(there) > 1:
        raise UserError(
            f"{path}: not there, but {' and '.join(form.name for form in there)} are; keep only one"
        )
    return there[0] if there else None


def has_split(described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path) -> bool:
    """Whether a split can be read now: all of its files are there, or the hub has it.

    described  a DatasetConfig as plain containers
    source     the job's; the set's own goes before it

    Opens no file. Raises UserError where it is not clear which file is meant.
    """
    source = described.get("source") or source
    if source == Source.HUB:
        return split in ((described.get("hub") or {}).get("splits") or {})
    folder = BUILTIN_DATA if source == Source.BUILTIN else Path(data_dir).expanduser()
    layout = described["layouts"].get(described["layout"]) or {}
    named = (layout.get("files") or {}).get(split) or []
    paths = [named] if isinstance(named, str) else list(named)
    return bool(paths) and all(on_disk(folder / path) for path in paths)
