"""Frozen base weights of an adapter: their source, size, sharing and merging.

The adapters themselves, and peft, belong to an outer room.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

from torch import Tensor, nn
from transformers import PreTrainedModel

from juzhen.core.lazy_names import offered
from juzhen.encoders.resolve_path import Base, locate_folder

NAME = "default"
"""What peft calls the one adapter of a backbone."""

SOURCE = "_juzhen_base"
"""Attribute of a backbone with the source of its weights: (Base, folder of the transformer)."""

BYTES_IN_4_BITS = 0.5 + 0.127 / 8
"""Of a number, with the constants of its block in 8 bits (Dettmers et al. 2023, section 3)."""

WRITTEN = "_juzhen_written"
"""Attribute with the changes of the frozen weights by which they last were those of their files."""

HOLDER = "_juzhen_shared"
"""Attribute of a backbone whose weights several may have: what keeps them."""


def remember_base(backbone: PreTrainedModel, base: Base, folder: Path) -> None:
    """Record the source of the weights of a backbone, so that an adapter can name it.

    Args:
        backbone: Has the weights of the files, unchanged.
        base: Its source.
        folder: Folder of the transformer.
    """
    vars(backbone)[SOURCE] = base, folder, changes(backbone)


def remember_layers(backbone: PreTrainedModel, whole: PreTrainedModel, layers: int) -> None:
    """Set the source of a backbone with the first layers of another one. New layers have no source.

    Args:
        backbone: The backbone with the first layers.
        whole: The other one. Without a source, nothing is set.
        layers: Layers of `backbone`.
    """
    if SOURCE in vars(whole) and layers < whole.config.num_hidden_layers:
        base, folder, _ = vars(whole)[SOURCE]
        remember_base(backbone, replace(base, layers=layers), folder)


def changes(backbone: nn.Module) -> int:
    """Count the changes in place of all weights.

    Args:
        backbone: A transformer.

    Returns:
        Sum of the version counters of all parameters. It grows with every optimizer step.
    """
    return sum(values._version for values in backbone.parameters())


def has_adapter(backbone: nn.Module | None) -> bool:
    """True if a transformer has an adapter of peft.

    Args:
        backbone: The transformer. None has no adapter.

    Returns:
        False for None and for a transformer without an adapter.
    """
    return "peft_config" in getattr(backbone, "__dict__", {})


def source_folder(backbone: nn.Module) -> Path | None:
    """Folder of the weight files, or None.

    Args:
        backbone: A transformer.

    Returns:
        Folder that the weights were read from. None if the source is not recorded.
    """
    return vars(backbone)[SOURCE][1] if SOURCE in vars(backbone) else None


def base_of(backbone: nn.Module) -> Base:
    """Source of the weights of a transformer.

    Args:
        backbone: A transformer whose source is recorded, such as one with an adapter.

    Returns:
        Path, commit and digest of the weights, as `remember_base` recorded them.
    """
    return cast(Base, vars(backbone)[SOURCE][0])


def parameter_bytes(module: nn.Module, *, precision: str = "float32") -> tuple[float, float]:
    """Bytes of all parameters, and of the trainable ones.

    Args:
        module: The module.
        precision: As in `Base`. nf4 counts the weights of linear layers in 4 bits.

    Returns:
        Two numbers of bytes. The second one is 0 if all weights are frozen.
    """
    of_linear = {f"{name}.weight" for name in linear_layers(module)} if precision == "nf4" else set()
    sizes = {
        name: values.numel() * (BYTES_IN_4_BITS if name in of_linear else values.element_size())
        for name, values in module.named_parameters()
    }
    num_learnt = sum(sizes[name] for name, values in module.named_parameters() if values.requires_grad)
    return sum(sizes.values()), num_learnt


def linear_layers(backbone: nn.Module) -> dict[str, nn.Module]:
    """Linear layers by name. They include Conv1D of GPT-2.

    Args:
        backbone: A transformer. The layers of its adapter are left out.

    Returns:
        Full name → layer.
    """
    return {
        name: module
        for name, module in backbone.named_modules()
        if (isinstance(module, nn.Linear) or type(module).__name__ in ("Conv1D", "Linear4bit"))
        and "lora_" not in name
    }


def is_learnt(name: str) -> bool:
    """True for the name of an adapter parameter.

    Args:
        name: Full name of a parameter.

    Returns:
        False for weights of the backbone.
    """
    return f".{NAME}" in name and "lora_" in name


def base_weights(backbone: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights without the adapter, by their original names.

    Args:
        backbone: A transformer with or without an adapter.

    Yields:
        Original name and detached values of each weight.
    """
    for name, values in backbone.named_parameters():
        if not is_learnt(name):
            yield name.replace(".base_layer.", "."), values.detach()


