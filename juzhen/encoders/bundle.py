"""An encoder as a folder that others can load, written in one piece, with a README.

Encoders of sentences are in the layout of sentence-transformers; a cross-encoder is transformers' own files, and
beside them the head and what it needs to know.
"""

import copy
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file, save_model

from juzhen.core.atomic_write import atomic_write_dir, write_json, write_text
from juzhen.core.lazy_names import offered
from juzhen.encoders.decision import write_thresholds
from juzhen.encoders.frozen import has_adapter, is_ours_alone
from juzhen.encoders.grades import GRADES
from juzhen.encoders.layout import EMBEDDING, MODULES_FILE, OWN_FILE, PAIRS_FILE, SCORES, TOKEN_STATES
from juzhen.encoders.locate import HEAD_FILE
from juzhen.encoders.model_card import HERE, model_card, pair_card
from juzhen.encoders.pooled_encoder import TYPES, PooledEncoder
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.projection import IDENTITY, Projection
from juzhen.encoders.prompts import PROMPTS_FILE
from juzhen.encoders.proof import layers_that_add_up
from juzhen.encoders.special_tokens import write_tokenizer
from juzhen.encoders.static import StaticTokens
from juzhen.encoders.their_settings import LENGTH_FILE
from juzhen.encoders.transformer import quiet


def save_encoder(encoder: Any, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes a sentence encoder or a cross-encoder to `folder` and gives the folder back; one of ours is replaced.

    card  facts for the README: `name` is the title, the rest becomes a table (nested dicts become tables of
          their own); `thresholds`, set → score, are those by which `encoder.is_same` decides

    The files appear together (`juzhen.core.atomic_write`). What sentence-transformers cannot compute has a
    modules.json that names our class, so that it cannot load the folder with another meaning. Raises UserError when
    the folder holds anything that was not written so, or was changed since.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_dir(folder) as part:
        write_encoder(encoder, part, card)
    return folder


def write_encoder(encoder: Any, folder: Path, card: dict[str, Any], *, place: str = HERE) -> None:
    """Fills an empty folder as `save_encoder` does. place: what the README calls the folder."""
    if hasattr(encoder, "write_files"):
        encoder.write_files(folder, card, place)
        return
    write = _write_files if isinstance(encoder, PooledEncoder) else _write_cross_encoder
    write(encoder, folder, card, place)


def _write_files(encoder: PooledEncoder, folder: Path, card: dict[str, Any], place: str) -> None:
    save_transformer(encoder, folder)
    if encoder.score_head is not None:
        encoder.score_head.save(folder)
    pooling = _their_pooling(encoder)
    layers = _write_layers(encoder, folder, start=len(pooling) + 1)
    templates, prompts = encoder.templates, encoder.prompts
    is_theirs = loads_elsewhere(encoder)
    if is_theirs:
        settings = prompts.as_dict() | {"similarity_fn_name": "cosine"}
        if encoder.normalize:
            layers = {**layers, f"{len(pooling) + len(layers) + 1}_Normalize": None}
        _write_modules(encoder, folder, pooling | layers, settings)
    else:
        settings_of_ours = {
            "pooling": encoder.pooling,
            "normalize": encoder.normalize,
            "max_length": encoder.input_length,
            "projections": list(layers),
        }
        if prompts.texts:
            settings_of_ours["prefix"] = prompts.as_dict() | {"include_prompt": prompts.include_prompt}
        _json(folder / OWN_FILE, settings_of_ours | ({"prompts": templates.as_dict()} if templates else {}))
        _refuse_elsewhere(folder, "PromptEncoder" if templates else "SentenceEncoder")
    text = model_card(encoder, card, loads_elsewhere=is_theirs, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


def loads_elsewhere(encoder: PooledEncoder) -> bool:
    """Whether sentence-transformers can compute what the encoder computes."""
    has_own = encoder.templates is not None or encoder.score_head is not None
    pools = is_table(encoder) or bool(_their_pooling(encoder))
    return not has_own and pools and not is_ours_alone(encoder.backbone)


def is_table(encoder: PooledEncoder) -> bool:
    """Whether its embeddings are the means of a table of tokens, which sentence-transformers has as one module."""
    is_mean = encoder.pooling == "mean" and encoder.prompts.include_prompt
    return is_mean and isinstance(encoder.backbone, StaticTokens)


def save_transformer(encoder: PooledEncoder, folder: Path, *, segments: bool | None = None) -> None:
    """Backbone and tokenizer as transformers writes them; the tokenizer knows the maximal length.

    segments  the tokenizer says which of two sentences a token belongs to; None: as it does now
    """
    if has_adapter(encoder.backbone):
        offered("adapters", "save")(encoder.backbone, folder)
    else:
        with quiet():
            encoder.backbone.save_pretrained(folder)
    save_tokenizer(encoder, folder, segments=segments)


def save_tokenizer(encoder: PooledEncoder, folder: Path, *, segments: bool | None = None) -> None:
    """The tokenizer, as `save_transformer` writes it."""
    tokenizer = copy.copy(encoder.tokenizer)
    if tokenizer.is_fast:
        # The last call leaves its truncation behind; equal encoders should give equal files.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = encoder.input_length
    if segments is not None:
        names = [name for name in tokenizer.model_input_names if name != TYPES]
        tokenizer.model_input_names = [*names, TYPES] if segments else names
        # Else it is written only where the file that the tokenizer was read from has this key.
        tokenizer.init_kwargs = tokenizer.init_kwargs | {"model_input_names": tokenizer.model_input_names}
    write_tokenizer(tokenizer, folder)
    if isinstance(encoder.backbone, StaticTokens):  # who reads this file alone has to cut as we do
        tokenizer.backend_tokenizer.enable_truncation(encoder.input_length)
        write_text(folder / "tokenizer.json", tokenizer.backend_tokenizer.to_str(), in_own_folder=True)
        tokenizer.backend_tokenizer.no_truncation()


def _json(path: Path, content: Any) -> None:
    write_json(path, content, indent=2, in_own_folder=True)


TOKENS = {"module_input_name": TOKEN_STATES, "module_output_name": TOKEN_STATES}
"""By which sentence-transformers knows a layer over the states of tokens."""

Modules = dict[str, dict[str, Any] | None]
"""Folder of a module of sentence-transformers → its config.json; None: it is written, or there is none."""


def _write_layers(encoder: PooledEncoder, folder: Path, *, start: int) -> Modules:
    names = []
    for number, layer in enumerate(encoder.output_layers, start=start):
        names.append(f"{number}_{layer.kind}")
        layer.save(folder / names[-1])
        if len(names) <= encoder.token_layers:
            _json(folder / names[-1] / "config.json", layer.config() | TOKENS)
    return dict.fromkeys(names)


def _their_pooling(encoder: PooledEncoder) -> Modules:
    """The modules of sentence-transformers that pool as this encoder does; none where there are none."""
    pooling = POOLINGS[encoder.pooling]
    if pooling.switch is None or isinstance(encoder.backbone, StaticTokens):
        return {}
    size = {"word_embedding_dimension": encoder.backbone.config.hidden_size}
    modules: Modules = {}
    if pooling.reads_first_layer:
        layers = layers_that_add_up(encoder)
        if layers is None:
            return {}
        modules["1_WeightedLayerPooling"] = size | {"layer_start": 1, "num_hidden_layers": layers}
    switches = {other.switch: other.switch == pooling.switch for other in POOLINGS.values() if other.switch}
    prompt = {} if encoder.prompts.include_prompt else {"include_prompt": False}
    return modules | {f"{len(modules) + 1}_Pooling": size | switches | prompt}


def _write_modules(encoder: PooledEncoder, folder: Path, modules: Modules, settings: dict[str, Any]) -> None:
    """The files by which sentence-transformers knows what follows the transformer, and how it is used."""
    kinds = [
        ("StaticEmbedding" if is_table(encoder) else "Transformer", ""),
        *((path.partition("_")[2], path) for path in modules),
    ]
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds)
    ]
    for path, config in modules.items():
        (folder / path).mkdir(exist_ok=True)
        if config is not None:
            _json(folder / path / "config.json", config)
    about: dict[str, Any] = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    if encoder.backbone.dtype != torch.float32:  # they would compute in the precision of the file
        about["model_args"] = {"torch_dtype": "float32"}
    for path, config in modules.items():
        if path.endswith("WeightedLayerPooling") and config:
            about["config_args"] = {"output_hidden_states": True}
            weights = torch.zeros(config["num_hidden_layers"])
            weights[0] = weights[-1] = 1.0
            save_file({"layer_weights": weights}, folder / path / "model.safetensors", {"format": "pt"})
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    _json(folder / MODULES_FILE, listed)
    _json(folder / LENGTH_FILE, about)
    _json(folder / PROMPTS_FILE, {"__version__": versions} | settings)


