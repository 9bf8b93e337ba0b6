"""Reads the layout of an encoder folder: pooling, normalization, maximal length, projections.

Three layouts are understood: plain transformers, sentence-transformers (modules.json), and our own (juzhen.json) for
poolings and templates that sentence-transformers lacks. A setting that changes embeddings and is not supported is an
error. It is never skipped, because the embeddings would differ from the author's.
"""

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from juzhen.core.errors import UserError
from juzhen.core.safe_open import read_json
from juzhen.core.text import short
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.folder_settings import (
    ANSWERS,
    COPY_AGAIN,
    PAIRS,
    PYLATE,
    ROUTER,
    SENTENCES,
    SPARSE,
    TOKEN_VECTORS,
    naming,
    read_module,
    read_settings,
    read_transformer_settings,
    require_decided,
    require_flags,
    stated,
)
from juzhen.encoders.pooling import POOLINGS, check_pooling, mode_of
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, Templates, prompts_of

Side = Literal["query", "document"]
"""Reading side of a text. None if it is unknown."""

ROUTERS = ("Router", "Asym")
"""Suffixes of the module type. The second one is from older versions."""

FILES = ("router_config.json", "config.json")
"""Settings files. The second one is from older versions."""

TEXT = "text"


def modules_of(
    settings: Mapping[str, Any], place: str, path: Path
) -> dict[Side | None, list[dict[str, Any]]]:
    """Return the modules of each side, in the form of modules.json.

    Args:
        settings: Content of the file of the Router.
        place: Path of the Router inside the encoder folder.
        path: File name for messages.

    Returns:
        Side → its modules in order. None stands for the default route.

    Raises:
        UserError: A key is unknown, or a side has no route.
    """
    require_decided(settings, path, ROUTER)
    parameters = settings.get("parameters") or {}
    require_decided(parameters, path, f"{ROUTER} parameters")
    routes, types = settings["structure"], settings["types"]
    found: dict[Side | None, list[dict[str, Any]]] = {}
    for side in ("query", "document", None):
        names = routes[_route(side, routes, parameters, path)]
        found[side] = [{"path": f"{place}/{name}".lstrip("/"), "type": str(types[name])} for name in names]
    return found


def _route(side: Side | None, routes: Mapping[str, Any], parameters: Mapping[str, Any], path: Path) -> str:
    """The route of a text in the order in which sentence-transformers looks for one."""
    rules = {_rule(key): str(route) for key, route in (parameters.get("route_mappings") or {}).items()}
    for rule in ((side, TEXT), (side, None), (None, TEXT), (None, None)):
        if rule in rules:
            return rules[rule]
    for name in (side, TEXT):
        if name is not None and name in routes:
            return name
    if side is not None:
        raise UserError(
            f"{path}: no route for a {side}. There are {', '.join(routes)}. Name one so in structure or route_mappings"
        )
    default = parameters.get("default_route")
    if default is None and parameters.get("allow_empty_key") is False:  # they read no such text at all
        return _route("document", routes, parameters, path)
    return str(default or next(iter(routes)))


def _rule(key: str) -> tuple[Any, Any]:
    """('query', None) of the text "('query', None)"."""
    task, modality = ast.literal_eval(key[:200])
    return task, modality


MODULES_FILE = "modules.json"
OWN_FILE = "juzhen.json"
PAIRS_FILE = "crossencoder.json"
ROUTED = "QueryDocumentEncoder"
"""Our class that reads a folder with a Router."""
STATIC = "static_embedding"
"""The type in the config.json of a table of tokens that juzhen wrote."""


