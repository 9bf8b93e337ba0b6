"""Students: smaller encoders made from a larger one, before training."""

import base64
import copy
import io
import json
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from juzhen.core.atomic_write import write_text
from juzhen.core.columns import as_text_list
from juzhen.core.errors import UserError, require_number, require_packages
from juzhen.core.text import script_table, text_fault
from juzhen.core.text_warnings import collected
from juzhen.encoders.backbone import from_scratch, quiet, token_embeddings
from juzhen.encoders.base_weights import merged
from juzhen.encoders.sentence_encoder import SentenceEncoder, with_layers

TEXTS_PER_CALL = 10_000


def token_counts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Int[np.ndarray, "tokens"]:
    """Count tokens in texts. A single character also counts inside longer tokens.

    Texts with a token that is dropped later are spelt by characters, so characters must be known.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.

    Returns:
        Count for each token id.
    """
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    characters: Counter[str] = Counter()
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        characters.update("".join(portion))
        ids = tokenizer(portion, add_special_tokens=False, verbose=False)["input_ids"]
        counts += np.bincount(
            np.concatenate([np.asarray(ids_of_text, dtype=np.int64) for ids_of_text in ids]),
            minlength=len(counts),
        )
    spelt = tokenizer.get_vocab()
    for character, count in characters.items():
        if character in spelt:
            counts[spelt[character]] = max(counts[spelt[character]], count)
    return counts


def most_needed(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int
) -> Int[np.ndarray, "kept"]:
    """Return the `size` token ids to keep, ascending: all special tokens, then those the texts need most.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        size: Number of tokens to keep.

    Returns:
        Token ids.

    Raises:
        UserError: `size` leaves no room besides the special tokens.
    """
    spelt = tokenizer.get_vocab()
    always = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    always |= {spelt["▁"]} if "▁" in spelt else set()
    if size <= len(always):
        raise UserError(
            f"a vocabulary of {size:,}: {len(always)} are special tokens alone. Ask for some thousand"
        )
    order = np.argsort(-token_counts(tokenizer, texts), kind="stable")
    by_need = [number for number in order.tolist() if number not in always]
    return np.sort(np.asarray([*always, *by_need[: size - len(always)]], dtype=np.int64))


def with_tokens(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> PreTrainedTokenizerFast:
    """Return the tokenizer with only these tokens, renumbered in order.

    Args:
        tokenizer: The tokenizer.
        token_ids: Tokens to keep, in their new order.

    Returns:
        The smaller tokenizer.

    Raises:
        UserError: A tokenizer other than Unigram or WordPiece. Others build tokens from smaller ones, which must stay.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    model, number = spec["model"], {int(old): new for new, old in enumerate(token_ids)}
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in number]
        model["unk_id"] = number.get(model["unk_id"])
    elif model["type"] == "WordPiece":
        model["vocab"] = {token: number[old] for token, old in model["vocab"].items() if old in number}
    else:
        raise UserError(
            f"a {model['type']} vocabulary cannot be reduced: its tokens are built from smaller ones. "
            "Choose a teacher with a Unigram or WordPiece vocabulary"
        )
    spec["added_tokens"] = [added | {"id": number[added["id"]]} for added in spec["added_tokens"]]
    for entry in (spec["post_processor"] or {}).get("special_tokens", {}).values():
        entry["ids"] = [number[old] for old in entry["ids"]]
    return _tokenizer_of(spec, tokenizer)


def _tokenizer_of(spec: dict[str, Any], like: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """The tokenizer of a tokenizer.json, with the settings of another one."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        model_max_length=like.model_max_length,
        model_input_names=like.model_input_names,
        **like.special_tokens_map,
    )


BYTES = tuple(f"<0x{number:02X}>" for number in range(256))

BYTE_SCORE = -1_000.0
"""Below any spelling of a text by characters, so that the text "<0x41>" itself is not read as a byte."""

SPACE = "▁"
"""What the Metaspace of a Unigram vocabulary writes for a space."""

EMOJI = ((0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F90C, 0x1F93A), (0x1F970, 0x1F97A), (0x2600, 0x26FF))
LETTERS = ((0x21, 0x7E), (0xA1, 0x17F), (0x391, 0x3C9), (0x410, 0x44F))
SIGNS = (
    (0x2010, 0x2027),
    (0x2190, 0x2193),
    (0x25A0, 0x25CF),
    (0x3001, 0x3011),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
)


