"""What a folder says about itself: pooling, normalization, maximal length, projections.

Three layouts are understood: plain transformers (says nothing), sentence-transformers (modules.json) and ours
for poolings and templates that sentence-transformers does not have (juzhen.json). An unknown module is an error, never
skipped: the embeddings would be other ones than the author's.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.texts import short
from juzhen.encoders.prefix import PROMPTS_FILE, Prefix, prefix_of, read_prefix
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.settings_file import Settings, read_json, told_simply
from juzhen.encoders.spec import POOLINGS

MODULES_FILE = "modules.json"
OWN_FILE = "juzhen.json"
PAIRS_FILE = "crossencoder.json"
LENGTH_FILE = "sentence_bert_config.json"
CLASSIFIES = "sequence-classification"
"""What sentence-transformers calls the task of a cross-encoder that is one model of transformers with its own head."""

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


def check_pooling(name: str) -> str:
    """The name itself. Raises UserError with the nearest known name when there is no such pooling."""
    if name not in POOLINGS:
        raise UserError(f"pooling={name}: no such pooling; {nearest(name, POOLINGS)}")
    return name


@dataclass
class Layout:
    """Where the transformer lies and what comes after it.

    None means that the folder does not say. `pooling_error` holds why the folder's pooling cannot be
    computed; it matters only when the configuration does not choose another one. `head` has the folders of the layers
    that score pairs, where sentence-transformers wrote a cross-encoder in modules.
    """

    transformer: Path
    pooling: str | None = None
    pooling_error: str | None = None
    normalize: bool | None = None
    max_length: int | None = None
    projections: list[Path] = field(default_factory=list)
    prompts: Prompts | None = None
    prefix: Prefix = field(default_factory=Prefix)
    head: list[Path] = field(default_factory=list)

    def pooling_for(self, wanted: str | None) -> str:
        """The pooling that was asked for, else the folder's, else mean. Raises UserError where that is none of ours."""
        if wanted is None and self.pooling_error:
            raise UserError(self.pooling_error)
        return check_pooling(wanted or self.pooling or "mean")


def read_layout(folder: Path) -> Layout:
    """What `folder` says. Raises UserError for files that are not JSON and for modules that we lack."""
    if (folder / OWN_FILE).is_file():
        own = Settings.read(folder / OWN_FILE)
        prompts = own.get("prompts", dict, type(None), default=None)
        return Layout(
            transformer=folder,
            pooling=check_pooling(own.get("pooling", str)),
            normalize=own.get("normalize", bool),
            max_length=own.get("max_length", int, type(None)),
            projections=[inside(folder, name, own.path) for name in own.get("projections", list)],
            prompts=None if prompts is None else _prompts(prompts, own.path),
            prefix=prefix_of(Settings.of(own.path, own.get("prefix", dict, default={}))),
        )
    if (folder / MODULES_FILE).is_file() and not (folder / PAIRS_FILE).is_file():
        return _sentence_transformers(folder)
    return Layout(transformer=folder)


def _prompts(values: dict[str, Any], path: Path) -> Prompts:
    try:
        return Prompts(**values)
    except TypeError as error:
        raise UserError(f"{path}: these are no templates ({error})") from error


def inside(folder: Path, name: object, path: Path) -> Path:
    """A place below the folder of an encoder. Raises UserError for one outside of it."""
    if not isinstance(name, str) or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path}: {short(repr(name))} is no folder of this encoder")
    return folder / name


