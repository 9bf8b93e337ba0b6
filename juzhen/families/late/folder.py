"""Saved folder of a token-vector encoder, in the layout of PyLate or of sentence-transformers 6.

A PyLate folder has a transformer and Dense layers. Everything else is in config_sentence_transformers.json.
sentence-transformers opens it as a MultiVectorEncoder. Its own layout also lists a mask and a normalization as modules,
and is written when PyLate could not compute the encoder.
"""

import math
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, require_number
from juzhen.core.text import short
from juzhen.encoders.folder_settings import (
    LENGTH_FILE,
    PYLATE,
    TOKEN_VECTORS,
    naming,
    read_module,
    read_transformer_settings,
)
from juzhen.encoders.layout import MODULES_FILE, inside, read_model_settings, read_modules
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, prompts_of
from juzhen.encoders.save import (
    card_text,
    save_transformer,
    write_model_settings,
    write_module_list,
    write_settings,
)
from juzhen.encoders.thresholds import write_thresholds

PUNCTUATION = (*string.punctuation, *"，。、；：？！…—·「」『』（）〔〕【】《》〈〉“”‘’～￥")
"""Skipped tokens of documents, in English and Chinese."""

QUERY_LENGTH, DOCUMENT_LENGTH = 32, 180
"""Default lengths of queries and documents in PyLate."""

MARKERS = {"query": "[Q] ", "document": "[D] "}
"""Markers of queries and documents, one token each."""

MEAN, SUM = "meanmaxsim", "maxsim"
"""Names in sentence-transformers of the mean over the tokens of a query, and of the sum, its default."""

TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}


@dataclass(frozen=True)
class MultiVectorSettings:
    """Lengths of queries and documents in tokens, special tokens and markers included.

    Attributes:
        query_length: Longer queries are truncated.
        document_length: Longer documents are truncated.
        expand_to: Shorter queries are filled up to this length with [MASK]. 0: no expansion.
        attends: The other tokens attend to the expansion tokens, too. The expansion tokens always attend to
            the others.
        token: The expansion token. None: the mask token of the tokenizer.
        skipped: Tokens of documents without a score.
    """

    query_length: int = QUERY_LENGTH
    document_length: int = DOCUMENT_LENGTH
    expand_to: int = QUERY_LENGTH
    attends: bool = False
    token: str | None = None
    skipped: tuple[str, ...] = PUNCTUATION

    @property
    def is_fixed(self) -> bool:
        """Every query has the same number of tokens, or none is filled up."""
        return self.expand_to in (0, self.query_length)


@dataclass(frozen=True)
class MultiVectorLayout:
    """Paths of the transformer and of the layers over its states, with lengths, prompts and scoring.

    Attributes:
        transformer: Folder of the transformer.
        dense: Folders of the layers, in their order.
        reading: Lengths and scoring.
        prompts: Prompts by name.
        sums: As in `MultiVectorEncoder`.
        markers: Texts that are one token where the vocabulary has them, as PyLate inserts its markers.
    """

    transformer: Path
    dense: list[Path]
    reading: MultiVectorSettings
    prompts: Prompts = field(default_factory=Prompts)
    sums: bool = False
    markers: tuple[str, ...] = ()


