"""An encoder as one folder that another program opens: tokenizer, graph or weights, settings and a card."""

import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.numpy import save_file
from sklearn.decomposition import PCA
from tokenizers import Tokenizer

from juzhen.core.atomic_write import atomic_write_dir, write_json, write_text
from juzhen.core.columns import as_text, require_finite
from juzhen.core.errors import UserError, check_count, require_choice
from juzhen.core.file_guard import require_outside
from juzhen.core.safe_open import read_text
from juzhen.core.text import in_markdown
from juzhen.data.spec import DatasetConfig, configured_set
from juzhen.encoders.backbone import StaticTokens
from juzhen.encoders.base_weights import merged
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.pooled_encoder import TYPES
from juzhen.encoders.projection import IDENTITY, Projection
from juzhen.encoders.save import fact_table, loads_elsewhere, write_encoder, write_module_list, write_settings
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import TokenTable, special_around, write_tokenizer
from juzhen.export.formats import PARITY, SETTINGS, Format
from juzhen.export.loaders import open_export
from juzhen.export.verification import ROWS, ExportReport, prove
from juzhen.families.registry import family_of

DIM = 256

RARITY = 1e-4
"""SIF's a: a token of probability p has the weight a / (a + p)."""

TOKENS = 16_384
"""Tokens of the vocabulary that are encoded at a time."""


def write_static(encoder: SentenceEncoder, folder: Path, *, dim: int | None) -> None:
    """Write a static table of token embeddings to an empty folder.

    Args:
        encoder: Encodes each token as a text of its own.
        folder: The empty folder.
        dim: Dimensions of the table. None: 256, or those of the encoder if fewer.
    """
    tokenizer = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    table = token_vectors(encoder, tokenizer.get_vocab_size(), DIM if dim is None else dim)
    save_file({"embeddings": table}, folder / "model.safetensors")
    write_text(folder / "tokenizer.json", tokenizer.to_str(), in_own_folder=True)
    settings = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "apply_pca": table.shape[1],
        "sif_coefficient": RARITY,
        "hidden_dim": table.shape[1],
        "seq_length": 1_000_000,
        "max_length": None,
        "normalize": True,
        "embedding_dtype": str(table.dtype),
    }
    write_settings(folder / "config.json", settings)
    types = {".": "StaticEmbedding", "1_Normalize": "Normalize"}
    write_module_list(
        folder, [(path, f"sentence_transformers.models.{kind}") for path, kind in types.items()]
    )
    (folder / "1_Normalize").mkdir()
    write_json(folder / "1_Normalize" / "config.json", {}, in_own_folder=True)


def token_vectors(encoder: SentenceEncoder, size: int, dim: int) -> Float[np.ndarray, "tokens dim"]:
    """Return a weighted vector per token, 0 for special tokens.

    The vectors are projected on their first principal components, and frequent tokens get less weight.

    Args:
        encoder: Encodes each token as a text of its own.
        size: Tokens of the vocabulary, from id 0 on.
        dim: Most dimensions of a vector. It is limited by those of the encoder and the number of tokens.

    Returns:
        float32 array with a row per token id.

    Raises:
        UserError: A vector holds NaN or infinity.
    """
    ids = encoder.tokenizer("a")["input_ids"]
    before, after = special_around(encoder.tokenizer)
    around = ids[:before], ids[len(ids) - after :]
    special = [number for number in encoder.tokenizer.all_special_ids if number < size]
    vectors = np.empty((size, encoder.dim), dtype=np.float32)
    for start in range(0, size, TOKENS):
        lists = [[*around[0], number, *around[1]] for number in range(start, min(start + TOKENS, size))]
        tokens = encoder.collate(TokenTable.of(lists))
        tokens.unpooled = 0
        vectors[start : start + len(lists)] = encoder.infer(tokens)
    require_finite(vectors, range(size), key="token")
    plain = np.setdiff1d(np.arange(size), special)
    components = min(dim, encoder.dim, len(plain))
    table = np.zeros((size, components), dtype=np.float32)
    table[plain] = PCA(components, svd_solver="full", random_state=0).fit_transform(vectors[plain])
    probability = _probabilities(encoder.tokenizer.backend_tokenizer, size)
    return table * (RARITY / (RARITY + probability))[:, None].astype(np.float32)