def _sentence_transformers(folder: Path) -> Layout:
    layout = Layout(transformer=folder, normalize=False, prefix=read_prefix(folder))
    _check_use(folder)
    path, rank = folder / MODULES_FILE, -1
    modules = read_json(path)
    if not isinstance(modules, list) or not modules:
        raise UserError(f"{path}: expected a list of modules, the first one a Transformer")
    for module in (Settings.of(path, module) for module in modules):
        kind = _kind(module.get("type", str), folder)
        place = inside(folder, module.get("path", str), path)
        if kind == "Dropout":  # idle in a trained model
            continue
        repeats = ORDER[kind] == rank and kind not in ("Dense", "LayerNorm")
        if ORDER[kind] < rank or repeats or (rank < 0 and ORDER[kind]) or layout.head:
            raise UserError(f"{path}: {kind} stands in an order that is not supported")
        rank = ORDER[kind]
        match kind:
            case "Transformer":
                layout.transformer = place
                layout.max_length = _max_length(place)
            case "WeightedLayerPooling":
                layout.pooling = _layers_pooled(place)
            case "Pooling":
                config = Settings.read(place / "config.json")
                of_layers = layout.pooling
                layout.pooling, layout.pooling_error = _pooling(config)
                if of_layers and layout.pooling != "mean":
                    layout.pooling_error = f"{config.path}: of several layers only the mean is supported"
                layout.pooling = of_layers or layout.pooling
                include = config.get("include_prompt", bool, default=True)
                layout.prefix = replace(layout.prefix, include_prompt=include)
            case "Dense" if _is_head(place):
                layout.head, layout.projections = [*layout.projections, place], []
            case "Dense" | "LayerNorm":
                layout.projections.append(place)
            case "Normalize":
                _check_normalize(place)
                layout.normalize = True
    if not layout.normalize and (score := _similarity(folder)) != "cosine":
        raise UserError(
            f"{folder / PROMPTS_FILE}: similarity_fn_name is {short(repr(score))}, and pairs are scored by the cosine "
            "here; put cosine in its place to use the encoder so"
        )
    return layout


ORDER = {
    "Transformer": 0,
    "WeightedLayerPooling": 1,
    "Pooling": 2,
    "Dense": 3,
    "LayerNorm": 3,
    "Normalize": 4,
    "Dropout": 9,
}
"""Modules that we compute, in the only order that we compute them; Dropout may stand anywhere."""

REASONS = {
    "Router": "it has an encoder of its own for each kind of text, and one is supported here",
    "Asym": "it has an encoder of its own for each kind of text, and one is supported here",
    "StaticEmbedding": "it is a table of word vectors without a transformer",
    "CLIPModel": "it reads pictures, too",
}
"""Why we lack a module that is often met."""

NEUTRAL = {
    "config_args": ("output_hidden_states",),
    "model_args": ("dtype", "torch_dtype", "attn_implementation"),
}
"""Arguments in a Transformer's own file that change no number that we compute."""


def _kind(type_name: str, folder: Path) -> str:
    """`Pooling` from sentence_transformers.models.Pooling, whatever the version called its package."""
    package, _, kind = type_name.rpartition(".")
    if package.split(".")[0] == "sentence_transformers" and kind in ORDER:
        return kind
    reason = f" ({REASONS[kind]})" if kind in REASONS else ""
    raise UserError(
        f"{folder}/{MODULES_FILE}: module {type_name} is not supported{reason}; supported: {', '.join(ORDER)}. "
        "Use another model, or load its transformer alone and choose a pooling"
    )


def _similarity(folder: Path) -> str:
    if not (folder / PROMPTS_FILE).is_file():
        return "cosine"
    return str(Settings.read(folder / PROMPTS_FILE).values.get("similarity_fn_name") or "cosine")


def _check_use(folder: Path) -> None:
    """Raises UserError for what is no encoder of sentences, and for embeddings of which only a part is used."""
    if not (folder / PROMPTS_FILE).is_file():
        return
    values = Settings.read(folder / PROMPTS_FILE).values
    kind = values.get("model_type") or "SentenceTransformer"
    if kind not in ("SentenceTransformer", "CrossEncoder"):
        raise UserError(
            f"{folder}: holds a {kind} of sentence-transformers, which has no embeddings of sentences"
        )
    if values.get("truncate_dim") is not None:
        raise UserError(
            f"{folder / PROMPTS_FILE}: truncate_dim={values['truncate_dim']} uses the first numbers of an embedding "
            "alone, which is not supported; put null in its place to use them all"
        )
    if _similarity(folder) in ("euclidean", "manhattan"):
        raise UserError(
            f"{folder / PROMPTS_FILE}: similarity_fn_name is {_similarity(folder)!r}, and pairs are scored by the "
            "cosine here; put cosine in its place to use the encoder so"
        )


