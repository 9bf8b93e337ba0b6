"""The folder of an adapter: its own few weights, and by what the base is found again and known. Needs no torch."""

import hashlib
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from juzhen.core.errors import UserError
from juzhen.core.opened import open_input, read_yaml
from juzhen.core.places import CONFIGURATION
from juzhen.core.texts import short
from juzhen.encoders.locate import ADAPTER, WEIGHTS
from juzhen.encoders.settings_file import naming, read_settings

BASE_FILE = "base.json"

HONOURED, NEUTRAL, UNREAD = "honoured", "neutral", "unread"
"""peft computes with it, as we do · changes no number of a loaded adapter · refused unless null, false or empty."""

Rule = str | tuple[Any, ...]

_COMMON: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "auto_mapping",
            "base_model_name_or_path",
            "inference_mode",
            "peft_type",
            "peft_version",
            "revision",
            "task_type",
        ),
        NEUTRAL,
    ),
    **dict.fromkeys(
        ("r", "target_modules", "fan_in_fan_out", "layers_to_transform", "layers_pattern"), HONOURED
    ),
    "bias": ("none",),
    "modules_to_save": NEUTRAL,  # what it names is in the file of weights, and refused there
}

KEYS: dict[str, dict[str, Rule]] = {
    "LORA": _COMMON
    | dict.fromkeys(
        (
            "alpha_pattern",
            "exclude_modules",
            "lora_alpha",
            "lora_bias",
            "lora_dropout",
            "rank_pattern",
            "use_dora",
            "use_rslora",
        ),
        HONOURED,
    )
    | dict.fromkeys(
        (
            "corda_config",
            "ensure_weight_tying",
            "eva_config",
            "loftq_config",
            "lora_ga_config",
            "megatron_core",
            "qalora_group_size",
            "runtime_config",
        ),
        NEUTRAL,
    )
    | dict.fromkeys(
        (
            "alora_invocation_tokens",
            "arrow_config",
            "kasa_config",
            "layer_replication",
            "megatron_config",
            "monteclora_config",
            "target_parameters",
            "trainable_token_indices",
            "use_bdlora",
            "use_qalora",
            "velora_config",
        ),
        UNREAD,
    )
    # The others (pissa, corda, olora, loftq, lora_ga) change the weights of the base, which others share here.
    | {"init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "mica")},
    "VERA": _COMMON
    | dict.fromkeys(("projection_prng_key", "save_projection", "vera_dropout"), HONOURED)
    | dict.fromkeys(("d_initial", "init_weights"), NEUTRAL),
}
"""Kind of peft → each key of its adapter_config.json → what is done with it; a tuple holds the values that are read."""

MERGE = "Merge the adapter into its model (merge_and_unload of peft), and load that"


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


def read_adapter_settings(folder: Path) -> dict[str, Any]:
    """Kind, and the numbers that peft makes it by. A key that would change the numbers, or import code, is refused."""
    path = folder / ADAPTER
    with naming(f"{path}: no settings of an adapter"):
        settings = read_settings(path)
        kind = str(settings["peft_type"])
    if kind not in KEYS:
        raise UserError(f"{path}: {kind} adapters are not read here; known: {', '.join(KEYS)}. {MERGE}")
    read: dict[str, Any] = {"peft_type": kind}
    for key, value in settings.items():
        rule = KEYS[kind].get(key, UNREAD)
        is_empty = value is None or value is False or value in ("", [], {})
        if rule == HONOURED:
            read[key] = value
        elif rule != NEUTRAL and not is_empty and (rule == UNREAD or value not in rule):
            is_new = key not in KEYS[kind]
            problem = (
                "a key of peft that is not known here" if is_new else "adapters with it are not read here"
            )
            otherwise = ", or take the key out where it says only how the adapter was trained" * is_new
            raise UserError(f"{path}: {key}={short(repr(value))}: {problem}. {MERGE}{otherwise}")
    return read


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
    with open_input(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_base(base: Base, folder: Path, *, adapter: Path) -> None:
    """Raises UserError where the weights in `folder` are not those that the adapter was trained beside."""
    if base.digest and (digest := base_digest(folder)) != base.digest:
        raise UserError(
            f"{adapter}: this adapter was trained beside other weights than those of {base.path} "
            f"(digest {base.digest}, now {digest}); put those back, or name where they are as path in its {BASE_FILE}"
        )
