"""Adapters, by peft: a few matrices that learn beside the frozen weights of a base, saved alone, merged on demand.

LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685), DoRA (Liu et al. 2024, https://arxiv.org/abs/2402.09353), VeRA
(Kopiczko et al. 2023, https://arxiv.org/abs/2310.11454). The backbone stays the class that it was: its linear layers
are replaced in place.
"""

import copy
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from juzhen.core.commands import require_packages
from juzhen.core.errors import UserError, nearest
from juzhen.encoders.adapter_files import Base, base_digest
from juzhen.encoders.locate import locate_folder
from juzhen.encoders.packing import use_cheap_dropout
from juzhen.encoders.settings_file import naming
from juzhen.encoders.spec import AdapterConfig

NAME = "default"
"""What peft calls the one adapter of a backbone."""

ATTENTION = re.compile(r"(?:^|[._])(?:\w*attention\w*|\w*attn\w*)\.", re.IGNORECASE)
"""In the name of a linear layer that belongs to attention."""

SOURCE = "_juzhen_base"
"""Attribute of a backbone that says where its weights are from: (Base, folder of the transformer)."""

BYTES_IN_4_BITS = 0.5 + 0.127 / 8
"""Of a number, with the constants of its block in 8 bits (Dettmers et al. 2023, section 3)."""

WRITTEN = "_juzhen_written"
"""Attribute with the changes of the frozen weights by which they last were those of their files."""

_HOLDER = "_juzhen_shared"
"""Attribute of a backbone whose weights several may have: what keeps them."""


def require_peft() -> None:
    require_packages("an adapter", "peft", extra="peft")


def remember_base(backbone: PreTrainedModel, base: Base, folder: Path) -> None:
    """Says where the weights of a backbone are from, so that an adapter can name them."""
    vars(backbone)[SOURCE] = base, folder, _changes(backbone)


def remember_layers(backbone: PreTrainedModel, whole: PreTrainedModel, layers: int) -> None:
    """The same of a backbone that has the first layers of another one; new layers are from nowhere."""
    if SOURCE in vars(whole) and layers < whole.config.num_hidden_layers:
        base, folder, _ = vars(whole)[SOURCE]
        remember_base(backbone, replace(base, layers=layers), folder)


def _changes(backbone: nn.Module) -> int:
    return sum(values._version for values in backbone.parameters())


def has_adapter(backbone: nn.Module | None) -> bool:
    return "peft_config" in getattr(backbone, "__dict__", {})


def is_ours_alone(backbone: nn.Module) -> bool:
    """Whether sentence-transformers would load an adapter as another one, or not at all.

    It knows neither the first layers of a base, nor another attention, nor fewer bits. transformers leaves DoRA's
    lengths out, with a warning (5.20), and does not load VeRA.
    """
    if not has_adapter(backbone):
        return False
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    is_plain = config.peft_type.value == "LORA" and not config.use_dora
    is_whole = base.layers is None and base.attention is None and base.precision == "float32"
    return not (is_plain and is_whole)


def source_folder(backbone: nn.Module) -> Path | None:
    """Where the files of the weights lie; None: nowhere."""
    return vars(backbone)[SOURCE][1] if SOURCE in vars(backbone) else None


def base_of(backbone: nn.Module) -> Base:
    return cast(Base, vars(backbone)[SOURCE][0])


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
    base, folder, changes = vars(backbone)[SOURCE]
    if _changes(backbone) != changes:
        raise UserError(
            "adapter: the weights have learnt since they were loaded; save the encoder, and load it again"
        )
    settings = _settings(backbone, config, seed)
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
    settings = _settings(backbone, config, seed)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)


def parameter_bytes(module: nn.Module, *, precision: str = "float32") -> tuple[float, float]:
    """Bytes of all parameters, and of those that learn. precision: as of `Base`, of linear layers with 4 bits."""
    of_linear = {f"{name}.weight" for name in linear_layers(module)} if precision == "nf4" else set()
    sizes = {
        name: values.numel() * (BYTES_IN_4_BITS if name in of_linear else values.element_size())
        for name, values in module.named_parameters()
    }
    num_learnt = sum(sizes[name] for name, values in module.named_parameters() if values.requires_grad)
    return sum(sizes.values()), num_learnt


def hold(backbone: PreTrainedModel, precision: str) -> None:
    """Weights that are frozen, in fewer bytes. In 4 bits they are read so, by `from_weights`."""
    if precision == "bfloat16":
        backbone.bfloat16()


def _settings(backbone: PreTrainedModel, config: AdapterConfig, seed: int) -> dict[str, Any]:
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
    numbers: dict[str, Any] = {"r": config.rank, "target_modules": targets}
    if config.kind == "vera":
        if config.alpha is not None:
            raise UserError(
                f"alpha={config.alpha:g}: vera learns how much its matrices count; leave alpha at null"
            )
        key = seed % 2**31
        return {"peft_type": "VERA", **numbers, "vera_dropout": config.dropout, "projection_prng_key": key}
    alpha = 2 * config.rank if config.alpha is None else config.alpha
    lora = {"lora_alpha": alpha, "lora_dropout": config.dropout, "use_dora": config.kind == "dora"}
    return {"peft_type": "LORA", **numbers, **lora}