def frozen_names(module: nn.Module) -> set[str]:
    """Names of the parameters that an adapter leaves frozen.

    Args:
        module: Its backbones with an adapter are searched. Without one, the set is empty.

    Returns:
        Full names below `module`.
    """
    return {
        f"{path}.{name}"
        for path, backbone in module.named_modules()
        if "peft_config" in vars(backbone)
        for name, _ in backbone.named_parameters()
        if not is_learnt(name)
    }


def is_ours_alone(backbone: nn.Module) -> bool:
    """True if sentence-transformers would misread the adapter.

    Args:
        backbone: A transformer. Without an adapter, the answer is False.

    Returns:
        False for an adapter that sentence-transformers reads like juzhen.
    """
    return has_adapter(backbone) and offered("adapters", "is_ours_alone")(backbone)


def adapter_facts(backbone: nn.Module) -> dict[str, str]:
    """Facts of an adapter for a model card, {} without an adapter.

    Args:
        backbone: A transformer.

    Returns:
        Name of a fact → its text.
    """
    return offered("adapters", "facts")(backbone) if has_adapter(backbone) else {}


def merged(encoder: Any) -> Any:
    """Copy of an encoder with its adapter merged into the weights, float32. Without an adapter the encoder itself.

    Args:
        encoder: An encoder of any family. It is not changed.

    Returns:
        An encoder of the same class without an adapter.
    """
    return offered("adapters", "merged")(encoder) if has_adapter(encoder.inner.backbone) else encoder


def shareable_encoder(encoder: Any) -> Any:
    """Encoder to upload: the adapter alone if its base is on the hub, else merged weights.

    Args:
        encoder: An encoder of any family. It is not changed.

    Returns:
        The encoder itself, or a merged copy if its base is a local folder.
    """
    backbone = encoder.inner.backbone
    is_here = has_adapter(backbone) and locate_folder(base_of(backbone).path) is not None
    return merged(encoder) if is_here else encoder


class _Holder:
    """Weights that several encoders share. A copied encoder gets its own."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        self.backbone = backbone

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


_shared: WeakValueDictionary[tuple[Any, ...], _Holder] = WeakValueDictionary()


def share_weights(key: tuple[Any, ...], load: Callable[[], PreTrainedModel]) -> PreTrainedModel:
    """Return a backbone that shares the weights loaded earlier under the same key.

    Each backbone has separate layers around the same tensors, so their adapters do not interfere.

    Args:
        key: All that decides the weights.
        load: Loads the backbone if the weights are not in memory, or no longer on the CPU.

    Returns:
        A new backbone on the CPU whose parameters are tensors of the one in memory.
    """
    holder = _shared.get(key)
    if holder is None or any(values.device.type != "cpu" for values in holder.backbone.parameters()):
        holder = _shared[key] = _Holder(load())
    backbone = around_same_weights(holder.backbone)
    vars(backbone)[HOLDER] = holder
    return backbone


def around_same_weights(module: Any, *shared: Any, own: Tensor | None = None) -> Any:
    """Copy a module, so that settings and layers of the copy can change, around the same parameters and buffers.

    Args:
        module: An encoder or a transformer. It is not changed.
        *shared: Other objects that both have, such as a tokenizer that is only read.
        own: A parameter that is copied, such as a table of tokens that grows, which transformers does in place.

    Returns:
        The copy.
    """
    holders = [vars(part).get(HOLDER) for part in module.modules()]
    same = {id(each): each for each in (*module.parameters(), *module.buffers(), *holders, *shared)}
    same.pop(id(own), None)
    return copy.deepcopy(module, memo=cast(Any, same))


def parameter_counts(parameters: Iterable[nn.Parameter]) -> dict[str, int]:
    """Count the numbers of parameters.

    Args:
        parameters: Each parameter once.

    Returns:
        Numbers that learn (`learnt`), and all of them (`all`).
    """
    sizes = [(values.numel(), values.requires_grad) for values in parameters]
    return {"learnt": sum(size for size, learns in sizes if learns), "all": sum(size for size, _ in sizes)}
