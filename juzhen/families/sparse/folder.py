"""The folder of a sparse encoder, as sentence-transformers writes a SparseEncoder; its transformer is a masked LM."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.errors import UserError
from juzhen.core.text import in_markdown, short
from juzhen.encoders.folder_settings import (
    LENGTH_FILE,
    ROUTER,
    SPARSE,
    naming,
    read_module,
    read_transformer_settings,
)
from juzhen.encoders.layout import MODULES_FILE, inside, read_chains, read_model_settings
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, prompts_of
from juzhen.encoders.save import fact_table, licence_note, save_tokenizer
from juzhen.encoders.thresholds import write_thresholds
from juzhen.families.sparse.pooling import ACTIVATIONS, POOLINGS

PACKAGE = "sentence_transformers"
TASK = {
    "transformer_task": "fill-mask",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "token_embeddings",
}
"""What sentence-transformers says of a transformer that gives logits over its vocabulary."""

FOLDER = "1_SpladePooling"

ALONE = (
    "Save the route of documents as a model of its own, SparseEncoder(modules=[*model[0].sub_modules['document']]) of "
    "sentence-transformers, and load that"
)
WAYS_OUT = {
    "SparseAutoEncoder": (
        "For the dense embeddings before the SparseAutoEncoder take it out of this file, put SentenceTransformer for "
        f"model_type in {PROMPTS_FILE}, and load a SentenceEncoder"
    )
}
"""A module that is not computed here → what can be done."""

USE = """```python
from juzhen import SparseEncoder

encoder = SparseEncoder.load("{place}")
scores = encoder.similarity(["怎么退货"], ["如何申请退款", "今天天气很好"])
encoder.decode(encoder.encode_document("如何申请退款"), top=10)  # [(token, weight), …]
```

A score is the dot product, any number from 0 on. sentence-transformers gives the same: `SparseEncoder("{place}")`.
"""


@dataclass(frozen=True)
class SparseLayout:
    """Where the masked language model lies, and what is made of its logits. max_length: None: the folder is silent."""

    transformer: Path
    pooling: str
    activation: str
    max_length: int | None
    prompts: Prompts = field(default_factory=Prompts)


def read_sparse(folder: Path) -> SparseLayout:
    """What `folder` says. Raises UserError for what is not computed here: the vectors would be other ones."""
    with naming(f"{folder}: {MODULES_FILE} or {PROMPTS_FILE} cannot be understood"):
        settings, chains = read_model_settings(folder), read_chains(folder)
        if chains["query"] != chains["document"]:
            raise UserError(
                f"{folder / MODULES_FILE}: {ROUTER}: queries and documents are read alike here. {ALONE}"
            )
        modules = chains["document"]
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        if kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
            way_out = next((WAYS_OUT[kind] for kind in kinds if kind in WAYS_OUT), "Use another model")
            raise UserError(
                f"{folder / MODULES_FILE}: {', '.join(kinds)}: expected Transformer, SpladePooling of a sparse "
                f"encoder. {way_out}"
            )
        transformer, place = (inside(folder, module["path"]) for module in modules)
        pooling, text = read_module(place, kinds[1]), read_transformer_settings(transformer, SPARSE)
        if kinds[0] == "Transformer" and text.get("transformer_task") != TASK["transformer_task"]:
            raise UserError(
                f"{transformer}: a sparse encoder reads logits, transformer_task {TASK['transformer_task']}"
            )
    similarity = settings.get("similarity_fn_name") or "dot"
    if similarity != "dot" or settings.get("max_active_dims") is not None:
        name = "max_active_dims" if similarity == "dot" else "similarity_fn_name"
        raise UserError(
            f"{folder / PROMPTS_FILE}: {name} is {short(repr(settings[name]))}; here all numbers count, and texts are "
            "scored by their dot product: put null in its place to use the encoder so"
        )
    chosen = pooling.get("pooling_strategy", "max"), pooling.get("activation_function", "relu")
    if chosen[0] not in POOLINGS or chosen[1] not in ACTIVATIONS:
        raise UserError(
            f"{place}: {' and '.join(map(str, chosen))}; expected one of {', '.join(POOLINGS)}, and of "
            f"{', '.join(ACTIVATIONS)}"
        )
    return SparseLayout(
        transformer, *chosen, text.get("max_length"), prompts_of(settings, folder / PROMPTS_FILE)
    )


def write_sparse(encoder: Any, folder: Path, card: dict[str, Any], *, place: str) -> None:
    """Fills an empty folder. encoder: a `SparseEncoder`; the others as of `save_encoder`."""
    encoder.head.save(encoder.backbone, folder)
    save_tokenizer(encoder, folder)
    types = (
        ("", f"{PACKAGE}.base.modules.transformer.Transformer"),
        (FOLDER, f"{PACKAGE}.sparse_encoder.modules.splade_pooling.SpladePooling"),
    )
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(types)
    ]
    (folder / FOLDER).mkdir()
    rules = {"pooling_strategy": encoder.strategy, "activation_function": encoder.activation}
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    settings = {"__version__": versions, "model_type": SPARSE, "similarity_fn_name": "dot"}
    _json(folder / FOLDER / "config.json", rules | {"embedding_dimension": encoder.dim})
    _json(folder / MODULES_FILE, listed)
    _json(folder / PROMPTS_FILE, settings | encoder.prompts.as_dict())
    _json(folder / LENGTH_FILE, TASK)
    write_text(folder / "README.md", _card(encoder, card, place=place), in_own_folder=True)
    write_thresholds(folder, card)


def _json(path: Path, content: Any) -> None:
    write_json(path, content, indent=2, in_own_folder=True)


def _card(encoder: Any, facts: dict[str, Any], *, place: str) -> str:
    facts = dict(facts)
    title = facts.pop("name", "Sparse encoder")
    features: dict[str, Any] = {
        "architecture": encoder.backbone.config.model_type,
        "tokens of the vocabulary": encoder.dim,
        "tokens of a text": encoder.max_length,
        "pooling": f"{encoder.strategy}, {encoder.activation}",
    }
    head = "library_name: sentence-transformers\ntags: [sparse-encoder, splade, juzhen]\n"
    head += f"license: {encoder.licence}\n" if encoder.licence else ""
    plain = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in facts.items() if isinstance(value, dict)}
    parts = [
        f"---\n{head}---\n# {in_markdown(title)}\n\nA sparse encoder (SPLADE) trained with juzhen: a weight for each "
        "token of the vocabulary, most of them 0.\n",
        f"{licence_note(encoder.licence)}\n{fact_table(features | plain)}\n## Use\n\n{USE.replace('{place}', place)}",
        *(
            f"\n## {in_markdown(name.replace('_', ' ')).capitalize()}\n\n{fact_table(rows)}"
            for name, rows in sections.items()
        ),
    ]
    return "".join(parts)
