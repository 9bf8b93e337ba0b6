"""Adds peft adapters to a backbone in place, and merges them on demand.

LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685), DoRA (Liu et al. 2024, https://arxiv.org/abs/2402.09353). The
backbone keeps its class, and its linear layers are replaced. `PeftAdapterMixin` of transformers is not used: it draws
without a seed, only logs tensors that do not fit, may read pickled weights, and does not merge.
"""

import copy
import re
import warnings
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from juzhen.core.errors import UserError, nearest, require_packages
from juzhen.encoders.backbone_config import AdapterConfig
from juzhen.encoders.base_weights import (
    HOLDER,
    NAME,
    SOURCE,
    WRITTEN,
    base_of,
    changes,
    has_adapter,
    is_learnt,
    linear_layers,
    remember_base,
)
from juzhen.encoders.folder_settings import naming
from juzhen.encoders.forward import use_cheap_dropout
from juzhen.encoders.resolve_path import base_digest

ATTENTION = re.compile(r"(?:^|[._])(?:\w*attention\w*|\w*attn\w*)\.", re.IGNORECASE)
"""In the name of a linear layer that belongs to attention."""


def require_peft() -> None:
    require_packages("an adapter", "peft", extra="peft")


def is_ours_alone(backbone: nn.Module) -> bool:
    """True if sentence-transformers would misread the adapter.

    It supports neither the first layers of a base, nor another attention, nor fewer bits. transformers drops DoRA's
    magnitudes with a warning (5.20).
    """
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    is_whole = base.layers is None and base.attention is None and base.precision == "float32"
    return config.use_dora or not is_whole


def add_adapter(backbone: PreTrainedModel, config: AdapterConfig, *, seed: int) -> None:
    """Add a new adapter to `backbone`, in place, and freeze the weights. It has no effect before training.

    Args:
        backbone: The base.
        config: The adapter.
        seed: Seed of the random matrices.

    Raises:
        UserError: peft is missing, the weights have no saved source, or the configuration does not fit.
    """
    require_peft()
    if has_adapter(backbone):
        raise UserError(
            "adapter: this encoder has one already, which continues to learn. Leave adapter out, or merge it "
            "first (juzhen export … --format sentence-transformers)."
        )
    if SOURCE not in vars(backbone):
        raise UserError(
            "adapter: its base weights are not saved (random weights or new layers), so it could not "
            "be loaded again. Save the encoder, and start from its folder."
        )
    base, folder, as_read = vars(backbone)[SOURCE]
    if changes(backbone) != as_read:
        raise UserError(
            "adapter: the weights were trained after they were loaded. Save the encoder, and load it again."
        )
    settings = _settings(backbone, config)
    digest = base_digest(folder)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)
    base = replace(base, digest=digest, precision=config.base)
    remember_base(backbone, base, folder)


def add_merged_adapter(backbone: PreTrainedModel, config: AdapterConfig, *, seed: int = 0) -> None:
    """Add an adapter that is saved merged, or never, so the weights need no saved source.

    Raises UserError if peft is missing or the configuration does not fit.
    """
    require_peft()
    settings = _settings(backbone, config)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)


def hold(backbone: PreTrainedModel, precision: str) -> None:
    """Convert frozen weights to fewer bytes. 4-bit weights are loaded as such by `from_weights`."""
    if precision == "bfloat16":
        backbone.bfloat16()


def _settings(backbone: PreTrainedModel, config: AdapterConfig) -> dict[str, Any]:
    """Arguments of peft's LoraConfig. Raises UserError if the configuration does not fit."""
    layers = linear_layers(backbone)
    targets = sorted(set(config.targets or attention_layers(backbone)))
    for target in targets:
        if not any(_ends(name, target) for name in layers):
            ends = sorted({_below_layer(name) for name in layers})
            raise UserError(
                f"targets=[{target}]: no linear layer of {backbone.config.model_type} has this name. "
                f"{nearest(target, ends)}. Use null for the layers of attention."
            )
    alpha = 2 * config.rank if config.alpha is None else config.alpha
    return {
        "r": config.rank,
        "target_modules": targets,
        "lora_alpha": alpha,
        "lora_dropout": config.dropout,
        "use_dora": config.kind == "dora",
    }