def _probabilities(tokenizer: Any, size: int) -> Float[np.ndarray, "tokens"]:
    """Return token frequencies from a unigram tokenizer, else by Zipf's law of the vocabulary order."""
    model = json.loads(tokenizer.to_str())["model"]
    if model["type"] == "Unigram":
        logarithms = np.array([score for _, score in model["vocab"]], dtype=np.float64)
        shares = np.zeros(size)
        shares[: len(logarithms)] = np.exp(np.minimum(logarithms, 0))
        return shares / shares.sum()
    shares = 1 / np.arange(1, size + 1)
    return shares / shares.sum()


READ = """import json, pathlib
import numpy as np
{imports}
from tokenizers import Tokenizer

folder = pathlib.Path("<this folder>")
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))  # cuts and pads
graph = {opened}
"""
OPENED = {
    "onnx": ("import onnxruntime", 'onnxruntime.InferenceSession(folder / "{graph}").run'),
    "openvino": ("import openvino", 'openvino.compile_model(folder / "{graph}")'),
}
TEXTS = """prompt = json.loads((folder / "export.json").read_text())["prompt"]
rows = tokenizer.encode_batch([prompt + text for text in ["今天天气很好", "今天是个好天气"]])
"""
PAIRS = """rows = tokenizer.encode_batch([("今天天气很好", "今天是个好天气")])
"""
INPUTS = """inputs = {{
    "input_ids": np.array([row.ids for row in rows]),
    "attention_mask": np.array([row.attention_mask for row in rows]),
}}
{types}{output} = {call}
"""
TYPE_IDS = 'inputs["token_type_ids"] = np.array([row.type_ids for row in rows])\n'
STATIC = """```python
from model2vec import StaticModel  # or: from sentence_transformers import SentenceTransformer

model = StaticModel.from_pretrained("<this folder>", force_download=False)
embeddings = model.encode(["今天天气很好", "今天是个好天气"])
```
"""
FIRSTS = """
These are the embeddings alone. A pair was trained to be scored by uᵀWv: multiply the second output, `firsts`, of the
one text with the first output, `embeddings`, of the other at length 1.
"""
BOTH = """
A score of this encoder is the mean of both orders of a pair: take the mean of the logits, the second output, of both.
"""


def _usage(encoder: Any, format: Format) -> str:
    """Return Markdown with example code for the format, and remarks."""
    if format.extra is None:
        return STATIC
    scores = isinstance(encoder, PairEncoder)
    imports, opened = OPENED[format.extra]
    output = "scores" if scores else "embeddings"
    call = f'graph(["{output}"], inputs)[0]' if format.extra == "onnx" else f'graph(inputs)["{output}"]'
    types = TYPE_IDS if scores and encoder.segments else ""
    code = READ.format(imports=imports, opened=opened.format(graph=format.graph)) + (
        PAIRS if scores else TEXTS
    )
    code += INPUTS.format(types=types, output=output, call=call)
    note = BOTH if scores and encoder.symmetric else ""
    note = FIRSTS if not scores and encoder.score_head is not None else note
    return f"```python\n{code}```\n{note}"