@dataclass
class Layout:
    """Location of the transformer, and the modules after it. None means that the folder does not define it.

    Attributes:
        transformer: Folder of the transformer.
        pooling: Our name of the pooling.
        pooling_error: Reason why the pooling of the folder is not supported. It matters only if the configuration does
            not choose another one.
        normalize: True if embeddings have length 1.
        max_length: Tokens of a text.
        projections: Folders of the layers after pooling. None marks a normalization between layers.
        templates: Templates around a sentence.
        prompts: Prompts of the folder.
        head: Folders of the layers that score pairs, for a cross-encoder in modules.
        token_layers: Number of layers of `head` that come before pooling.
        reader: The only class that reads the folder, if its states are not sentence embeddings.
    """

    transformer: Path
    pooling: str | None = None
    pooling_error: str | None = None
    normalize: bool | None = None
    max_length: int | None = None
    projections: list[Path | None] = field(default_factory=list)
    templates: Templates | None = None
    prompts: Prompts = field(default_factory=Prompts)
    head: list[Path | None] = field(default_factory=list)
    token_layers: int = 0
    reader: str | None = None

    def pooling_for(self, chosen: str | None) -> str:
        """Pooling: the chosen one, else that of the folder, else mean.

        Args:
            chosen: Our name of a pooling. None: not chosen.

        Returns:
            Our name of a pooling.

        Raises:
            UserError: The pooling is not supported.
        """
        if chosen is None and self.pooling_error:
            raise UserError(self.pooling_error)
        return check_pooling(chosen or self.pooling or "mean")

    def prompts_for(self, config: BackboneConfig) -> Prompts:
        """Prompts of the folder under a configuration.

        Args:
            config: Its prompts replace those of the folder. null keeps them.

        Returns:
            The prompts with which the encoder reads texts.

        Raises:
            UserError: An unknown prompt, or `include_prompt=false` with the pooling last.
        """
        if config.include_prompt is False and self.pooling_for(config.pooling) == "last":
            raise UserError(
                "include_prompt=false: pooling=last reads the last token, which is never in the prompt. Leave it out"
            )
        return self.prompts.configured(config)


def read_layout(folder: Path, *, side: Side | None = None) -> Layout:
    """Read the layout of an encoder folder.

    Args:
        folder: The encoder folder.
        side: Side to read, for an encoder with separate modules for queries and documents.

    Returns:
        Folders and settings of the parts. `reader` names the class that must load it, None for a sentence
        encoder.

    Raises:
        UserError: A file is broken, or a module is not supported.
    """
    with naming(f"{folder}: {OWN_FILE} or {MODULES_FILE} cannot be understood"):
        if (folder / OWN_FILE).is_file():
            return _own(folder, read_settings(folder / OWN_FILE))
        if gives_tokens(folder):
            prompts = prompts_of(read_settings(folder / PROMPTS_FILE), folder / PROMPTS_FILE)
            return Layout(transformer=folder, prompts=prompts, reader=TOKEN_VECTORS)
        if gives_weights(folder):
            prompts = prompts_of(read_settings(folder / PROMPTS_FILE), folder / PROMPTS_FILE)
            first = read_chains(folder)["document"][0]["path"]
            return Layout(transformer=inside(folder, first), prompts=prompts, reader=SPARSE)
        if gives_answers(folder):
            return Layout(transformer=inside(folder, read_modules(folder)[0]["path"]), reader=PAIRS)
        if (folder / MODULES_FILE).is_file() and not (folder / PAIRS_FILE).is_file():
            chains = read_chains(folder)
            layout = _sentence_transformers(folder, chains[side])
            is_routed = side is None and chains["query"] != chains["document"]
            return replace(layout, reader=ROUTED) if is_routed else layout
        path = folder / "config.json"
        settings = read_settings(path) if is_static(folder) and path.is_file() else {}
        normalize = settings.get("normalize") if settings.get("model_type") == "model2vec" else None
    return Layout(transformer=folder, normalize=normalize if isinstance(normalize, bool) else None)


def transformer_alone(folder: Path) -> Layout:
    """Layout with the folder of the transformer only. Other settings are ignored.

    Args:
        folder: Folder of an encoder.

    Returns:
        Layout whose other fields have their defaults.

    Raises:
        UserError: A list of modules without a transformer at its start.
    """
    is_apart = (folder / MODULES_FILE).is_file() and not (folder / OWN_FILE).is_file()
    modules = read_modules(folder) if is_apart else []
    return Layout(transformer=inside(folder, modules[0]["path"]) if modules else folder)


