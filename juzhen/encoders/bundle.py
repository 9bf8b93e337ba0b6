"""An encoder as a folder that others can load, written in one piece, with a README.

Encoders of sentences are in the layout of sentence-transformers; a cross-encoder is transformers' own files, and
beside them the head and what it needs to know.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_model

from juzhen.core.markup import in_markdown
from juzhen.core.whole import whole_folder, write_json, write_text
from juzhen.encoders.cross_encoder import SETTINGS_FILE, CrossEncoder
from juzhen.encoders.layout import LENGTH_FILE, MODULES_FILE, OWN_FILE, POOLING_OF_MODE
from juzhen.encoders.locate import HEAD_FILE, SCORE_FILE, encoder_folder
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


_FRONT_MATTER = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-similarity, feature-extraction, juzhen]
---
"""

_USE = {
    True: """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("<this folder>")
embeddings = model.encode(["今天天气很好", "今天是个好天气"])
```
""",
    False: """sentence-transformers cannot compute it, so there is no `modules.json`; load it with juzhen:

```python
from juzhen import SentenceEncoder

encoder = SentenceEncoder.load("<this folder>")
embeddings = encoder.encode(["今天天气很好", "今天是个好天气"])
```
""",
}

_SCORE = f"""
These are the embeddings alone. A pair was trained to be scored by uᵀWv and not by the cosine: sentence-transformers
knows nothing of {SCORE_FILE}, `juzhen score` does, and `SentenceEncoder.load("<this folder>").score(pairs)`.
"""

_USE_CROSS = """```python
from juzhen import CrossEncoder

encoder = CrossEncoder.load("<this folder>")
scores = encoder.score([("今天天气很好", "今天是个好天气")])
```
"""


def save_encoder(encoder: PooledEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the encoder to `folder` and gives the folder back; one that this has written is replaced.

    card  facts for the README: `name` is the title, the rest becomes a table (nested dicts become tables of
          their own)

    The files appear together (`juzhen.core.whole`). With a pooling that
    sentence-transformers lacks, modules.json is left out, so that it cannot load the folder with another
    meaning. Raises UserError when the folder holds anything that was not written so, or was changed since.
    """
    return _write_folder(folder, lambda part: _write_files(encoder, part, card))


def _write_folder(folder: str | Path, write: Callable[[Path], None]) -> Path:
    """Has `write` fill a folder beside `folder`, and moves it there in one piece. Errors: as `save_encoder`."""
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as part:
        write(part)
    return folder


def load_encoder(folder_or_run: str | Path) -> SentenceEncoder:
    """The encoder in a folder or of a run, in training mode. Errors: as `SentenceEncoder.load`."""
    encoder_folder(folder_or_run)  # the hub is not asked
    return SentenceEncoder.load(folder_or_run).train()


def _write_files(encoder: PooledEncoder, folder: Path, card: dict[str, Any]) -> None:
    _save_transformer(encoder, folder)
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
        _json(folder / OWN_FILE, own | ({"prompts": prompts.as_dict()} if prompts else {}))
    text = _model_card(encoder, card, loads_elsewhere=loads_elsewhere)
    write_text(folder / "README.md", text, in_own_folder=True)


def _save_transformer(encoder: PooledEncoder, folder: Path) -> None:
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


def _json(path: Path, content: Any) -> None:
    write_json(path, content, indent=2, in_own_folder=True)


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
    _json(folder / MODULES_FILE, modules)
    _json(folder / "1_Pooling" / "config.json", pooling)
    _json(folder / LENGTH_FILE, {"max_seq_length": encoder.max_length, "do_lower_case": False})
    _json(
        folder / PROMPTS_FILE,
        {"__version__": versions} | encoder.prefix.as_dict() | {"similarity_fn_name": "cosine"},
    )


def save_cross_encoder(encoder: CrossEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the cross-encoder to `folder` and gives it back; one that is there already is replaced whole."""
    return _write_folder(folder, lambda part: _write_cross_encoder(encoder, part, card))


def _write_cross_encoder(encoder: CrossEncoder, folder: Path, card: dict[str, Any]) -> None:
    _save_transformer(encoder.inner, folder)
    save_model(encoder.head, str(folder / HEAD_FILE))
    settings = {
        "outputs": encoder.outputs,
        "pooling": encoder.inner.pooling,
        "segments": encoder.segments,
        "symmetric": encoder.symmetric,
    }
    _json(folder / SETTINGS_FILE, settings)
    facts = dict(card)
    title = facts.pop("name", "Cross-encoder")
    own = {"architecture": encoder.backbone.config.model_type} | settings
    own["tokens at most"] = encoder.inner.max_length
    text = f"# {in_markdown(title)}\n\nA cross-encoder trained with juzhen: it scores pairs of sentences.\n\n"
    text += fact_table(own | facts) + f"\n## Use\n\n{_USE_CROSS}"
    write_text(folder / "README.md", text, in_own_folder=True)


def _model_card(encoder: PooledEncoder, facts: dict[str, Any], *, loads_elsewhere: bool) -> str:
    """Markdown: what the encoder is, how to load it, and the facts as tables.

    facts            `name` is the title; values that are dicts become sections of their own
    loads_elsewhere  whether sentence-transformers can load the folder
    """
    facts = dict(facts)
    title = facts.pop("name", "Sentence encoder")
    own = {
        "architecture": encoder.backbone.config.model_type,
        "pooling": encoder.pooling,
        "normalized": "yes" if encoder.normalize else "no",
        "dimensions": encoder.dim,
        "tokens at most": encoder.max_length,
    }
    own |= {"prompt": f"{encoder.prompt!r} before every sentence"} if encoder.prompt else {}
    own |= {"score": f"uᵀWv of embeddings of length 1, W in {SCORE_FILE}"} if encoder.score_head else {}
    if encoder.prompts is not None:
        prompts = encoder.prompts.as_dict().items()
        facts |= {"templates": {key: value for key, value in prompts if value is not None}}
    plain = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in facts.items() if isinstance(value, dict)}
    parts = [
        _FRONT_MATTER if loads_elsewhere else "",
        f"# {in_markdown(title)}\n\nA sentence encoder trained with juzhen.\n\n",
        fact_table(own | plain),
        f"\n## Use\n\n{_USE[loads_elsewhere]}",
        _SCORE if encoder.score_head else "",
        *(
            f"\n## {in_markdown(_words(name)).capitalize()}\n\n{fact_table(rows)}"
            for name, rows in sections.items()
        ),
    ]
    return "".join(parts)


def fact_table(rows: dict[str, Any]) -> str:
    """A Markdown table of two columns without headings."""
    lines = [f"| {in_markdown(_words(key))} | {in_markdown(_cell(value))} |" for key, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def _words(key: str) -> str:
    return str(key).replace("_", " ")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return "–" if value is None else str(value)
