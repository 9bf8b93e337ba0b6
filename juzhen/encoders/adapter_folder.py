"""An adapter as a folder: written as peft has it, beside the account of its base, and read again."""

from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from juzhen.core.errors import UserError
from juzhen.core.whole import write_json
from juzhen.encoders.adapter_files import BASE_FILE, Base, read_adapter_settings, weight_files
from juzhen.encoders.adapters import (
    NAME,
    SOURCE,
    WRITTEN,
    base_weights,
    hold,
    inject,
    is_learnt,
    remember_base,
    require_peft,
)
from juzhen.encoders.locate import ADAPTER, ADAPTER_WEIGHTS, locate_folder
from juzhen.encoders.settings_file import naming, read_tensors

PREFIX = "base_model.model."
"""What peft puts before the names of weights in files."""

PROJECTIONS = ("vera_A", "vera_B")


def save_adapter(backbone: PreTrainedModel, folder: Path) -> None:
    """Writes the adapter alone, as peft has it, and the account of its base. Raises UserError if that has changed."""
    from peft import get_peft_model_state_dict

    source = cast(Any, backbone)
    config, (base, place, _) = source.peft_config[NAME], vars(backbone)[SOURCE]
    _require_unchanged(backbone, place)
    tensors = get_peft_model_state_dict(backbone, adapter_name=NAME, save_embedding_layers=False)
    tensors = {f"{PREFIX}{name}": values.detach().cpu().contiguous() for name, values in tensors.items()}
    settings = config.to_dict() | {
        "base_model_name_or_path": _their_name(base, place),
        "inference_mode": True,
    }
    if projections := _projections(backbone):
        tensors |= {f"base_model.{name}": values.cpu().contiguous() for name, values in projections.items()}
        settings["save_projection"] = True
    save_file(tensors, folder / ADAPTER_WEIGHTS, {"format": "pt"})
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
    write_json(folder / ADAPTER, _as_json(plain), indent=2, in_own_folder=True)
    sizes = getattr(backbone.config, "matryoshka_dimensions", None)
    account = vars(base) | {"nested_dims": list(sizes or ())}
    write_json(folder / BASE_FILE, account, indent=2, in_own_folder=True)


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Without what JSON has no word for, which is at its default."""
    plain = (str, int, float, bool, list, dict, type(None))
    return {key: getattr(value, "value", value) for key, value in values.items() if isinstance(value, plain)}


def _their_name(base: Base, source: Path) -> str:
    """By what other programs find the base: an id of the hub, or a folder."""
    return base.path if locate_folder(base.path) is None else str(source)


def _projections(backbone: nn.Module) -> dict[str, Tensor]:
    """VeRA's shared random matrices."""
    for module in backbone.modules():
        if getattr(module, "vera_A", None) is not None:
            layer: Any = module
            return {name: getattr(layer, name)[NAME] for name in PROJECTIONS}
    return {}


def _require_unchanged(backbone: PreTrainedModel, source: Path) -> None:
    """Raises UserError where a frozen weight is not what the files of the base hold: the adapter would be another's."""
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
                        f"adapter: {name}, which is frozen beside it, is not what {path} holds; merge the adapter and "
                        "save the whole"
                    )
    vars(backbone)[WRITTEN] = _changes_of_base(backbone)


def _changes_of_base(backbone: nn.Module) -> int:
    return sum(values._version for _, values in base_weights(backbone))


def load_adapter(backbone: PreTrainedModel, folder: Path, base: Base, place: Path) -> None:
    """Puts the adapter of a folder beside the weights of `backbone`, in place. Raises UserError if it does not fit."""
    require_peft()
    settings = read_adapter_settings(folder)
    hold(backbone, base.precision)
    inject(backbone, settings, seed=0)
    with naming(f"{folder / ADAPTER_WEIGHTS}: the adapter does not load"):
        tensors = read_tensors(folder / ADAPTER_WEIGHTS)
    for name, values in _projections(backbone).items():
        values.copy_(tensors.pop(f"base_model.{name}", values))
    _fill(backbone, tensors, shown=folder / ADAPTER_WEIGHTS)
    if base.nested_dims:
        backbone.config.matryoshka_dimensions = list(base.nested_dims)
    remember_base(backbone, base, place)


@torch.no_grad()
def _fill(backbone: nn.Module, tensors: dict[str, Tensor], *, shown: Path) -> None:
    """Copies what a file holds into the adapter. Raises UserError for a tensor too many, too few or of another size."""
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
            f"{shown}: {wrong[0]} does not fit the settings beside it ({len(wrong)} such tensors)"
        )
    for name, values in of_files.items():
        values.copy_(tensors[name])


def _name_in_files(name: str) -> str:
    """DoRA's lengths have a name of their own there."""
    plain = name.replace(f".{NAME}", "")
    return PREFIX + (plain.removesuffix(".weight") if "lora_magnitude_vector" in plain else plain)