def export_encoder(
    encoder: Any,
    folder: str | Path,
    format: Format | str,
    *,
    dim: int | None = None,
    sets: Sequence[DatasetConfig | str] | str = (),
    data_dir: str | Path = "data",
    limit: int = ROWS,
    name: str = "encoder",
    allow_difference: bool = False,
) -> ExportReport:
    """Export an encoder, and verify that the folder computes the same. An earlier export of ours is replaced.

    Embeddings of an export have length 1.

    Args:
        encoder: The encoder.
        folder: The folder to write.
        format: Its format, or the name of it, such as "onnx-int8".
        dim: Keep the first dimensions, normalised again. Default: all.
        sets: Sets whose dev splits are scored before and after, or their names.
        data_dir: Folder of their files.
        limit: Rows of each set.
        name: Name of the encoder in card and report.
        allow_difference: Keep a folder whose difference exceeds the bound.

    Returns:
        The report of the verification.

    Raises:
        UserError: An unknown format or set, an encoder that the format cannot hold, or a difference above the
            bound. Nothing is written then.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> export_encoder(encoder, "exported", "sentence-transformers").format.value
        'sentence-transformers'
    """
    require_choice("format", format, [*Format])
    check_count("limit", limit)
    format, name = Format(format), as_text(name, "name")
    listed = [sets] if isinstance(sets, str) else sets
    described = [configured_set(one) if isinstance(one, str) else one for one in listed]
    format.require_packages()
    _require_format(encoder, format, dim)
    if format.is_quantised and not described:
        raise UserError(
            f"format={format}: its loss of quality is measured on a set. Name one in sets, such as demo_sts"
        )
    folder = Path(folder)
    require_outside(folder)  # juzhen wrote the encoder of a run, too, and would replace it
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_dir(folder) as part:
        full = merged(encoder)  # the proof compares with the adapter as it is
        prepared: Any = full if isinstance(encoder, PairEncoder) else finished(full, dim, format)
        if format is Format.STATIC:
            write_static(prepared, part, dim=dim)
        elif format.graph is None:
            write_encoder(prepared, part, {"name": name})
        else:
            _write_graph(prepared, part, format)
        proof = prove(
            encoder, open_export(part), format, dim=dim, sets=described, data_dir=data_dir, limit=limit
        )
        if (fault := proof.fault()) and not allow_difference:
            raise UserError(
                f"{folder}: {fault}, so nothing was written. Set allow_difference to write it with a warning"
            )
        write_json(part / PARITY, {"encoder": name} | proof.as_dict(), in_own_folder=True)
        _write_card(prepared, part, format, name, proof)
    return proof


def finished(encoder: SentenceEncoder, dim: int | None, format: Format) -> SentenceEncoder:
    """Return a copy on the CPU that truncates in its layers, and normalises to length 1.

    Args:
        encoder: The encoder. It is not changed.
        dim: First dimensions to keep. None, or the static format: as many as the encoder returns.
        format: Format of the export.

    Returns:
        The copy in evaluation mode. With a learnt form, its embeddings are not normalised.
    """
    size = encoder.size_of(None if format is Format.STATIC else dim)
    copied = copy.deepcopy(encoder).cpu().eval()
    copied.truncate_dim = None
    if size < encoder.dim:
        cut = Projection(encoder.dim, size, bias=False, activation=IDENTITY)
        with torch.no_grad():
            cut.linear.weight.copy_(torch.eye(size, encoder.dim))
        smaller = [number for number in copied.nested_dims if number < size]
        copied.projections.append(cut)
        copied.nested_dims = smaller
    copied.normalize = copied.score_head is None
    return copied


def _require_format(encoder: Any, format: Format, dim: int | None) -> None:
    if isinstance(encoder, PairEncoder):
        if dim is not None:
            raise UserError("dim: a cross-encoder gives scores and no embeddings")
        if format is Format.STATIC:
            raise UserError("format=static: a table of tokens has embeddings, and a cross-encoder has none")
        if format is Format.SENTENCE_TRANSFORMERS and encoder.symmetric:
            raise UserError(
                "format=sentence-transformers: it cannot take the mean of both orders of a pair. Type format=onnx"
            )
        return
    if not isinstance(encoder, SentenceEncoder):
        family_of(encoder).export(encoder, Path(), quantised=False)  # which refuses it by its name
    if encoder.templates is not None:
        raise UserError(
            "an encoder that reads sentences through templates is not exported. Copy its folder, or serve it with "
            "juzhen serve"
        )
    if format is Format.SENTENCE_TRANSFORMERS and not loads_elsewhere(encoder):
        what = "scores pairs by a learnt form" if encoder.score_head else f"pools by {encoder.pooling}"
        raise UserError(f"format={format}: this encoder {what}, which it cannot compute. Type format=onnx")
    if format is Format.STATIC and isinstance(encoder.backbone, StaticTokens):
        raise UserError(
            "format=static: this encoder is a token table already. Type format=sentence-transformers"
        )
    if format is Format.STATIC and encoder.score_head is not None:
        raise UserError("format=static: this encoder scores pairs by a learnt form. Type format=onnx")
    if format is not Format.STATIC:
        encoder.size_of(dim)


