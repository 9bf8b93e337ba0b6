"""Saves and loads an adapter in peft's layout, with a record of its base weights."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from juzhen.adapters.injection import hold, inject, merge_layers, require_peft
from juzhen.adapters.settings import MERGE, read_adapter_settings
from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.encoders.base_weights import NAME, SOURCE, WRITTEN, base_weights, is_learnt, remember_base
from juzhen.encoders.folder_settings import naming, read_tensors
from juzhen.encoders.resolve_path import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    BASE_FILE,
    Base,
    locate_folder,
    weight_files,
)

PREFIX = "base_model.model."
"""What peft puts before the names of weights in files."""


def save_adapter(backbone: PreTrainedModel, folder: Path) -> None:
    """Write the adapter in peft's layout, and the record of its base. Raises UserError if the base has changed."""
    from peft import get_peft_model_state_dict

    source = cast(Any, backbone)
    config, (base, place, _) = source.peft_config[NAME], vars(backbone)[SOURCE]
    _require_unchanged(backbone, place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it takes lora_bias for a matrix that lacks a part
        tensors = get_peft_model_state_dict(backbone, adapter_name=NAME, save_embedding_layers=False)
    tensors = {f"{PREFIX}{name}": values.detach().cpu().contiguous() for name, values in tensors.items()}
    settings = config.to_dict() | {
        "base_model_name_or_path": _their_name(base, place),
        "inference_mode": True,
    }
    save_file(tensors, folder / ADAPTER_WEIGHTS, {"format": "pt"})
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
    write_json(folder / ADAPTER, _as_json(plain), indent=2, in_own_folder=True)
    sizes = getattr(backbone.config, "matryoshka_dimensions", None)
    account = vars(base) | {"nested_dims": list(sizes or ())}
    write_json(folder / BASE_FILE, account, indent=2, in_own_folder=True)


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Drop values without a JSON form, which have their default."""
    plain = (str, int, float, bool, list, dict, type(None))
    return {key: getattr(value, "value", value) for key, value in values.items() if isinstance(value, plain)}


def _their_name(base: Base, source: Path) -> str:
    """Name of the base for other programs: a hub id or a folder."""
    return base.path if locate_folder(base.path) is None else str(source)


def _require_unchanged(backbone: PreTrainedModel, source: Path) -> None:
    """Raise UserError if a frozen weight differs from the files of the base."""
    if _changes_of_base(backbone) == vars(backbone).get(WRITTEN):
        return
    held = dict(base_weights(backbone))
    for path in weight_files(source):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                values = held.get(name, held.get(name.removeprefix(f"{backbone.base_model_prefix}.")))
                if values is None or values.dtype not in (torch.float32, torch.bfloat16):
                    continue
                stored = file.get_tensor(name).to(values.dtype)
                if stored.shape == values.shape and not torch.equal(stored, values.cpu()):
                    raise UserError(
                        f"adapter: the frozen weight {name} differs from {path}. Merge the adapter and "
                        "save the whole encoder."
                    )
    vars(backbone)[WRITTEN] = _changes_of_base(backbone)


def _changes_of_base(backbone: nn.Module) -> int:
    return sum(values._version for _, values in base_weights(backbone))


def load_adapter(
    backbone: PreTrainedModel, folder: Path, base: Base, place: Path, *, has_head: bool = False
) -> None:
    """Add the adapter of a folder to `backbone`, in place. Raises UserError if it does not fit.

    Args:
        backbone: The base.
        folder: Folder of the adapter.
        base: Record of the base.
        place: Folder of the base.
        has_head: Layers after the backbone are used, such as a vocabulary head. Adapters of these layers are then
            refused. Otherwise they are dropped.
    """
    require_peft()
    settings, path = read_adapter_settings(folder), folder / ADAPTER_WEIGHTS
    tensors = _read_tensors(folder)
    hold(backbone, base.precision)
    prefix, behind = _places(backbone, tensors)
    if behind and has_head:
        raise UserError(f"{path}: {behind[0]}: an adapter of the head is not read here. {MERGE}")
    for name in behind:
        tensors.pop(name)
    inject(backbone, settings, seed=0, prefix=prefix)
    tensors = {name.removeprefix(prefix): values for name, values in tensors.items()}
    _drop_weights_of_base(backbone, tensors, shown=path)
    _fill(backbone, tensors, shown=path)
    if base.nested_dims:
        backbone.config.matryoshka_dimensions = list(base.nested_dims)
    remember_base(backbone, base, place)


def adapted_layers(
    stored: Mapping[str, Tensor], folder: Path, is_one: Callable[[str], bool]
) -> dict[str, Tensor]:
    """Linear layers after a backbone with the adapter applied: saved copies, or base weights plus the adapter.

    Args:
        stored: Name in the whole model → weight of the base.
        folder: Folder of the adapter.
        is_one: Predicate for the name of such a layer.
    """
    tensors = {name: values for name, values in _read_tensors(folder).items() if is_one(name)}
    learnt = {name for name in tensors if _is_learnt_in_file(name)}
    stored = {**stored, **{name: values for name, values in tensors.items() if name not in learnt}}
    if not learnt:
        return stored
    model: Any = nn.Module()
    for name in sorted({name.rpartition(".")[0] for name in stored}):
        rows, columns = stored[f"{name}.weight"].shape
        layer = nn.Linear(columns, rows, bias=f"{name}.bias" in stored)
        layer.load_state_dict({key: stored[f"{name}.{key}"] for key, _ in layer.named_parameters()})
        *outer, last = name.split(".")
        parent = model
        for part in outer:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
        parent.add_module(last, layer)
    inject(model, read_adapter_settings(folder), seed=0)
    _fill(model, {name: tensors[name] for name in learnt}, shown=folder / ADAPTER_WEIGHTS)
    merge_layers(model)
    return dict(model.state_dict())


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """What the file of an adapter holds, by the names of the model that it learnt in."""
    path = folder / ADAPTER_WEIGHTS
    if not path.is_file():
        is_pickled = (folder / "adapter_model.bin").is_file()
        pickled = " adapter_model.bin can run code and is not read." if is_pickled else ""
        raise UserError(
            f"{path}: the weights of the adapter are missing.{pickled} Write them with save_pretrained of peft"
        )
    with naming(f"{path}: the adapter does not load"):
        return {name.removeprefix(PREFIX): values for name, values in read_tensors(path).items()}


def _is_learnt_in_file(name: str) -> bool:
    return ".lora_" in name


def _places(backbone: PreTrainedModel, names: Iterable[str]) -> tuple[str, list[str]]:
    """Prefix of the backbone's names in the adapter's original model, and names of layers after the backbone.

    An adapter of a classifier or a language model has names such as `bert.encoder.…` or `model.layers.…`.
    """
    modules = {name for name, _ in backbone.named_modules()} - {""}

    def of(name: str) -> str:
        return re.split(r"\.(?:lora_|base_layer\.)", name)[0] if _is_learnt_in_file(name) else name

    prefixes: Counter[str] = Counter()
    for name in filter(_is_learnt_in_file, names):
        parts = of(name).split(".")
        starts = (number for number in range(len(parts)) if ".".join(parts[number:]) in modules)
        prefixes.update("".join(f"{part}." for part in parts[:start]) for start in [*starts][:1])
    prefix = prefixes.most_common(1)[0][0] if prefixes else ""
    behind = [name for name in names if not name.startswith(prefix)]
    poolers = [name for name in names if name.startswith(f"{prefix}pooler.") and "pooler" not in modules]
    return prefix, behind + poolers


def _drop_weights_of_base(backbone: nn.Module, tensors: dict[str, Tensor], *, shown: Path) -> None:
    """Remove saved base weights. Raises UserError if one differs from the base."""
    held = dict(base_weights(backbone))
    for name in [name for name in tensors if not _is_learnt_in_file(name)]:
        values, of_base = tensors[name], held.get(name.replace(".base_layer.", "."))
        if of_base is None:
            continue  # `_fill` names it
        if values.shape != of_base.shape or not torch.equal(values.to(of_base.dtype), of_base.cpu()):
            raise UserError(
                f"{shown}: modules_to_save: {name} is another weight than that of the base, which is not read here. "
                f"{MERGE}"
            )
        tensors.pop(name)


@torch.no_grad()
def _fill(backbone: nn.Module, tensors: Mapping[str, Tensor], *, shown: Path) -> None:
    """Copy tensors into the adapter. Raises UserError for a missing or extra tensor, or another shape."""
    of_files = {
        _name_in_files(name): values for name, values in backbone.named_parameters() if is_learnt(name)
    }
    wrong = sorted(
        name
        for name in of_files.keys() | tensors.keys()
        if name not in of_files or name not in tensors or of_files[name].shape != tensors[name].shape
    )
    if wrong:
        raise UserError(
            f"{shown}: {wrong[0]} does not fit its adapter_config.json ({len(wrong)} such tensors)"
        )
    for name, values in of_files.items():
        values.copy_(tensors[name])


def _name_in_files(name: str) -> str:
    """Name of a parameter in peft's files, where the magnitude of DoRA has another name."""
    plain = name.replace(f".{NAME}", "")
    return plain.removesuffix(".weight") if "lora_magnitude_vector" in plain else plain