def gives_tokens(folder: Path) -> bool:
    """True for an encoder of token vectors. A broken file is reported later, by its reader.

    Args:
        folder: Folder of an encoder.

    Returns:
        False also for a folder whose files do not load.
    """
    return _model_type(folder) in (PYLATE, TOKEN_VECTORS)


def gives_weights(folder: Path) -> bool:
    """True for an encoder of vocabulary weights. A broken file is reported later, by its reader.

    Args:
        folder: Folder of an encoder.

    Returns:
        False also for a folder whose files do not load.
    """
    return _model_type(folder) == SPARSE


def _model_type(folder: Path) -> str | None:
    """Model type of sentence-transformers. None if the files do not define it."""
    with suppress(UserError):
        if (folder / MODULES_FILE).is_file() and (folder / PROMPTS_FILE).is_file():
            return read_settings(folder / PROMPTS_FILE).get("model_type")
    return None


def is_static(folder: Path) -> bool:
    """True for a token table instead of a transformer. A broken file is reported later, by its reader.

    Args:
        folder: Folder of a transformer.

    Returns:
        False also for a folder whose files do not load.
    """
    with suppress(UserError):
        path = folder / "config.json"
        if path.is_file():
            return read_settings(path).get("model_type") in (STATIC, "model2vec")
        return bool(_tables(folder))
    return False


def static_shape(folder: Path) -> tuple[int, int]:
    """Number of tokens, and dimensions of each.

    Args:
        folder: Folder with model.safetensors of a static encoder.

    Returns:
        Rows and columns of the table that the encoder reads.

    Raises:
        UserError: The table is missing, or its parts do not match.
    """
    shapes, path = _tables(folder), folder / "model.safetensors"
    if not shapes:
        raise UserError(f"{path}: holds no table of tokens. Put embedding.weight or embeddings there")
    name = "embedding.weight" if "embedding.weight" in shapes else "embeddings"
    if len(shapes[name]) != 2 or 0 in shapes[name]:
        raise UserError(
            f"{path}: {name} has the shape {shapes[name]}: expected tokens × numbers. Copy the file again"
        )
    vocabulary, dim = shapes[name]
    count = shapes.get("mapping", [vocabulary])
    for part in ("mapping", "weights"):
        if part in shapes and (len(count) != 1 or shapes[part] != count):
            raise UserError(
                f"{path}: {part} has the shape {shapes[part]}: expected a number for each token. Copy the file again"
            )
    return count[0], dim


def _tables(folder: Path) -> dict[str, list[int]]:
    """Names and shapes of the tensors of a token table. Empty for other weights."""
    from safetensors import safe_open

    path = folder / "model.safetensors"
    if not path.is_file():
        return {}
    with naming(f"{path}: the weights do not load", COPY_AGAIN), safe_open(path, framework="numpy") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    is_table = {*shapes} == {"embedding.weight"} or {"embeddings"} <= {*shapes} <= {
        "embeddings",
        "mapping",
        "weights",
    }
    return shapes if is_table else {}


def gives_answers(folder: Path) -> bool:
    """True for a language model that scores pairs by its answer. A broken file is reported later, by its reader.

    Args:
        folder: Folder of an encoder.

    Returns:
        False also for a folder whose files do not load.
    """
    with suppress(UserError, OSError, ValueError, KeyError, TypeError, AttributeError):
        if (folder / MODULES_FILE).is_file():
            modules = read_json(folder / MODULES_FILE)
            return any(str(module["type"]).endswith(f".{ANSWERS}") for module in modules)
    return False


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """Read the list in modules.json.

    Args:
        folder: Folder of an encoder.

    Returns:
        The entries in their order, each with `path` and `type`.

    Raises:
        UserError: No list of modules, an empty list, or an unknown key.
    """
    path = folder / MODULES_FILE
    with naming(str(path)):
        modules = read_json(path)
    are_modules = isinstance(modules, list) and all(
        isinstance(module, dict)
        and isinstance(module.get("path"), str)
        and isinstance(module.get("type"), str)
        for module in modules
    )
    if not are_modules:
        raise UserError(f"{path}: no list of modules, each with its path and type. Copy the file again")
    if not modules:
        raise UserError(f"{path}: lists no module. Expected the first one a Transformer. Copy the file again")
    for module in modules:
        require_decided(module, path, MODULES_FILE)
    return list(modules)


