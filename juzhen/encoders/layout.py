"""What a folder says about itself: pooling, normalization, maximal length, projections.

Three layouts are understood: plain transformers (says nothing), sentence-transformers (modules.json) and ours
for poolings and templates that sentence-transformers does not have (juzhen.json). An unknown module is an error, never
skipped: the embeddings would be other ones than the author's.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.renamed import renamed
from juzhen.core.texts import short
from juzhen.encoders.prefix import Prefix, prefix_of, read_prefix
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.settings_file import Settings, read_json
from juzhen.encoders.spec import POOLINGS

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


def check_pooling(name: str) -> str:
    """The name itself. Raises UserError with the nearest known name when there is no such pooling."""
    if name not in POOLINGS:
        raise UserError(f"backbone.pooling={name}: no such pooling; {nearest(name, POOLINGS)}")
    return name


@dataclass
class Layout:
    """Where the transformer lies and what comes after it.

    None means that the folder does not say. `pooling_error` holds why the folder's pooling cannot be
    computed; it matters only when the configuration does not choose another one.
    """

    transformer: Path
    pooling: str | None = None
    pooling_error: str | None = None
    normalize: bool | None = None
    max_length: int | None = None
    projections: list[Path] = field(default_factory=list)
    prompts: Prompts | None = None
    prefix: Prefix = field(default_factory=Prefix)

    def pooling_for(self, wanted: str | None) -> str:
        """The pooling that was asked for, else the folder's, else mean. Raises UserError where that is none of ours."""
        if wanted is None and self.pooling_error:
            raise UserError(self.pooling_error)
        return check_pooling(wanted or self.pooling or "mean")


def read_layout(folder: Path) -> Layout:
    """What `folder` says. Raises UserError for files that are not JSON and for modules that we lack."""
    if (folder / OWN_FILE).is_file():
        own = Settings.read(folder / OWN_FILE)
        own.values.update({renamed(key): value for key, value in own.values.items()})
        prompts = own.get("prompts", dict, type(None), default=None)
        return Layout(
            transformer=folder,
            pooling=check_pooling(own.get("pooling", str)),
            normalize=own.get("normalize", bool),
            max_length=own.get("max_length", int, type(None)),
            projections=[_inside(folder, name, own.path) for name in own.get("projections", list)],
            prompts=None if prompts is None else _prompts(prompts, own.path),
            prefix=prefix_of(Settings.of(own.path, own.get("prefix", dict, default={}))),
        )
    if (folder / MODULES_FILE).is_file():
        return _sentence_transformers(folder)
    return Layout(transformer=folder)


def _prompts(values: dict[str, Any], path: Path) -> Prompts:
    try:
        return Prompts(**values)
    except TypeError as error:
        raise UserError(f"{path}: these are no templates ({error})") from error


def _inside(folder: Path, name: object, path: Path) -> Path:
    """A place below the folder of an encoder. Raises UserError for one outside of it."""
    if not isinstance(name, str) or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path}: {short(repr(name))} is no folder of this encoder")
    return folder / name


def _sentence_transformers(folder: Path) -> Layout:
    layout = Layout(transformer=folder, normalize=False, prefix=read_prefix(folder))
    path, rank = folder / MODULES_FILE, -1
    modules = read_json(path)
    if not isinstance(modules, list) or not modules:
        raise UserError(f"{path}: expected a list of modules, the first one a Transformer")
    for module in (Settings.of(path, module) for module in modules):
        kind = _kind(module.get("type", str), folder)
        place = _inside(folder, module.get("path", str), path)
        repeats = ORDER[kind] == rank and kind not in ("Dense", "LayerNorm")
        if ORDER[kind] < rank or repeats or (rank < 0 and ORDER[kind]):
            raise UserError(f"{path}: {kind} stands in an order that is not supported")
        rank = ORDER[kind]
        match kind:
            case "Transformer":
                layout.transformer = place
                layout.max_length = _max_length(place)
            case "Pooling":
                config = Settings.read(place / "config.json")
                layout.pooling, layout.pooling_error = _pooling(config)
                include = config.get("include_prompt", bool, default=True)
                layout.prefix = replace(layout.prefix, include_prompt=include)
            case "Dense" | "LayerNorm":
                layout.projections.append(place)
            case "Normalize":
                layout.normalize = True
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
        "choose one yourself, for example backbone.pooling=mean"
    )


def _max_length(transformer: Path) -> int | None:
    """max_seq_length of sentence_bert_config.json, or of an older name (sentence_roberta_config.json, …)."""
    for path in sorted(transformer.glob("sentence_*_config.json"), key=lambda path: path.name != LENGTH_FILE):
        config = Settings.read(path)
        if config.values.get("do_lower_case"):
            raise UserError(
                f"{path}: do_lower_case is not supported here; set it in tokenizer_config.json instead"
            )
        return config.get("max_seq_length", int, type(None), default=None)
    return None