def linear_layers(backbone: nn.Module) -> dict[str, nn.Module]:
    """Name → each linear layer; GPT-2's Conv1D is one."""
    return {
        name: module
        for name, module in backbone.named_modules()
        if (isinstance(module, nn.Linear) or type(module).__name__ in ("Conv1D", "Linear4bit"))
        and "lora_" not in name
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
    from peft.mapping import PEFT_TYPE_TO_TUNER_MAPPING

    kind = settings["peft_type"]
    numbers = {key: value for key, value in settings.items() if key not in ("peft_type", "save_projection")}
    # Drawn anew by its key, and not kept in each checkpoint; files hold it.
    with (
        torch.random.fork_rng(devices=[]),
        naming("adapter: peft cannot put one into this architecture"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter(
            "ignore"
        )  # of VeRA's matrices, and of GPT-2's layers, which are the other way round
        torch.default_generator.manual_seed(seed)
        config = (
            peft.LoraConfig(**numbers)
            if kind == "LORA"
            else peft.VeraConfig(**numbers, save_projection=False)
        )
        model = _inside(prefix, backbone)
        PEFT_TYPE_TO_TUNER_MAPPING[peft.PeftType(kind)](model, config, adapter_name=NAME)
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
    if config.peft_type.value == "LORA":
        config.exclude_modules = None
        for pattern, key, usual in (
            ("rank_pattern", "r", config.r),
            ("alpha_pattern", "lora_alpha", config.lora_alpha),
        ):
            numbers = {name: getattr(layer, key)[NAME] for name, layer in layers.items()}
            setattr(config, pattern, {name: number for name, number in numbers.items() if number != usual})


def is_learnt(name: str) -> bool:
    """Whether a parameter of a backbone with an adapter is the adapter's."""
    return f".{NAME}" in name and ("lora_" in name or "vera_lambda" in name)


def base_weights(backbone: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights beside the adapter, by the names that they have without it."""
    for name, values in backbone.named_parameters():
        if not is_learnt(name):
            yield name.replace(".base_layer.", "."), values.detach()


def adapter_facts(backbone: nn.Module) -> dict[str, str]:
    """Of an adapter what a card says; {} of whole weights."""
    if not has_adapter(backbone):
        return {}
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    kind = (
        "DoRA"
        if getattr(config, "use_dora", False)
        else {"LORA": "LoRA", "VERA": "VeRA"}[config.peft_type.value]
    )
    source = f"{base.path}{f' at {base.revision}' if base.revision else ''}, weights {base.digest}"
    return {"adapter": f"{kind} of rank {config.r}", "beside the weights of": source}


def beside_adapters(module: nn.Module) -> set[str]:
    """Names of the parameters of a module that are frozen beside an adapter."""
    return {
        f"{path}.{name}"
        for path, backbone in module.named_modules()
        if "peft_config" in vars(backbone)
        for name, _ in backbone.named_parameters()
        if not is_learnt(name)
    }


@torch.no_grad()
def merged(encoder: Any) -> Any:
    """A copy of an encoder in whose weights the adapter is folded, in float32; the encoder itself where it has none."""
    if not has_adapter(encoder.inner.backbone):
        return encoder
    full = copy.deepcopy(encoder)
    backbone = full.inner.backbone.float()
    merge_layers(backbone)
    for attribute in ("peft_config", SOURCE, _HOLDER, WRITTEN):
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


def for_others(encoder: Any) -> Any:
    """What is uploaded of an encoder: an adapter alone where its base is on the hub, else the merged weights."""
    backbone = encoder.inner.backbone
    is_here = has_adapter(backbone) and locate_folder(base_of(backbone).path) is not None
    return merged(encoder) if is_here else encoder


class _Holder:
    """Weights that several encoders have in common; a copy of an encoder has its own."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        self.backbone = backbone

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


_shared: WeakValueDictionary[tuple[Any, ...], _Holder] = WeakValueDictionary()


def sharing_weights(key: tuple[Any, ...], load: Callable[[], PreTrainedModel]) -> PreTrainedModel:
    """A backbone with the very weights of those that were loaded under the same key and still are in use.

    Each has layers of its own, around the same tensors: adapters beside them do not meet.
    """
    holder = _shared.get(key)
    if holder is None or any(values.device.type != "cpu" for values in holder.backbone.parameters()):
        holder = _shared[key] = _Holder(load())
    same = {id(values): values for values in holder.backbone.parameters()}
    backbone = copy.deepcopy(holder.backbone, memo=cast(Any, dict(same)))
    vars(backbone)[_HOLDER] = holder
    return backbone


def parameter_counts(parameters: Iterable[nn.Parameter]) -> dict[str, int]:
    """How many numbers of some parameters learn, and how many there are."""
    sizes = [(values.numel(), values.requires_grad) for values in parameters]
    return {"learnt": sum(size for size, learns in sizes if learns), "all": sum(size for size, _ in sizes)}