def read_multi_vector(folder: Path) -> MultiVectorLayout:
    """Read the settings of an encoder of token vectors.

    Args:
        folder: Folder of PyLate, of sentence-transformers or of juzhen.

    Returns:
        Folders of transformer and projections, lengths, prompts and the kind of score.

    Raises:
        UserError: A file cannot be understood, or a setting would change the vectors here.
    """
    path = folder / PROMPTS_FILE
    with naming(f"{folder}: {MODULES_FILE} or {PROMPTS_FILE} cannot be understood"):
        settings = read_model_settings(folder)
        modules = [(module["type"].rpartition(".")[2], module) for module in read_modules(folder)]
        kinds = [kind for kind, _ in modules]
        is_pylate = settings["model_type"] == PYLATE
        ends = [] if is_pylate else ["MultiVectorMask", "Normalize"]
        if sorted(kinds[-2:]) == ends:  # the mask leaves the vectors as they are, so either may be last
            ends = kinds[-2:]
        dense = [inside(folder, module["path"]) for kind, module in modules if kind == "Dense"]
        if kinds != ["Transformer", *["Dense"] * len(dense), *ends]:
            raise UserError(
                f"{folder / MODULES_FILE}: {', '.join(kinds)}. Expected Transformer, Dense{', ' * bool(ends)}"
                f"{', '.join(ends)} of an encoder of token vectors"
            )
        # Any other name is of another kind of encoder, and they score by the sum then.
        sums = settings.get("similarity_fn_name") != MEAN
        transformer = inside(folder, modules[0][1]["path"])
        theirs = read_transformer_settings(transformer, settings["model_type"])
        if is_pylate:
            reading, prompts = _of_pylate(settings, path), _markers(settings, path)
            markers = tuple(settings[f"{name}_prefix"] for name in MARKERS)
            return MultiVectorLayout(transformer, dense, reading, prompts, sums=sums, markers=markers)
        mask, norm = (
            read_module(inside(folder, module["path"]), kind)
            for kind, module in sorted(modules[-2:], key=itemgetter(0))
        )
        source, target = (norm.get(key) for key in TOKENS)
        if (source, target or source) != (*TOKENS.values(),):
            raise UserError(f"{folder}: only a Normalize of the token vectors is supported")
        reading, prompts = _of_theirs(theirs, mask, folder), prompts_of(settings, path)
        return MultiVectorLayout(transformer, dense, reading, prompts, sums=sums)


def _of_pylate(settings: Mapping[str, Any], path: Path) -> MultiVectorSettings:
    """Read the settings of PyLate. Defaults apply to missing or null entries where all programs have the same."""
    for key in ("query_prefix", "document_prefix", "document_length"):
        if settings.get(key) is None:
            raise UserError(
                f"{path}: {key} is missing or null, for which PyLate and sentence-transformers have other defaults. "
                "Write what the encoder was trained with"
            )
    if settings.get("query_expansion"):
        raise UserError(
            f"{path}: query_expansion={short(repr(settings['query_expansion']))}: not read here. Write "
            "do_query_expansion, query_length and attend_to_expansion_tokens, as PyLate does"
        )
    length = settings.get("query_length") or QUERY_LENGTH
    skipped = settings.get("skiplist_words")
    return MultiVectorSettings(
        query_length=length,
        document_length=settings["document_length"],
        expand_to=0
        if settings.get("do_query_expansion") is False or "query_expansion" in settings
        else length,
        attends=bool(settings.get("attend_to_expansion_tokens", settings.get("attend_to_mask_tokens"))),
        skipped=tuple(string.punctuation if skipped is None else skipped),
    )


def _markers(settings: Mapping[str, Any], path: Path) -> Prompts:
    """Markers as prompts: PyLate puts the marker before the prompt of the text."""
    texts = dict(prompts_of(settings, path).texts)
    for name in MARKERS:
        marker = settings[f"{name}_prefix"]
        texts[name] = marker + texts.get(name, "").removeprefix(marker)
    return Prompts({name: text for name, text in texts.items() if text})


def _of_theirs(settings: Mapping[str, Any], mask: Mapping[str, Any], folder: Path) -> MultiVectorSettings:
    expansion = settings.get("query_expansion") or {}
    longest = settings.get("max_length")
    length = expansion.get("length", 0)
    is_fixed = expansion.get("strategy") == "fixed"
    tasks = mask.get("skiplist_tasks")
    if mask.get("keep_only_token_ids") or tasks not in (None, [], ["document"], "document"):
        name = "keep_only_token_ids" if mask.get("keep_only_token_ids") else "skiplist_tasks"
        raise UserError(
            f"{folder}: {name}={short(repr(mask[name]))}: a MultiVectorMask is read that skips tokens of documents "
            "alone. Put null in its place"
        )
    return MultiVectorSettings(
        query_length=length if is_fixed else settings.get("query_length") or longest or 0,
        document_length=settings.get("document_length") or longest or 0,
        expand_to=length,
        attends=bool(expansion.get("attend")),
        token=expansion.get("token"),
        skipped=() if tasks == [] else tuple(mask.get("skiplist_words") or ()),
    )


