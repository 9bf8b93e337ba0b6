"""The folder of an encoder of token vectors, as PyLate writes it: sentence-transformers 6 opens it, too.

Where PyLate could not compute it, the folder is in the layout of sentence-transformers alone.
"""

from pathlib import Path
from typing import Any

import torch
import transformers

from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.text import in_markdown
from juzhen.encoders.folder_settings import LENGTH_FILE
from juzhen.encoders.layout import MODULES_FILE
from juzhen.encoders.prompts import PROMPTS_FILE
from juzhen.encoders.save import fact_table, licence_note, save_transformer
from juzhen.encoders.thresholds import write_thresholds
from juzhen.families.late.layout import TOKENS, written_settings

PACKAGE = "sentence_transformers"
TYPES = {
    "Transformer": f"{PACKAGE}.base.modules.transformer.Transformer",
    "Dense": f"{PACKAGE}.base.modules.dense.Dense",
    "MultiVectorMask": f"{PACKAGE}.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
    "Normalize": f"{PACKAGE}.base.modules.normalize.Normalize",
}
TYPES_OF_PYLATE = {"Transformer": f"{PACKAGE}.models.Transformer", "Dense": "pylate.models.Dense.Dense"}

USE = """```python
from juzhen import MultiVectorEncoder

encoder = MultiVectorEncoder.load("{place}")
scores = encoder.similarity(["怎么退货"], ["如何申请退款", "今天天气很好"])
```

A score is the {score} over the tokens of the query of the nearest token of the document. {elsewhere}
"""
ELSEWHERE = {
    True: 'sentence-transformers 6 gives the same (`MultiVectorEncoder("{place}")`), and PyLate {pylate} '
    '(`pylate.models.ColBERT("{place}")`).',
    False: 'sentence-transformers 6 gives the same: `MultiVectorEncoder("{place}")`.',
}


def write_multi_vector(encoder: Any, folder: Path, card: dict[str, Any], *, place: str) -> None:
    """Fills an empty folder. encoder: a `MultiVectorEncoder`; the others as of `save_encoder`."""
    rules, prompts = encoder.rules, encoder.prompts
    vocabulary = encoder.tokenizer.get_vocab()
    markers = [prompts.texts.get(name, "") for name in ("query", "document")]
    is_pylate = (
        rules.is_fixed
        and rules.token in (None, encoder.tokenizer.mask_token)
        and all(not text or text in vocabulary for text in markers)
        and {*prompts.texts} <= {"query", "document"}
    )
    save_transformer(encoder, folder)
    kinds = [("Transformer", "")]
    for number, layer in enumerate(encoder.output_layers, start=1):
        path = f"{number}_{layer.kind}"
        layer.save(folder / path)
        kinds.append((layer.kind, path))
        _json(folder / path / "config.json", layer.config() | ({} if is_pylate else TOKENS))
    if not is_pylate:
        skips = {
            "skiplist_words": list(rules.skipped),
            "skiplist_tasks": ["document"],
            "keep_only_token_ids": None,
        }
        for kind, settings in (("MultiVectorMask", skips), ("Normalize", TOKENS)):
            path = f"{len(kinds)}_{kind}"
            (folder / path).mkdir()
            _json(folder / path / "config.json", settings)
            kinds.append((kind, path))
    types = TYPES_OF_PYLATE if is_pylate else TYPES
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": types[kind]}
        for number, (kind, path) in enumerate(kinds)
    ]
    settings, lengths = written_settings(rules, prompts, is_pylate=is_pylate, sums=encoder.sums)
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    _json(folder / MODULES_FILE, listed)
    _json(folder / PROMPTS_FILE, {"__version__": versions} | settings)
    _json(folder / LENGTH_FILE, lengths)
    text = _card(encoder, card, is_pylate=is_pylate, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


def _json(path: Path, content: Any) -> None:
    write_json(path, content, indent=2, in_own_folder=True)


def _card(encoder: Any, facts: dict[str, Any], *, is_pylate: bool, place: str) -> str:
    facts = dict(facts)
    title, rules = facts.pop("name", "Encoder of token vectors"), encoder.rules
    features: dict[str, Any] = {
        "architecture": encoder.backbone.config.model_type,
        "numbers of a token": encoder.dim,
        "tokens of a query": f"{rules.query_length}, filled up" if rules.expand_to else rules.query_length,
        "tokens of a document": rules.document_length,
    }
    score, pylate = ("sum", "too") if encoder.sums else ("mean", "this score times the number of tokens")
    use = USE.replace("{elsewhere}", ELSEWHERE[is_pylate]).replace("{score}", score)
    use = use.replace("{pylate}", pylate).replace("{place}", place)
    head = "library_name: sentence-transformers\ntags: [colbert, late-interaction, juzhen]\n"
    head += f"license: {encoder.licence}\n" if encoder.licence else ""
    plain = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in facts.items() if isinstance(value, dict)}
    parts = [
        f"---\n{head}---\n# {in_markdown(title)}\n\nA ColBERT trained with juzhen: a vector for each token.\n",
        f"{licence_note(encoder.licence)}\n{fact_table(features | plain)}\n## Use\n\n{use}",
        *(
            f"\n## {in_markdown(name.replace('_', ' ')).capitalize()}\n\n{fact_table(rows)}"
            for name, rows in sections.items()
        ),
    ]
    return "".join(parts)