def common_characters() -> list[str]:
    """Return the characters that always have a piece, in NFKC and simplified.

    They are the 6,763 hanzi of both levels of GB 2312, with which GB 18030 begins, letters of Latin, Greek and
    Cyrillic, kana, signs and common emoji.

    Returns:
        The characters.
    """
    hanzi = [
        bytes([row, cell]).decode("gb2312", "ignore")
        for row in range(0xB0, 0xF8)
        for cell in range(0xA1, 0xFF)
    ]
    others = [chr(number) for start, end in (*LETTERS, *SIGNS, *EMOJI) for number in range(start, end + 1)]
    table = script_table()
    assigned = [one for one in (*hanzi, *others) if one and unicodedata.category(one) not in {"Cn", "Mn"}]
    return list(
        dict.fromkeys(
            one for one in assigned if unicodedata.normalize("NFKC", one) == one and one not in table
        )
    )


def complete_tokenizer(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int
) -> PreTrainedTokenizerFast:
    """Make a tokenizer without unknown characters out of a Unigram tokenizer.

    It folds traditional characters (`juzhen.core.text.script_table`), drops marks on hanzi, and strips white space
    around a text. Its vocabulary holds the special tokens, 256 bytes, `common_characters`, and the pieces of the given
    tokenizer that the folded texts need most. Two texts that differ after normalization have different token ids.

    Args:
        tokenizer: A Unigram tokenizer, such as XLM-R's.
        texts: Texts whose pieces are counted.
        size: Tokens of the new vocabulary.

    Returns:
        The new tokenizer.

    Raises:
        UserError: Another kind of tokenizer, or a size that the characters alone fill.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    if spec["model"]["type"] != "Unigram":
        raise UserError(
            f"A {spec['model']['type']} vocabulary cannot be completed: only Unigram chooses pieces by scores. "
            "Take a teacher with a Unigram tokenizer, such as multilingual-e5"
        )
    spec["normalizer"] = folding_normalizer(spec["normalizer"])
    folding = _tokenizer_of(spec, tokenizer)
    scores: dict[str, float] = dict(spec["model"]["vocab"])
    old_numbers = tokenizer.get_vocab()
    specials = sorted(tokenizer.all_special_tokens, key=old_numbers.__getitem__)
    last = [piece for piece in specials if old_numbers[piece] > len(specials)]
    first = [piece for piece in specials if piece not in last]
    counts = token_counts(folding, texts)
    by_need = sorted(scores, key=lambda piece: -counts[old_numbers[piece]])
    always = dict.fromkeys([*first, *BYTES, SPACE, *common_characters()])
    free = size - len(always) - len(last)
    if free < 0:
        raise UserError(
            f"vocabulary={size:,}: the characters alone need {size - free:,} tokens. Take at least {size - free:,}"
        )
    table = script_table()
    fits = (
        piece
        for piece in by_need
        if piece not in always and piece not in specials and not table.keys() & set(piece)
    )
    kept = [*always, *(piece for piece, _ in zip(fits, range(free), strict=False)), *last]
    lowest = min(scores.values())
    special_scores = dict.fromkeys(specials, 0.0) | dict.fromkeys(BYTES, BYTE_SCORE)
    vocabulary = [[piece, special_scores.get(piece, scores.get(piece, lowest))] for piece in kept]
    numbers = {piece: number for number, piece in enumerate(kept)}
    spec["model"] |= {"vocab": vocabulary, "unk_id": numbers[tokenizer.unk_token], "byte_fallback": True}
    spec["added_tokens"] = [added | {"id": numbers[added["content"]]} for added in spec["added_tokens"]]
    for entry in (spec["post_processor"] or {}).get("special_tokens", {}).values():
        entry["ids"] = [numbers[piece] for piece in entry["tokens"]]
    return _tokenizer_of(spec, tokenizer)


def folding_normalizer(before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Put the folding of scripts behind a tokenizer's normalizer, which must begin with NFKC.

    Marks that follow a hanzi are dropped first. The Precompiled normalizer of the tokenizers library looks up
    a character together with its marks. It would drop them only next to the characters of the table.

    Args:
        before: The normalizer in the JSON form of the tokenizers library.

    Returns:
        The longer normalizer in that form.
    """
    steps = [] if before is None else before.get("normalizers", [before])
    if {"type": "NFKC"} not in steps:
        steps = [{"type": "NFKC"}, *steps]
    return {
        "type": "Sequence",
        "normalizers": [
            *steps,
            {"type": "Replace", "pattern": {"Regex": r"(?<=\p{Han})\p{M}+"}, "content": ""},
            {"type": "Replace", "pattern": {"String": SPACE}, "content": "_"},
            {"type": "Precompiled", "precompiled_charsmap": _charsmap(script_table())},
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ],
    }