def read_chains(folder: Path) -> dict[Side | None, list[dict[str, Any]]]:
    """Modules of queries, documents and undefined texts. They differ only behind a Router.

    Args:
        folder: Folder of an encoder with modules.json.

    Returns:
        Side, or None for undefined texts → entries as in `read_modules`.

    Raises:
        UserError: More than one Router, or settings of a Router that cannot be read.
    """
    modules = read_modules(folder)
    routers = [module for module in modules if _is_router(module)]
    if not routers:
        return {"query": modules, "document": modules, None: modules}
    if len(routers) > 1:
        raise UserError(
            f"{folder / MODULES_FILE}: more than one {ROUTER}, which is not supported. Use another model"
        )
    number, place = modules.index(routers[0]), inside(folder, routers[0]["path"])
    path = next((place / name for name in FILES if (place / name).is_file()), place / FILES[0])
    with naming(f"{path}: no settings of a {ROUTER}"):
        routes = modules_of(read_settings(path), routers[0]["path"], path)
    return {side: [*modules[:number], *route, *modules[number + 1 :]] for side, route in routes.items()}


def _is_router(module: Mapping[str, Any]) -> bool:
    return str(module["type"]).rpartition(".")[2] in ROUTERS


def gives_routes(folder: Path) -> bool:
    """True if queries and documents have separate modules. A broken file is reported later, by its reader.

    Args:
        folder: Folder of an encoder.

    Returns:
        False also for a folder whose files do not load.
    """
    with suppress(UserError, OSError, ValueError, KeyError, TypeError, AttributeError):
        path = folder / MODULES_FILE
        if path.is_file() and any(_is_router(module) for module in read_json(path)):
            chains = read_chains(folder)
            return chains["query"] != chains["document"]
    return False


def read_model_settings(folder: Path) -> dict[str, Any]:
    """Read config_sentence_transformers.json.

    Args:
        folder: Folder of an encoder.

    Returns:
        The settings. {} for a missing file.

    Raises:
        UserError: An unknown key.
    """
    path = folder / PROMPTS_FILE
    if not path.is_file():
        return {}
    settings = read_settings(path)
    require_decided(settings, path, PROMPTS_FILE, model=settings.get("model_type") or SENTENCES)
    return settings


def _own(folder: Path, settings: Mapping[str, Any]) -> Layout:
    require_flags(settings, folder / OWN_FILE)
    templates = settings.get("prompts")
    return Layout(
        transformer=folder,
        pooling=check_pooling(settings["pooling"]),
        normalize=settings["normalize"],
        max_length=settings["max_length"],
        projections=[inside(folder, name) for name in settings["projections"]],
        templates=None if templates is None else Templates(**templates),
        prompts=prompts_of(settings.get("prefix", {}), folder / OWN_FILE),
    )


def inside(folder: Path, name: str) -> Path:
    """Path below the encoder folder.

    Args:
        folder: Folder of an encoder.
        name: Relative path, as a file of the folder names it.

    Returns:
        `folder / name`. It need not exist.

    Raises:
        UserError: The path leaves the folder.
    """
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{folder}: {short(repr(name))} is not a folder of this encoder")
    return folder / name


