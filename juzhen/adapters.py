"""Adds peft adapters to a backbone in place, merges them on demand, and saves them with a record of the base weights.

LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685), DoRA (Liu et al. 2024, https://arxiv.org/abs/2402.09353). The
backbone keeps its class, and its linear layers are replaced. `PeftAdapterMixin` of transformers is not used: it draws
without a seed, only logs tensors that do not fit, may read pickled weights, and does not merge."""

import copy
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import torch
from pydantic import Field, StrictBool, StrictInt, TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError, nearest, require_packages
from juzhen.core.text import short
from juzhen.encoders.backbone_config import AdapterConfig
from juzhen.encoders.base_weights import (
    HOLDER,
    NAME,
    SOURCE,
    WRITTEN,
    base_of,
    base_weights,
    changes,
    has_adapter,
    is_learnt,
    linear_layers,
    remember_base,
)
from juzhen.encoders.folder_settings import (
    ANOTHER,
    NEUTRAL,
    READ,
    UNREAD,
    is_empty,
    naming,
    read_settings,
    read_tensors,
    rules,
)
from juzhen.encoders.forward import use_cheap_dropout
from juzhen.encoders.resolve_path import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    BASE_FILE,
    Base,
    base_digest,
    locate_folder,
    weight_files,
)

ATTENTION = re.compile(r"(?:^|[._])(?:\w*attention\w*|\w*attn\w*)\.", re.IGNORECASE)
"""In the name of a linear layer that belongs to attention."""


KIND = "LORA"
KEYS: dict[str, str | tuple[Any, ...]] = (
    rules(
        "auto_mapping base_model_name_or_path inference_mode peft_type peft_version revision task_type",
        NEUTRAL,
    )
    | rules("r target_modules fan_in_fan_out layers_to_transform layers_pattern alpha_pattern", READ)
    | rules("exclude_modules lora_alpha lora_bias lora_dropout rank_pattern use_dora use_rslora", READ)
    | rules("corda_config ensure_weight_tying eva_config loftq_config lora_ga_config megatron_core", NEUTRAL)
    | rules("qalora_group_size runtime_config", NEUTRAL)
    | rules("alora_invocation_tokens arrow_config kasa_config layer_replication megatron_config", UNREAD)
    | rules("monteclora_config target_parameters trainable_token_indices use_bdlora use_qalora", UNREAD)
    | rules("velora_config", UNREAD)
    | {
        "bias": ("none",),
        "modules_to_save": NEUTRAL,  # what it names is in the file of weights, and refused there
        # The others (pissa, corda, olora, loftq, lora_ga) change the weights of the base, which others share here.
        "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "mica"),
    }
)
"""Key of peft's adapter_config.json → rule, as in `juzhen.encoders.folder_settings`. A tuple holds supported values."""


_Count = Annotated[int, Field(strict=True, ge=1)]
_Scale = Annotated[float, Field(strict=True, ge=-1e4, le=1e4)]
FORMS: dict[str, tuple[Any, str]] = {
    "r": (_Count, "a whole number from 1 on"),
    "lora_alpha": (_Scale, "a number from -10000 to 10000"),
    "rank_pattern": (dict[re.Pattern[str], _Count], "an object: regular expression → whole number from 1 on"),
    "alpha_pattern": (
        dict[re.Pattern[str], _Scale],
        "an object: regular expression → number from -10000 to 10000",
    ),
    **dict.fromkeys(
        ("target_modules", "exclude_modules", "layers_pattern"),
        (re.Pattern[str] | list[str], "a regular expression, or a list of names"),
    ),
    "layers_to_transform": (StrictInt | list[StrictInt], "a whole number, or a list of them"),
    "lora_dropout": (Annotated[float, Field(strict=True, ge=0, le=1)], "a number from 0 to 1"),
    **dict.fromkeys(("fan_in_fan_out", "lora_bias", "use_dora", "use_rslora"), (StrictBool, "true or false")),
}
"""Supported key → type of valid values, and their description."""

NEEDED = ("r", "lora_alpha")
"""Keys for which null is invalid. Elsewhere null is peft's default."""

MERGE = "Merge the adapter into its model (merge_and_unload of peft), and load that"

PROMPTS = re.compile("(.*PROMPT_|P_|PREFIX_)TUNING|ADAPTION_PROMPT|CPT|CARTRIDGE")
"""Adapters of peft that are tokens before a text. merge_and_unload does not exist there."""


