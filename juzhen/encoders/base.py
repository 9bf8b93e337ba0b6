"""The weights that an adapter stands beside: by what they are found again and known. Needs no torch."""

import hashlib
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Literal

from juzhen.core.errors import UserError
from juzhen.core.paths import CONFIGURATION
from juzhen.core.safe_open import open_regular_file, read_yaml
from juzhen.core.text import short
from juzhen.encoders.locate import ADAPTER, WEIGHTS
from juzhen.encoders.settings_file import naming, read_settings

BASE_FILE = "base.json"


@dataclass(frozen=True)
class Base:
    """The weights that an adapter stands beside, and how they are read.

    path, revision  as of `BackboneConfig`
    digest          of the files of weights; "": not known
    layers          its first ones; None: all
    dropout         None: as its config.json says
    attention       of a decoder: causal, bidirectional; None: as its config.json says
    precision       that the weights are held in: float32, bfloat16, nf4
    nested_dims     sizes to which embeddings have learnt to be cut
    """

    path: str
    revision: str | None
    digest: str
    layers: int | None = None
    dropout: float | None = None
    attention: str | None = None
    precision: Literal["float32", "bfloat16", "nf4"] = "float32"
    nested_dims: tuple[int, ...] = ()


def is_adapter(folder: Path) -> bool:
    return (folder / ADAPTER).is_file()


def read_base(folder: Path) -> Base:
    """What the folder of an adapter says of its base; `digest` is "" where it is of peft alone, which knows none."""
    path = folder / BASE_FILE
    if not path.is_file():
        return _base_of_peft(folder)
    with naming(f"{path}: no account of a base"):
        settings = read_settings(path)
        settings_of_base = {
            field.name: settings[field.name] for field in fields(Base) if field.name in settings
        }
        return Base(**settings_of_base | {"nested_dims": tuple(settings_of_base.get("nested_dims", ()))})


def _base_of_peft(folder: Path) -> Base:
    path = folder / ADAPTER
    settings = read_settings(path)
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    if not isinstance(name, str) or not name:
        raise UserError(
            f"{path}: base_model_name_or_path={short(repr(name))}: the adapter does not name its base. Write the "
            "folder of the base there, or its id on the hub"
        )
    known = CONFIGURATION / "backbone" / f"{name}.yaml"
    if re.fullmatch(r"\w+", name) and known.is_file() and not Path(name).is_dir():
        backbone = read_yaml(known)
        name, revision = backbone["path"], revision or backbone["revision"]
    return Base(path=name, revision=str(revision) if revision else None, digest="")


def weight_files(folder: Path) -> list[Path]:
    """The files of the transformer's weights in a folder."""
    if (folder / WEIGHTS[0]).is_file():
        return [folder / WEIGHTS[0]]
    names = read_settings(folder / WEIGHTS[1])["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def base_digest(folder: Path) -> str:
    """16 hex digits over the weights of a transformer's folder."""
    parts = [
        _file_digest(path, path.stat().st_mtime_ns, path.stat().st_size) for path in weight_files(folder)
    ]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def _file_digest(path: Path, modified_ns: int, size: int) -> str:
    """Digest of a file; the other two only tell the cache when it is out of date."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_base(base: Base, folder: Path, *, adapter: Path) -> None:
    """Raises UserError where the weights in `folder` are not those that the adapter was trained beside."""
    if base.digest and (digest := base_digest(folder)) != base.digest:
        raise UserError(
            f"{adapter}: this adapter was trained beside other weights than those of {base.path} "
            f"(digest {base.digest}, now {digest}); put those back, or name where they are as path in its {BASE_FILE}"
        )