TOKEN_STATES, EMBEDDING, SCORES = "token_embeddings", "sentence_embedding", "scores"
"""What sentence-transformers calls the states of tokens, the embedding, and the scores of pairs."""

ORDER = {
    "Transformer": 0,
    "StaticEmbedding": 0,
    "WeightedLayerPooling": 1,
    "Pooling": 2,
    "Dense": 3,
    "LayerNorm": 3,
    "Normalize": 3,
    "Dropout": 9,
}
"""Supported modules, in their only supported order. Dropout may appear anywhere."""

OTHERWISE = "Use another model, or load its transformer alone and choose a pooling"


def _sentence_transformers(folder: Path, modules: list[dict[str, Any]]) -> Layout:
    settings = read_model_settings(folder)
    layout, rank = (
        Layout(transformer=folder, normalize=False, prompts=prompts_of(settings, folder / PROMPTS_FILE)),
        -1,
    )
    _check_use(folder, settings)
    chains: Chains = {EMBEDDING: []}
    is_pooled = False
    for module in modules:
        kind, path = _kind(module["type"], folder), inside(folder, module["path"])
        config = read_module(path, kind)
        if kind == "Dropout":  # idle in a trained model
            continue
        if kind == "Dense" and rank == 0 and config.get("module_input_name") == TOKEN_STATES:
            layout.projections.append(path)
            layout.token_layers += 1
            continue
        repeats = ORDER[kind] == rank and rank < ORDER["Dense"]
        if ORDER[kind] < rank or repeats or (rank < 0 and ORDER[kind]):
            raise UserError(
                f"{folder / MODULES_FILE}: {module['path']}: {kind} is in an unsupported order. {OTHERWISE}"
            )
        rank = ORDER[kind]
        match kind:
            case "Transformer":
                layout.transformer = path
                about = read_transformer_settings(path, settings.get("model_type") or SENTENCES)
                layout.max_length = about.get("max_length")
            case "StaticEmbedding":
                layout.transformer, layout.pooling, is_pooled = path, "mean", True
            case "WeightedLayerPooling":
                # Without the states of all layers it is passed over.
                gives_layers = any(stated(layout.transformer, "output_hidden_states"))
                layout.pooling = _layers_pooled(path) if gives_layers else None
            case "Pooling":
                of_layers, is_pooled = layout.pooling, True
                layout.pooling, layout.pooling_error = _pooling(config, path)
                if of_layers and layout.pooling != "mean":
                    layout.pooling_error = f"{path}: of several layers only the mean is supported"
                layout.pooling = of_layers or layout.pooling
                layout.prompts = replace(layout.prompts, include_prompt=config.get("include_prompt", True))
            case _:
                _put_behind(chains, kind, path, config)
    if SCORES in chains:
        layout.head, layout.projections = [*layout.projections, *chains[SCORES]], []
    else:
        chain = chains[EMBEDDING]
        layout.normalize = chain[-1:] == [None]
        layout.projections += chain[:-1] if layout.normalize else chain
    if layout.token_layers and not layout.head:
        raise UserError(
            f"{layout.projections[0]}: module_input_name={TOKEN_STATES}: a Dense layer before pooling is read in "
            f"cross-encoders alone. {OTHERWISE}"
        )
    if rank < 0:
        raise UserError(f"{folder / MODULES_FILE}: expected a list of modules, the first one a Transformer")
    if not is_pooled and settings.get("model_type") != PAIRS:
        layout.pooling_error = (
            f"{folder / MODULES_FILE}: lists no Pooling, so sentence-transformers gives no embedding of a sentence. "
            "Add the Pooling that the encoder was trained with, or choose one in a job of train.py: "
            "backbone.pooling=mean"
        )
    similarity = settings.get("similarity_fn_name") or "cosine"
    if similarity != "cosine" and (not layout.normalize or similarity != "dot"):
        raise UserError(
            f"{folder / PROMPTS_FILE}: similarity_fn_name is {short(repr(similarity))}, but pairs are scored by the "
            "cosine here. Write cosine there to use the encoder so"
        )
    return layout