def _charsmap(table: Mapping[str, str]) -> str:
    """Compile a table of characters into the trie that sentencepiece and tokenizers read, base64.

    Marks after a hanzi are dropped first. The Precompiled normalizer of tokenizers looks up a character together with
    its marks, and would drop marks only after characters of the table.
    """
    require_packages("A complete vocabulary", "sentencepiece", extra="student")
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rows = (f"{ord(character):X}\t{ord(simple):X}\n" for character, simple in sorted(table.items()))
        write_text(rules, "".join(rows), in_own_folder=True)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["一二三四五六七八九十"] * 8),
            model_writer=model,
            vocab_size=14,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    proto: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(model.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


PLAIN: dict[str, Any] = {"pooling": "mean", "normalize": False, "projections": ()}
"""How a student makes an embedding of its states."""

HEAD = 64
"""Numbers that one attention head of a narrower student reads."""

SPREAD = 0.04
"""Standard deviation of the token rows of a narrower student, twice that of fresh ones."""


def student_of(
    teacher: SentenceEncoder,
    *,
    layers: int,
    dim: int | None = None,
    vocabulary: int | None = None,
    texts: Sequence[str] = (),
    tokenizer: PreTrainedTokenizerBase | None = None,
    max_length: int | None = None,
    seed: int,
) -> SentenceEncoder:
    """Create a smaller encoder initialised from a teacher, with mean pooling.

    Args:
        teacher: The encoder to learn from.
        layers: Number of layers: every k-th of the teacher, with the last one. A narrower student gets new
            layers that start as the identity.
        dim: Dimension of its states. Default: the teacher's. If smaller, token embeddings start as the
            teacher's embedding of the token as a text, projected on its first `dim` principal directions over
            all tokens.
        vocabulary: Number of tokens to keep, those that `texts` need most. Default: all.
        texts: Texts that decide which tokens are kept.
        tokenizer: Another tokenizer for a narrower student.
        max_length: Tokens per sentence. Default: the teacher's.
        seed: Seed of weights that do not come from the teacher.

    Returns:
        The student.

    Raises:
        UserError: A size that the teacher cannot give.
    """
    teacher = merged(teacher)
    architecture = teacher.backbone.config
    texts = as_text_list(texts, "texts")
    dim = architecture.hidden_size if dim is None else dim
    is_narrower = dim < architecture.hidden_size
    _check(teacher, layers, dim, vocabulary, texts, tokenizer)
    chosen = teacher.tokenizer if tokenizer is None else tokenizer
    token_ids = np.arange(len(chosen))
    if vocabulary is not None:
        token_ids = most_needed(chosen, texts, vocabulary)
        chosen = with_tokens(chosen, token_ids.tolist())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        backbone = _narrower(teacher, chosen, dim) if is_narrower else _shallower(teacher, layers, token_ids)
    length = min(max_length or teacher.max_length, architecture.max_position_embeddings)
    student = SentenceEncoder(backbone, chosen, max_length=length, **PLAIN)
    return with_layers(student, layers, seed=seed).train()


def grown(
    start: SentenceEncoder,
    teacher: SentenceEncoder,
    *,
    vocabulary: int,
    texts: Sequence[str],
    seed: int,
    new_token_weight: float = 1.0,
) -> SentenceEncoder:
    """Give a student a vocabulary that covers every character, and keep its trained weights.

    Its layers, pieces and rows stay, so a text without unknown characters keeps its tokens and vector. Rows
    of other tokens known to the teacher are predicted from the teacher's embedding of the token as a text, by
    least squares over shared tokens. Rows of bytes and of characters unknown to the teacher are drawn around
    the mean row. Layers trained without a token overrate its row, so it can be moved towards the row of the
    unknown token, which they know.

    Args:
        start: An encoder that was distilled from the teacher.
        teacher: The encoder that taught it.
        vocabulary: Maximal number of tokens (`complete_tokenizer`).
        texts: Decide which pieces are dropped if there is no room for all.
        seed: Seed of rows that nothing predicts.
        new_token_weight: Weight of a new token's row, 0 to 1. The row of the unknown token has the rest.

    Returns:
        The student with the larger vocabulary.

    Raises:
        UserError: A tokenizer other than Unigram, or a `vocabulary` that is too small for all characters.
    """
    texts = as_text_list(texts, "texts")
    tokenizer = complete_tokenizer(start.tokenizer, texts, vocabulary)
    student = copy.deepcopy(start)
    backbone = student.backbone
    old_rows = token_embeddings(backbone).weight.detach().clone()
    old_numbers, numbers = start.tokenizer.get_vocab(), tokenizer.get_vocab()
    shared = np.array([(old_numbers[token], numbers[token]) for token in numbers if token in old_numbers])
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    spelt = [piece.replace("▁", " ").strip() for piece in pieces]
    is_seen = np.array([text_fault(text) is None for text in spelt])
    spelt = [text if is_seen[number] else "。" for number, text in enumerate(spelt)]
    ids = teacher.tokenizer(spelt, add_special_tokens=False)["input_ids"]
    is_known = np.array([teacher.tokenizer.unk_token_id not in row for row in ids])
    not_texts = [*tokenizer.all_special_ids, *(numbers[byte] for byte in BYTES)]
    is_known &= is_seen & ~np.isin(np.arange(len(pieces)), not_texts)
    with collected():  # pieces that it does not know are drawn
        seen = teacher.encode(spelt, normalize=True)
    seen = np.hstack([seen, np.ones((len(seen), 1), dtype=seen.dtype)])
    taught = shared[is_known[shared[:, 1]]]
    map_to_rows, *_ = np.linalg.lstsq(seen[taught[:, 1]], old_rows[taught[:, 0]].numpy(), rcond=None)
    rows = seen @ map_to_rows
    drawn = np.random.default_rng(seed).normal(size=rows.shape) * float(old_rows.std())
    rows[~is_known] = old_rows.mean(dim=0).numpy() + drawn[~is_known]
    if (unknown := start.tokenizer.unk_token_id) is not None:
        rows = new_token_weight * rows + (1 - new_token_weight) * old_rows[unknown].numpy()
    rows[shared[:, 1]] = old_rows[shared[:, 0]].numpy()
    with torch.no_grad():
        backbone.resize_token_embeddings(len(tokenizer)).weight.copy_(
            torch.from_numpy(rows.astype(np.float32))
        )
    backbone.config.pad_token_id = tokenizer.pad_token_id
    return SentenceEncoder(backbone, tokenizer, max_length=start.max_length, **PLAIN).train()


def _check(
    teacher: SentenceEncoder,
    layers: int,
    dim: int,
    vocabulary: int | None,
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    architecture = teacher.backbone.config
    require_number("dim", dim, 1, architecture.hidden_size)
    is_narrower = dim < architecture.hidden_size
    if tokenizer is not None and not is_narrower:
        raise UserError(
            f"another tokenizer: a student of {dim} dimensions takes over the teacher's layers, which read the rows "
            "of the teacher's tokens. Ask for fewer dimensions, or leave the tokenizer out"
        )
    if is_narrower and dim % HEAD:
        raise UserError(f"dim={dim}: a head has {HEAD} dimensions. Take a multiple of {HEAD}")
    if not is_narrower:
        require_number("layers", layers, 1, architecture.num_hidden_layers)
    if vocabulary is not None and not texts:
        raise UserError("a smaller vocabulary needs texts whose tokens are counted")


@torch.no_grad()
def _shallower(teacher: SentenceEncoder, layers: int, token_ids: np.ndarray) -> PreTrainedModel:
    """Keep every k-th layer of the teacher, including the last, and the rows of some tokens."""
    backbone = copy.deepcopy(teacher.backbone)
    inner: Any = backbone
    count = len(inner.encoder.layer)
    indices = [round((number + 1) * count / layers) - 1 for number in range(layers)]
    inner.encoder.layer = torch.nn.ModuleList(inner.encoder.layer[index] for index in indices)
    backbone.config.num_hidden_layers = layers
    rows = token_embeddings(backbone).weight[torch.from_numpy(token_ids)].clone()
    table = backbone.resize_token_embeddings(len(token_ids))
    table.weight.copy_(rows)
    padding = np.flatnonzero(token_ids == backbone.config.pad_token_id)
    backbone.config.pad_token_id = int(padding[0]) if len(padding) else None
    return backbone


@torch.no_grad()
def _narrower(teacher: SentenceEncoder, tokenizer: PreTrainedTokenizerBase, dim: int) -> PreTrainedModel:
    """Return a transformer without layers whose token embeddings are the teacher's embeddings of token texts."""
    architecture = copy.deepcopy(teacher.backbone.config)
    architecture.update(
        {
            "vocab_size": len(tokenizer),
            "hidden_size": dim,
            "intermediate_size": 4 * dim,
            "num_attention_heads": dim // HEAD,
            "num_hidden_layers": 0,
            "pad_token_id": tokenizer.pad_token_id,
        }
    )
    with quiet():
        backbone = from_scratch(architecture, shown="the student")
    rows = token_embeddings(backbone).weight
    rows.copy_(torch.from_numpy(_as_texts(teacher, tokenizer, dim)))
    if tokenizer.pad_token_id is not None:
        rows[tokenizer.pad_token_id] = 0
    return backbone


def _as_texts(
    teacher: SentenceEncoder, tokenizer: PreTrainedTokenizerBase, dim: int
) -> Float[np.ndarray, "tokens dim"]:
    """Return the teacher's embedding of each token as a text, by principal directions. Special tokens: centre."""
    spelt = [str(tokenizer.decode([number])).strip() for number in range(len(tokenizer))]
    special = set(tokenizer.all_special_ids)
    texts = ["。" if text_fault(text) or number in special else text for number, text in enumerate(spelt)]
    vectors = teacher.encode(texts, normalize=True)
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    rows = centred @ directions[:, ::-1][:, :dim]
    rows[sorted(special)] = 0
    return (rows * (SPREAD / rows.std())).astype(np.float32)