def read_adapter_settings(folder: Path) -> dict[str, Any]:
    """Read the numbers by which peft makes an adapter.

    Args:
        folder: Folder with adapter_config.json.

    Returns:
        Supported keys of peft with their values, without optional keys that are null.

    Raises:
        UserError: The adapter is not LoRA, a value has another type, or a key would change the numbers or import code.
    """
    path = folder / ADAPTER
    with naming(f"{path}: no settings of an adapter"):
        settings = read_settings(path)
        kind = str(settings["peft_type"])
    if kind != KIND:
        way = "It has no weights to merge. Choose a model with LoRA, or without an adapter"
        way = way if PROMPTS.fullmatch(kind) else MERGE
        raise UserError(f"{path}: {kind} adapters are not supported. Known: {KIND}. {way}")
    read: dict[str, Any] = {}
    for key, value in settings.items():
        rule = KEYS.get(key, UNREAD)
        if rule == READ:
            form, expected = FORMS[key]
            if value is None and key not in NEEDED:
                continue
            try:
                TypeAdapter(form).validate_python(value)
            except ValidationError as error:
                raise UserError(
                    f"{path}: {key}={short(repr(value))}: expected {expected}. Fix the file, or write it again with "
                    "save_pretrained of peft"
                ) from error
            read[key] = value
        elif rule != NEUTRAL and not is_empty(value) and (rule == UNREAD or value not in rule):
            is_new = key not in KEYS
            problem = (
                "a key of peft that is not known here" if is_new else "adapters with it are not read here"
            )
            otherwise = ", or take the key out where it says only how the adapter was trained" * is_new
            raise UserError(f"{path}: {key}={short(repr(value))}: {problem}. {MERGE}{otherwise}")
    return read


def require_peft() -> None:
    require_packages("an adapter", "peft", extra="peft")


def is_ours_alone(backbone: nn.Module) -> bool:
    """True if sentence-transformers would misread the adapter.

    It supports neither the first layers of a base, nor another attention, nor fewer bits. transformers drops DoRA's
    magnitudes with a warning (5.20).

    Args:
        backbone: A transformer with an adapter.

    Returns:
        False for a plain adapter over whole float32 weights.
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
    digest = base_digest(folder)
    add_merged_adapter(backbone, config, seed=seed)
    base = replace(base, digest=digest, precision=config.base)
    remember_base(backbone, base, folder)


def add_merged_adapter(backbone: PreTrainedModel, config: AdapterConfig, *, seed: int = 0) -> None:
    """Add an adapter that is saved merged, or never, so the weights need no saved source.

    Args:
        backbone: The base, changed in place.
        config: The adapter.
        seed: Seed of the random matrices.

    Raises:
        UserError: peft is missing, or the configuration does not fit.
    """
    require_peft()
    settings = _settings(backbone, config)
    hold(backbone, config.base)
    inject(backbone, settings, seed=seed)


def hold(backbone: PreTrainedModel, precision: str) -> None:
    """Convert frozen weights to fewer bytes. 4-bit weights are loaded as such by `from_weights`.

    Args:
        backbone: The base, changed in place.
        precision: That of `Base`.
    """
    if precision == "bfloat16":
        backbone.bfloat16()


def _settings(backbone: PreTrainedModel, config: AdapterConfig) -> dict[str, Any]:
    """Arguments of peft's LoraConfig. Raises UserError if the configuration does not fit."""
    layers = linear_layers(backbone)
    targets = sorted(set(config.targets or _attention_layers(backbone)))
    for target in targets:
        if not any(f".{name}".endswith(f".{target}") for name in layers):
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


def _attention_layers(backbone: nn.Module) -> list[str]:
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
        naming("adapter: peft cannot put one into this architecture", ANOTHER),
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
    """Facts of an adapter for a model card.

    Args:
        backbone: A transformer with an adapter.

    Returns:
        Kind and rank, and the source and digest of the base weights, each under its heading.
    """
    base, config = base_of(backbone), cast(Any, backbone).peft_config[NAME]
    kind = "DoRA" if config.use_dora else "LoRA"
    source = f"{base.path}{f' at {base.revision}' if base.revision else ''}, weights {base.digest}"
    return {"adapter": f"{kind} of rank {config.r}", "beside the weights of": source}


@torch.no_grad()
def merged_copy(encoder: Any) -> Any:
    """Copy an encoder and fold its adapter into the weights, in float32.

    Args:
        encoder: Any encoder around a transformer. It is not changed.

    Returns:
        A copy without an adapter, whose weights can all be trained.
    """
    full = copy.deepcopy(encoder)
    backbone = full.inner.backbone.float()
    merge_layers(backbone)
    for attribute in ("peft_config", SOURCE, HOLDER, WRITTEN):
        vars(backbone).pop(attribute, None)
    return full.requires_grad_(True)