def _kind(type_name: str, folder: Path) -> str:
    """`Pooling` from sentence_transformers.models.Pooling, whatever the version called its package."""
    package, _, kind = type_name.rpartition(".")
    if package.split(".")[0] == "sentence_transformers" and kind in ORDER:
        return kind
    raise UserError(
        f"{folder}/{MODULES_FILE}: module {type_name} is not supported. Supported: {', '.join(ORDER)}. "
        f"{OTHERWISE}"
    )


def _check_use(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise UserError for a folder without sentence embeddings, and for embeddings that are truncated by default."""
    kind = settings.get("model_type") or "SentenceTransformer"
    if kind not in ("SentenceTransformer", "CrossEncoder"):
        raise UserError(
            f"{folder}: holds a {kind} of sentence-transformers, which has no embeddings of sentences"
        )
    if settings.get("truncate_dim") is not None:
        raise UserError(
            f"{folder / PROMPTS_FILE}: truncate_dim={settings['truncate_dim']} truncates embeddings. "
            "Write null there, and set it when the encoder is loaded: truncate_dim=…"
        )


def _layers_pooled(folder: Path) -> str | None:
    """Our name of a pooling with the weights of a WeightedLayerPooling. None for the last layer alone."""
    from safetensors.numpy import load_file

    config = read_module(folder, "WeightedLayerPooling")
    start, layers = int(config.get("layer_start", 4)), int(config.get("num_hidden_layers", 12))
    stored = load_file(folder / "model.safetensors")["layer_weights"]
    shares = {start + number: float(weight / stored.sum()) for number, weight in enumerate(stored) if weight}
    if shares == {layers: 1.0}:
        return None
    if shares == {1: 0.5, layers: 0.5}:
        return "first_last"
    raise UserError(
        f"{folder}: weights of layers are supported where they are those of the first and the last, equal, and no other"
    )


Chains = dict[str, list[Path | None]]
"""A name by which modules behind the pooling hand something on → the layers that make it of the pooled state."""


def _put_behind(chains: Chains, kind: str, path: Path, config: Mapping[str, Any]) -> None:
    """Append a module to the chain of its input. Raises UserError if no module returns that input.

    An output that nothing reads is ignored, as in sentence-transformers.
    """
    source = config.get("module_input_name") or EMBEDDING
    target = config.get("module_output_name") or source
    if TOKEN_STATES in (source, target):
        key = "module_input_name" if source == TOKEN_STATES else "module_output_name"
        raise UserError(
            f"{path / 'config.json'}: {key}={TOKEN_STATES}: behind the pooling only the embedding is read here. "
            f"{OTHERWISE}"
        )
    if source not in chains:
        if kind == "Normalize":  # it passes over what is not there
            return
        raise UserError(
            f"{path / 'config.json'}: module_input_name={short(repr(source))}: no module before it gives that. Name "
            f"{EMBEDDING}, or one of module_output_name before it"
        )
    chain = chains[source]
    if kind != "Normalize":
        chains[target] = [*chain, path]
    else:
        chains[target] = chain if chain[-1:] == [None] else [*chain, None]  # of length 1 is of length 1


def _pooling(config: Mapping[str, Any], folder: Path) -> tuple[str | None, str | None]:
    """Our name of the pooling, or the reason why it is not supported."""
    modes = config.get("pooling_mode")
    if modes is None:
        switches = [name for name, on in config.items() if name.startswith("pooling_mode_") and on]
        modes = [mode_of(switch) for switch in switches] or ["mean"]
    modes = [mode_of(mode) for mode in ([modes] if isinstance(modes, str) else modes)]
    for name, pooling in POOLINGS.items():
        if modes == [pooling.mode] and not pooling.reads_first_layer:
            return name, None
    return None, (
        f"{folder}: pooling {' + '.join(modes)} is not supported. A job of train.py can take another one: "
        "backbone.pooling=mean"
    )