def attention_layers(backbone: nn.Module) -> list[str]:
    """Name endings of the linear layers of attention, or of all linear layers if the names lack attention."""
    names = list(linear_layers(backbone))
    of_attention = [name for name in names if ATTENTION.search(name)]
    return sorted({_below_layer(name) for name in of_attention or names})


def _below_layer(name: str) -> str:
    """Name of a module after the number of its layer.

    >>> _below_layer("encoder.layer.3.attention.self.query")
    'attention.self.query'
    """
    return re.split(r"\.\d+\.", f".{name}")[-1].lstrip(".")


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def inject(backbone: nn.Module, settings: dict[str, Any], *, seed: int, prefix: str = "") -> None:
    """Let peft add an adapter to the layers of a model, in place, according to adapter_config.json.

    Args:
        backbone: The model.
        settings: Content of adapter_config.json.
        seed: Seed of the random matrices.
        prefix: Prefix of the layer names in the original model, such as "bert.". The stored settings then use the names
            of the backbone.
    """
    import peft

    with (
        torch.random.fork_rng(devices=[]),
        naming("adapter: peft cannot put one into this architecture"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of GPT-2's layers, which are the other way round
        torch.default_generator.manual_seed(seed)
        model = _inside(prefix, backbone)
        peft.LoraModel(cast(Any, model), peft.LoraConfig(**settings), adapter_name=NAME)
    if prefix:
        vars(backbone)["peft_config"] = vars(model)["peft_config"]
        _name_layers_alone(backbone, vars(model)["peft_config"][NAME])
    for name, values in backbone.named_parameters():
        values.requires_grad_(is_learnt(name))
        if is_learnt(name) and values.dtype is not torch.float32:
            values.data = values.data.float()
    use_cheap_dropout(backbone)


def _inside(prefix: str, backbone: nn.Module) -> nn.Module:
    """Wrap the backbone so that its layers have their names in the whole model."""
    model = backbone
    for name in reversed(prefix.split(".")[:-1]):
        outer: Any = nn.Module()
        outer.config = backbone.config
        outer.add_module(name, model)
        model = outer
    return model


def _name_layers_alone(backbone: nn.Module, config: Any) -> None:
    """Settings in which no rule is left that reads the names of another model."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = {
        name: cast(Any, module)
        for name, module in backbone.named_modules()
        if isinstance(module, BaseTunerLayer)
    }
    config.target_modules = set(layers)
    config.layers_to_transform = config.layers_pattern = None
    config.exclude_modules = None
    for pattern, key, usual in (
        ("rank_pattern", "r", config.r),
        ("alpha_pattern", "lora_alpha", config.lora_alpha),
    ):
        numbers = {name: getattr(layer, key)[NAME] for name, layer in layers.items()}
        setattr(config, pattern, {name: number for name, number in numbers.items() if number != usual})


def adapter_facts(backbone: nn.Module) -> dict[str, str]:
    """Facts of an adapter for a model card."""
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    kind = "DoRA" if config.use_dora else "LoRA"
    source = f"{base.path}{f' at {base.revision}' if base.revision else ''}, weights {base.digest}"
    return {"adapter": f"{kind} of rank {config.r}", "beside the weights of": source}


@torch.no_grad()
def merged_copy(encoder: Any) -> Any:
    """A copy of an encoder in whose weights the adapter is folded, in float32."""
    full = copy.deepcopy(encoder)
    backbone = full.inner.backbone.float()
    merge_layers(backbone)
    for attribute in ("peft_config", SOURCE, HOLDER, WRITTEN):
        vars(backbone).pop(attribute, None)
    return full.requires_grad_(True)


def merge_layers(model: nn.Module) -> None:
    """Folds the adapter of a model into its weights, in place."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, module in list(model.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, layer.get_base_layer())