def merge_layers(model: nn.Module) -> None:
    """Fold the adapter of a model into its weights, in place.

    Args:
        model: A model with layers of peft.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, module in list(model.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, layer.get_base_layer())


PREFIX = "base_model.model."
"""What peft puts before the names of weights in files."""


def save_adapter(backbone: PreTrainedModel, folder: Path) -> None:
    """Write the adapter in peft's layout, and the record of its base.

    Args:
        backbone: The base with its adapter.
        folder: The folder to write to.

    Raises:
        UserError: The base has changed.
    """
    from peft import get_peft_model_state_dict

    source = cast(Any, backbone)
    config, (base, place, _) = source.peft_config[NAME], vars(backbone)[SOURCE]
    _require_unchanged(backbone, place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it takes lora_bias for a matrix that lacks a part
        tensors = get_peft_model_state_dict(backbone, adapter_name=NAME, save_embedding_layers=False)
    tensors = {f"{PREFIX}{name}": values.detach().cpu().contiguous() for name, values in tensors.items()}
    # For other programs: a hub id or a folder.
    name_of_base = base.path if locate_folder(base.path) is None else str(place)
    settings = config.to_dict() | {"base_model_name_or_path": name_of_base, "inference_mode": True}
    save_file(tensors, folder / ADAPTER_WEIGHTS, {"format": "pt"})
    lists = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
    plain = (str, int, float, bool, list, dict, type(None))  # what has no JSON form has its default
    values = {key: getattr(value, "value", value) for key, value in lists.items() if isinstance(value, plain)}
    write_json(folder / ADAPTER, values, indent=2, in_own_folder=True)
    sizes = getattr(backbone.config, "matryoshka_dimensions", None)
    account = vars(base) | {"nested_dims": list(sizes or ())}
    write_json(folder / BASE_FILE, account, indent=2, in_own_folder=True)


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
    """Add the adapter of a folder to `backbone`, in place.

    Args:
        backbone: The base.
        folder: Folder of the adapter.
        base: Record of the base.
        place: Folder of the base.
        has_head: Layers after the backbone are used, such as a vocabulary head. Adapters of these layers are then
            refused. Otherwise they are dropped.

    Raises:
        UserError: peft is missing, a file does not load, or the adapter does not fit.
    """
    require_peft()
    settings, path = read_adapter_settings(folder), folder / ADAPTER_WEIGHTS
    tensors = _read_tensors(folder)
    rank = max(settings.get("r", 8), *(settings.get("rank_pattern") or {"": 1}).values())
    if tensors and rank > max(max(values.shape, default=0) for values in tensors.values()):
        raise UserError(
            f"{folder / ADAPTER}: r={rank}: expected the width of its weights. Write it with save_pretrained of peft"
        )
    hold(backbone, base.precision)
    prefix, behind = _places(backbone, tensors)
    if behind and has_head:
        raise UserError(f"{path}: {behind[0]}: an adapter of the head is not read here. {MERGE}")
    for name in behind:
        tensors.pop(name)
    if not _is_recorded(prefix, backbone, folder / ADAPTER):
        _require_read_by_peft(path, (f"{PREFIX}{name}" for name in tensors))
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

    Returns:
        Name in the whole model → weight.

    Raises:
        UserError: A layer of the adapter that does not fit its adapter_config.json.
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
        tensors = read_tensors(path)
    _require_read_by_peft(path, (name for name in tensors if not name.startswith(PREFIX)))
    return {name.removeprefix(PREFIX): values for name, values in tensors.items()}


def _is_recorded(prefix: str, backbone: PreTrainedModel, path: Path) -> bool:
    """True if the model that an adapter's settings name has this prefix before the layers of a backbone.

    Without a prefix the names are those of sentence-transformers, which writes and reads them for any task.
    """
    parts = re.fullmatch(rf"(0\.(?:auto_)?model\.)?({re.escape(backbone.base_model_prefix)}\.)?", prefix)
    settings, name = read_settings(path), type(backbone).__name__
    with naming(f"{path}: auto_mapping names no class"):
        recorded = str((settings.get("auto_mapping") or {}).get("base_model_class"))
    if recorded == name:
        return not prefix
    if recorded.startswith(f"{name.removesuffix('Model')}For"):
        return bool(parts and parts[2])
    return bool(parts and (parts[1] or not parts[2] or settings.get("task_type") != "FEATURE_EXTRACTION"))


def _require_read_by_peft(path: Path, passed_over: Iterable[str]) -> None:
    if (name := next(iter(passed_over), None)) is not None:
        raise UserError(
            f"{path}: {name}: peft has no such layer in the model of {ADAPTER} (auto_mapping, task_type), and "
            f"leaves it out. Name it {PREFIX}<layer of that model>, or write it again with save_pretrained of peft"
        )


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