def _written_settings(
    reading: MultiVectorSettings, prompts: Prompts, *, is_pylate: bool, sums: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Contents of config_sentence_transformers.json and of sentence_bert_config.json."""
    texts = dict(prompts.texts)
    settings: dict[str, Any] = {"similarity_fn_name": SUM if sums else MEAN, "default_prompt_name": None}
    if is_pylate:
        of_side = {f"{name}_prefix": texts.get(name, "") for name in ("query", "document")}
        return settings | of_side | {
            "model_type": PYLATE,
            "prompts": {},
            "query_length": reading.query_length,
            "document_length": reading.document_length,
            "do_query_expansion": bool(reading.expand_to),
            "attend_to_expansion_tokens": reading.attends,
            "skiplist_words": list(reading.skipped),
        }, {"max_seq_length": max(reading.query_length, reading.document_length), "do_lower_case": False}
    strategy = "fixed" if reading.is_fixed else "min"
    expansion = {"strategy": strategy, "attend": reading.attends, "token": reading.token}
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    return prompts.as_dict_of_sides() | settings | {"model_type": TOKEN_VECTORS}, {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": text},
        "module_output_name": TOKENS["module_input_name"],
        "document_length": reading.document_length,
        "query_length": reading.query_length,
        "query_expansion": expansion | {"length": reading.expand_to} if reading.expand_to else None,
    }


def require_reading(reading: MultiVectorSettings, *, most: int | None, least: int) -> None:
    """Raise UserError for lengths that a transformer cannot read, or without room for text.

    Args:
        reading: Lengths of queries and documents, and the length up to which queries are filled.
        most: Tokens that the transformer can read. None: no limit.
        least: Smallest allowed length, which leaves room for text.

    Raises:
        UserError: A length is out of range, or queries are filled beyond their length.
    """
    require_number("expand_to", reading.expand_to, 0)
    for name in ("query_length", "document_length"):
        require_number(name, getattr(reading, name), least, most or math.inf)
    if reading.expand_to > reading.query_length:
        raise UserError(
            f"queries are filled up to {reading.expand_to} tokens and cut at {reading.query_length}. Expected no more"
        )


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
    """Fill an empty folder with a `MultiVectorEncoder`.

    The layout is that of PyLate if it can express the settings, else that of sentence-transformers.

    Args:
        encoder: A `MultiVectorEncoder` without an adapter.
        folder: The empty folder.
        card: Facts for the README, as in `save_encoder`.
        place: Name of the encoder in the README.
    """
    rules, prompts = encoder.rules, encoder.prompts
    whole = (
        encoder.tokenizer.get_added_vocab()
    )  # PyLate inserts one token, where a text could join the next word
    markers = [prompts.texts.get(name, "") for name in ("query", "document")]
    is_pylate = (
        rules.is_fixed
        and rules.token in (None, encoder.tokenizer.mask_token)
        and all(not text or text in whole for text in markers)
        and {*prompts.texts} <= {"query", "document"}
    )
    save_transformer(encoder, folder)
    kinds = [("Transformer", "")]
    for number, layer in enumerate(encoder.output_layers, start=1):
        path = f"{number}_{layer.kind}"
        layer.save(folder / path)
        kinds.append((layer.kind, path))
        write_settings(folder / path / "config.json", layer.config() | ({} if is_pylate else TOKENS))
    if not is_pylate:
        skips = {
            "skiplist_words": list(rules.skipped),
            "skiplist_tasks": ["document"],
            "keep_only_token_ids": None,
        }
        for kind, settings in (("MultiVectorMask", skips), ("Normalize", TOKENS)):
            path = f"{len(kinds)}_{kind}"
            (folder / path).mkdir()
            write_settings(folder / path / "config.json", settings)
            kinds.append((kind, path))
    types = TYPES_OF_PYLATE if is_pylate else TYPES
    settings, lengths = _written_settings(rules, prompts, is_pylate=is_pylate, sums=encoder.sums)
    write_module_list(folder, [(path, types[kind]) for kind, path in kinds])
    write_model_settings(folder, settings)
    write_settings(folder / LENGTH_FILE, lengths)
    text = _card(encoder, card, is_pylate=is_pylate, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


def _card(encoder: Any, facts: dict[str, Any], *, is_pylate: bool, place: str) -> str:
    rules = encoder.rules
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
    summary = "A ColBERT trained with juzhen: a vector for each token."
    title = "Encoder of token vectors"
    return card_text(encoder.licence, title, summary, features, facts, use, header=head)