def _refuse_elsewhere(folder: Path, name: str) -> None:
    """Has sentence-transformers name our class and stop; without modules.json it would make up a model of its own."""
    _json(folder / MODULES_FILE, [{"idx": 0, "name": "0", "path": "", "type": f"juzhen.{name}"}])
    if name == "CrossEncoder":
        _json(folder / PROMPTS_FILE, {"model_type": name})


def _write_cross_encoder(encoder: Any, folder: Path, card: dict[str, Any], place: str) -> None:
    inner = encoder.inner
    save_transformer(inner, folder, segments=encoder.segments if encoder.marks_segments else None)
    save_model(encoder.head, str(folder / HEAD_FILE))
    pooling = _their_pooling(inner)
    layers = _write_layers(inner, folder, start=len(pooling) + 1)
    settings = {
        "outputs": encoder.outputs,
        "pooling": inner.pooling,
        "segments": encoder.segments,
        "symmetric": encoder.symmetric,
    } | ({"layers": list(layers)} if layers else {})
    if inner.token_layers:
        settings["token_layers"] = inner.token_layers
    if encoder.grades != GRADES.get(encoder.outputs, ()):
        settings["grades"] = list(encoder.grades)
    _json(folder / PAIRS_FILE, settings)
    is_theirs = not encoder.symmetric and not is_ours_alone(inner.backbone)
    if not is_theirs:
        _refuse_elsewhere(folder, "CrossEncoder")
    else:
        before, behind = [*layers][: inner.token_layers], [*layers][inner.token_layers :]
        modules = dict.fromkeys(before) | pooling | dict.fromkeys(behind)
        _write_their_cross_encoder(encoder, folder, modules)
    write_text(
        folder / "README.md",
        pair_card(encoder, settings, card, loads_elsewhere=is_theirs, place=place),
        in_own_folder=True,
    )
    write_thresholds(folder, card)


def _write_their_cross_encoder(encoder: Any, folder: Path, modules: Modules) -> None:
    head = Projection(encoder.dim, encoder.outputs, bias=True, activation=IDENTITY)
    head.linear.load_state_dict(encoder.head.state_dict())
    path = f"{len(modules) + 1}_Dense"
    head.save(folder / path)
    names = {"module_input_name": EMBEDDING, "module_output_name": SCORES}
    settings = {"model_type": "CrossEncoder", "activation_fn": IDENTITY}
    _write_modules(encoder.inner, folder, modules | {path: head.config() | names}, settings)
