"""The encoder as a folder that others can load: sentence-transformers' layout, written in one piece."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from juzhen.core.errors import UserError
from juzhen.core.whole import whole_folder
from juzhen.encoders.card import model_card
from juzhen.encoders.layout import LENGTH_FILE, MODULES_FILE, OWN_FILE, POOLING_OF_MODE
from juzhen.encoders.locate import encoder_folder
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.prefix import PROMPTS_FILE
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.transformer import quiet

_MODE_OF_POOLING = {pooling: mode for mode, pooling in POOLING_OF_MODE.items()}
_SWITCHES = {
    "mean": "mean_tokens",
    "cls": "cls_token",
    "max": "max_tokens",
    "weightedmean": "weightedmean_tokens",
}


def save_encoder(encoder: PooledEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the encoder to `folder` and gives the folder back; an encoder that is there already is replaced.

    card  facts for the README: `name` is the title, the rest becomes a table (nested dicts become tables of
          their own)

    The files appear together (`juzhen.core.whole`). With a pooling that
    sentence-transformers lacks, modules.json is left out, so that it cannot load the folder with another
    meaning. Raises UserError when the folder holds something that is no encoder.
    """
    return write_folder(folder, lambda part: _write_files(encoder, part, card))


def write_folder(folder: str | Path, write: Callable[[Path], None]) -> Path:
    """Has `write` fill a folder beside `folder`, and moves it there in one piece. Errors: as `save_encoder`."""
    folder = Path(folder)
    if folder.exists() and not (folder / "config.json").is_file() and any(folder.iterdir()):
        raise UserError(f"{folder}: holds other files; an encoder is written to a new or empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as part:
        write(part)
    return folder


def load_encoder(folder_or_run: str | Path) -> SentenceEncoder:
    """The encoder in a folder or of a run, in training mode. Errors: as `SentenceEncoder.load`."""
    encoder_folder(folder_or_run)  # the hub is not asked
    return SentenceEncoder.load(folder_or_run).train()


def _write_files(encoder: PooledEncoder, folder: Path, card: dict[str, Any]) -> None:
    save_transformer(encoder, folder)
    if encoder.score_head is not None:
        encoder.score_head.save(folder)
    names = []
    for number, projection in enumerate(encoder.output_layers, start=2):
        names.append(f"{number}_{projection.kind}")
        projection.save(folder / names[-1])
    prompts = encoder.prompts
    loads_elsewhere = prompts is None and encoder.pooling in _MODE_OF_POOLING
    if loads_elsewhere:
        _write_modules(encoder, folder, names)
    else:
        own = {
            "pooling": encoder.pooling,
            "normalize": encoder.normalize,
            "max_length": encoder.input_length,
            "projections": names,
        }
        prefix = encoder.prefix
        if prefix.prompts:
            own["prefix"] = prefix.as_dict() | {"include_prompt": prefix.include_prompt}
        write_json(folder / OWN_FILE, own | ({"prompts": prompts.as_dict()} if prompts else {}))
    text = model_card(encoder, card, loads_elsewhere=loads_elsewhere)
    (folder / "README.md").write_text(text, encoding="utf-8")


def save_transformer(encoder: PooledEncoder, folder: Path) -> None:
    """Backbone and tokenizer as transformers writes them; the tokenizer knows the maximal length."""
    with quiet():
        encoder.backbone.save_pretrained(folder)
    tokenizer = encoder.tokenizer
    length_before = tokenizer.model_max_length
    if tokenizer.is_fast:
        # The last call leaves its truncation behind; equal encoders should give equal files.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = encoder.input_length
    tokenizer.save_pretrained(folder)
    tokenizer.model_max_length = length_before


def _write_modules(encoder: PooledEncoder, folder: Path, projections: list[str]) -> None:
    """The files by which sentence-transformers knows what follows the transformer."""
    paths = [("Transformer", ""), ("Pooling", "1_Pooling")]
    paths += [(name.partition("_")[2], name) for name in projections]
    if encoder.normalize:
        paths.append(("Normalize", f"{len(paths)}_Normalize"))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(paths)
    ]
    for _, path in paths:
        (folder / path).mkdir(exist_ok=True)
    mode = _MODE_OF_POOLING[encoder.pooling]
    pooling = {"word_embedding_dimension": encoder.backbone.config.hidden_size}
    pooling |= {f"pooling_mode_{switch}": name == mode for name, switch in _SWITCHES.items()}
    pooling |= {} if encoder.prefix.include_prompt else {"include_prompt": False}
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    write_json(folder / MODULES_FILE, modules)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(folder / LENGTH_FILE, {"max_seq_length": encoder.max_length, "do_lower_case": False})
    write_json(
        folder / PROMPTS_FILE,
        {"__version__": versions} | encoder.prefix.as_dict() | {"similarity_fn_name": "cosine"},
    )


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
