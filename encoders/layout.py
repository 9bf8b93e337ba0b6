"""What a folder says about itself: pooling, normalisation, maximal length, projections.

Three layouts are understood: plain transformers (says nothing), sentence-transformers (modules.json) and ours
for poolings and templates that sentence-transformers does not have (juzhen.json). An unknown module is an error, never
skipped: the embeddings would be other ones than the author's.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from encoders.pooling import check_pooling
from schema.errors import UserError
from schema.prompts import Prompts

MODULES_FILE = "modules.json"
OWN_FILE = "juzhen.json"
LENGTH_FILE = "sentence_bert_config.json"

POOLING_OF_MODE = {"mean": "mean", "cls": "cls", "max": "max", "weightedmean": "weighted"}
"""sentence-transformers' pooling mode → ours."""

_MODE_OF_SWITCH = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Pooling as sentence-transformers before 5.5 wrote it: one boolean per mode."""


@dataclass
class Layout:
    """Where the transformer lies and what comes after it.

    None means that the folder does not say. `pooling_error` holds why the folder's pooling cannot be
    computed; it matters only when the configuration does not choose another one.
    """

    transformer: Path
    pooling: str | None = None
    pooling_error: str | None = None
    normalise: bool | None = None
    max_length: int | None = None
    projections: list[Path] = field(default_factory=list)
    prompts: Prompts | None = None


def read_layout(folder: Path) -> Layout:
    """What `folder` says. Raises UserError for files that are not JSON and for modules that we lack."""
    if (folder / OWN_FILE).is_file():
        own = read_json(folder / OWN_FILE)
        return Layout(
            transformer=folder,
            pooling=check_pooling(own["pooling"]),
            normalise=own["normalise"],
            max_length=own["max_length"],
            projections=[folder / name for name in own["projections"]],
            prompts=Prompts(**own["prompts"]) if "prompts" in own else None,
        )
    if (folder / MODULES_FILE).is_file():
        return _sentence_transformers(folder)
    return Layout(transformer=folder)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UserError when it is missing or is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: missing, though {MODULES_FILE} beside it asks for it") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from error


def _sentence_transformers(folder: Path) -> Layout:
    layout = Layout(transformer=folder, normalise=False)
    _check_prompt(folder)
    rank = -1
    for module in read_json(folder / MODULES_FILE):
        kind = _kind(module["type"], folder)
        path = folder / module["path"]
        if ORDER[kind] < rank or (ORDER[kind] == rank and kind not in ("Dense", "LayerNorm")):
            raise UserError(f"{folder}/{MODULES_FILE}: {kind} stands in an order that is not supported")
        rank = ORDER[kind]
        match kind:
            case "Transformer":
                layout.transformer = path
                layout.max_length = _max_length(path)
            case "Pooling":
                layout.pooling, layout.pooling_error = _pooling(path)
            case "Dense" | "LayerNorm":
                layout.projections.append(path)
            case "Normalize":
                layout.normalise = True
    return layout


ORDER = {"Transformer": 0, "Pooling": 1, "Dense": 2, "LayerNorm": 2, "Dropout": 3, "Normalize": 4}
"""Modules that we compute, in the only order that we compute them. Dropout is idle in a trained model."""


def _kind(type_name: str, folder: Path) -> str:
    """`Pooling` from sentence_transformers.models.Pooling, whatever the version called its package."""
    package, _, kind = type_name.rpartition(".")
    if kind in ORDER and package.split(".")[0] == "sentence_transformers":
        return kind
    raise UserError(
        f"{folder}/{MODULES_FILE}: module {type_name} is not supported; supported: {', '.join(ORDER)}. "
        "Use another model, or point backbone.path at its transformer alone and choose backbone.pooling"
    )


def _pooling(path: Path) -> tuple[str | None, str | None]:
    """Our name of the pooling, or why there is none."""
    config = read_json(path / "config.json")
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for switch, mode in _MODE_OF_SWITCH.items() if config.get(switch)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if len(modes) == 1 and modes[0] in POOLING_OF_MODE:
        return POOLING_OF_MODE[modes[0]], None
    return None, (
        f"{path}/config.json: pooling {' + '.join(modes)} is not supported; "
        "choose one yourself, for example backbone.pooling=mean"
    )


def _max_length(transformer: Path) -> int | None:
    """max_seq_length of sentence_bert_config.json, or of an older name (sentence_roberta_config.json, …)."""
    for path in sorted(transformer.glob("sentence_*_config.json"), key=lambda path: path.name != LENGTH_FILE):
        config = read_json(path)
        if config.get("do_lower_case"):
            raise UserError(
                f"{path}: do_lower_case is not supported here; set it in tokenizer_config.json instead"
            )
        return config.get("max_seq_length")
    return None


def _check_prompt(folder: Path) -> None:
    path = folder / "config_sentence_transformers.json"
    config = read_json(path) if path.is_file() else {}
    prompt = (config.get("prompts") or {}).get(config.get("default_prompt_name") or "")
    if prompt:
        raise UserError(
            f"{path}: the model wants {prompt!r} before every sentence, which is not supported; "
            "set default_prompt_name to null to use it without"
        )