def _layers_pooled(folder: Path) -> str | None:
    """Our name of the pooling whose layers a WeightedLayerPooling weighs so; None: the last layer's alone."""
    from safetensors.numpy import load_file

    config = Settings.read(folder / "config.json")
    start, layers = (
        int(config.values.get(name, most)) for name, most in (("layer_start", 4), ("num_hidden_layers", 12))
    )
    with told_simply(f"{folder}: the weights of the layers do not load"):
        stored = load_file(folder / "model.safetensors")["layer_weights"]
        weights = {start + place: float(one / stored.sum()) for place, one in enumerate(stored) if one}
    if weights == {layers: 1.0}:
        return None
    if weights == {1: 0.5, layers: 0.5}:
        return "first_last"
    raise UserError(
        f"{folder}: weights of layers are supported where they are those of the first and the last, equal, and no other"
    )


def _is_head(folder: Path) -> bool:
    return Settings.read(folder / "config.json").values.get("module_output_name") == "scores"


def _check_normalize(folder: Path) -> None:
    path = folder / "config.json"
    names = Settings.read(path).values if path.is_file() else {}
    if {one for name, one in names.items() if name.startswith("module_")} - {None, "sentence_embedding"}:
        raise UserError(f"{path}: only a Normalize of the sentence embedding is supported")


def _pooling(config: Settings) -> tuple[str | None, str | None]:
    """Our name of the pooling, or why there is none."""
    modes = config.get("pooling_mode", str, list, type(None), default=None)
    if modes is None:
        modes = [mode for switch, mode in _MODE_OF_SWITCH.items() if config.values.get(switch)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(map(str, modes))
    if len(modes) == 1 and modes[0] in POOLING_OF_MODE:
        return POOLING_OF_MODE[modes[0]], None
    return None, (
        f"{config.path}: pooling {' + '.join(modes)} is not supported; "
        "choose one yourself, for example pooling=mean"
    )


def _max_length(transformer: Path) -> int | None:
    """max_seq_length of sentence_bert_config.json, or of an older name (sentence_roberta_config.json, …)."""
    for path in sorted(transformer.glob("sentence_*_config.json"), key=lambda path: path.name != LENGTH_FILE):
        config = Settings.read(path)
        if config.values.get("do_lower_case"):
            raise UserError(
                f"{path}: do_lower_case is not supported here; set it in tokenizer_config.json instead"
            )
        _check_transformer(config)
        return config.get("max_seq_length", int, type(None), default=None)
    return None


def _check_transformer(config: Settings) -> None:
    """Raises UserError where sentence-transformers would read another thing than the last states of plain texts."""
    for name in ("model", "config", "tokenizer", "processor", "processing"):
        given: dict[str, Any] = {}
        for key in (f"{name}_args", f"{name}_kwargs"):
            given |= config.get(key, dict, type(None), default=None) or {}
        unknown = given.keys() - set(NEUTRAL.get(f"{name}_args", ()))
        if unknown:
            raise UserError(
                f"{config.path}: {name}_kwargs with {', '.join(sorted(unknown))} is not supported"
            )
    about = config.get("modality_config", dict, type(None), default=None) or {}
    texts = Settings.of(config.path, about.get("text") or {}).values
    output = texts.get("method_output_name", "last_hidden_state")
    task = config.values.get("transformer_task") or "feature-extraction"
    plain = (
        output in ("last_hidden_state", ["last_hidden_state"]) and texts.get("method", "forward") == "forward"
    )
    if task != CLASSIFIES and not (task == "feature-extraction" and plain):
        raise UserError(
            f"{config.path}: the embeddings are made of {short(repr(output))} ({task}), expected last_hidden_state"
        )
