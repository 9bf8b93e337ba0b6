"""Adapters, by peft: a few matrices that learn beside the frozen weights of a base, saved alone, merged on demand.

LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685), DoRA (Liu et al. 2024, https://arxiv.org/abs/2402.09353). The
backbone stays the class that it was: its linear layers are replaced in place.
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
    """Whether sentence-transformers would load an adapter as another one, or not at all.

    It knows neither the first layers of a base, nor another attention, nor fewer bits. transformers leaves DoRA's
    lengths out, with a warning (5.20).
    """
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    is_whole = base.layers is None and base.attention is None and base.precision == "float32"
    return config.use_dora or not is_whole


def add_adapter(backbone: PreTrainedModel, config: AdapterConfig, *, seed: int) -> None:
    """Puts a new adapter beside the weights of `backbone`, in place, which are frozen then. It changes nothing yet.

    seed  draws what is random of it

    Raises UserError without peft, for weights that could not be found again, and for what does not suit them.
    """
    require_peft()
    if has_adapter(backbone):
        raise UserError(
            "adapter: this encoder has one already, which learns on without another; leave adapter out, or merge it "
            "first (juzhen export … --format sentence-transformers)"
        )
    if SOURCE not in vars(backbone):
        raise UserError(
            "adapter: the weights beside it are saved nowhere (drawn at random, or new layers), so that it could not "
            "be loaded again; save the encoder, and start from its folder"
        )
    base, folder, as_read = vars(backbone)[SOURCE]
    if changes(backbone) != as_read:
        raise UserError(
            "adapter: the weights have learnt since they were loaded; save the encoder, and load it again"
        )
    settings = _settings(backbone, config)
    digest = base_digest(folder)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)
    base = replace(base, digest=digest, precision=config.base)
    remember_base(backbone, base, folder)


def add_merged_adapter(backbone: PreTrainedModel, config: AdapterConfig, *, seed: int = 0) -> None:
    """The same beside weights that need not be found again: the adapter is saved merged into them, or never.

    Raises UserError without peft, and for what does not suit the weights.
    """
    require_peft()
    settings = _settings(backbone, config)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)


def hold(backbone: PreTrainedModel, precision: str) -> None:
    """Weights that are frozen, in fewer bytes. In 4 bits they are read so, by `from_weights`."""
    if precision == "bfloat16":
        backbone.bfloat16()


def _settings(backbone: PreTrainedModel, config: AdapterConfig) -> dict[str, Any]:
    """What peft makes the adapter by, as adapter_config.json has it. Raises UserError where it does not suit."""
    layers = linear_layers(backbone)
    targets = sorted(set(config.targets or attention_layers(backbone)))
    for target in targets:
        if not any(_ends(name, target) for name in layers):
            ends = sorted({_below_layer(name) for name in layers})
            raise UserError(
                f"targets=[{target}]: no linear layer of {backbone.config.model_type} is called so; "
                f"{nearest(target, ends)}; null: those of attention"
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
    """Ends of the names of attention's linear layers; of all in an architecture that does not name attention."""
    names = list(linear_layers(backbone))
    of_attention = [name for name in names if ATTENTION.search(name)]
    return sorted({_below_layer(name) for name in of_attention or names})


def _below_layer(name: str) -> str:
    """The name of a module without the number of its layer and what stands before.

    >>> _below_layer("encoder.layer.3.attention.self.query")
    'attention.self.query'
    """
    return re.split(r"\.\d+\.", f".{name}")[-1].lstrip(".")


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def inject(backbone: nn.Module, settings: dict[str, Any], *, seed: int, prefix: str = "") -> None:
    """Has peft put an adapter beside the layers of a model, in place, as adapter_config.json says.

    prefix  what stands before the names of the layers in the model that the settings are of, such as "bert."; they are
            said by the backbone's own names afterwards
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
    """What has the backbone's layers by the names that they have in a whole model."""
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
    """Of an adapter what a card says."""
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