def _write_graph(encoder: Any, folder: Path, format: Format) -> None:
    family, graph = family_of(encoder), folder / str(format.graph)
    inner = encoder.inner
    if format.extra == "onnx":
        family.export(encoder, graph, quantised=format.is_quantised)
    else:
        from juzhen.backends.graph_backends import convert  # its packages may be missing

        with tempfile.TemporaryDirectory() as scratch:
            plain = family.export(encoder, Path(scratch) / "encoder.onnx", quantised=False)
            convert(plain, graph, quantised=format.is_quantised)
    _write_tokenizer(inner, folder)
    write_settings(folder / SETTINGS, _settings(encoder, format))


def _write_tokenizer(inner: SentenceEncoder, folder: Path) -> None:
    """Write tokenizer.json with truncation and padding, for programs without transformers, and further files."""
    if not inner.tokenizer.is_fast:
        raise UserError(
            f"{type(inner.tokenizer).__name__}: this tokenizer has no tokenizer.json, which programs read that run a "
            "graph. Type format=sentence-transformers"
        )
    tokenizer = copy.deepcopy(inner.tokenizer)
    tokenizer.model_max_length = inner.max_length
    write_tokenizer(tokenizer, folder)
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(inner.max_length, direction=tokenizer.truncation_side)
    backend.enable_padding(pad_id=inner.pad, pad_token=tokenizer.pad_token or "[PAD]")
    write_text(folder / "tokenizer.json", backend.to_str(pretty=True), in_own_folder=True)


def _settings(encoder: Any, format: Format) -> dict[str, Any]:
    inner = encoder.inner
    about: dict[str, Any] = {"format": str(format), "max_length": inner.max_length, "pooling": inner.pooling}
    if isinstance(encoder, PairEncoder):
        inputs = ["input_ids", "attention_mask", *([TYPES] if encoder.segments else [])]
        settings = {"outputs": ["scores", "logits"], "symmetric": encoder.symmetric, "grades": encoder.grades}
        return about | {"kind": "scores", "inputs": inputs} | settings
    names = ["embeddings", *(["firsts"] if encoder.score_head else [])]
    # A graph leaves the tokens of one prompt out of its pooling: it is none for another.
    prompts = {} if encoder.unpooled else dict(encoder.prompts.texts)
    return about | {
        "kind": "embeddings",
        "inputs": ["input_ids", "attention_mask"],
        "outputs": names,
        "dim": encoder.dim,
        "prompt": encoder.prompt,
        "prompts": prompts,
    }


def _write_card(encoder: Any, folder: Path, format: Format, name: str, proof: ExportReport) -> None:
    path = folder / "README.md"
    table = f"\n## Parity\n\n{proof.words()}\n\n{proof.markdown()}\n"
    if format is Format.SENTENCE_TRANSFORMERS:
        write_text(path, read_text(path) + table, in_own_folder=True)
        return
    inner = encoder.inner
    facts = {
        "format": str(format),
        "architecture": inner.backbone.config.model_type,
        "tokens at most": inner.max_length,
        "pooling": inner.pooling,
    }
    if isinstance(encoder, SentenceEncoder):
        facts |= {"prompt": f"{encoder.prompt!r} before every text"} if encoder.prompt else {}
        facts |= {"length of an embedding": 1}
    head = f"---\nlicense: {inner.licence}\n---\n" if inner.licence else ""
    title = f"# {in_markdown(name)}\n\nAn encoder trained with juzhen, exported as {format}.\n\n"
    write_text(
        path,
        f"{head}{title}{fact_table(facts)}\n## Use\n\n{_usage(encoder, format)}{table}",
        in_own_folder=True,
    )
