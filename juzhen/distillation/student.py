"""Students: smaller encoders made of a larger one, before anything is learnt."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.columns import as_text_list
from juzhen.core.errors import UserError, require_number
from juzhen.core.text import text_fault
from juzhen.core.text_warnings import collected
from juzhen.distillation.characters import BYTES, complete_tokenizer, shared_tokens
from juzhen.distillation.vocabulary import most_needed, with_tokens
from juzhen.encoders.backbone import with_layers
from juzhen.encoders.frozen import merged
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.transformer import from_scratch, quiet, token_embeddings

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
    """A smaller encoder that begins with what `teacher` knows; its pooling is the mean.

    layers      as many, every k-th of the teacher's with the last one; of a narrower student new ones, which begin by
                changing nothing
    dim         size of its states. None: the teacher's. Fewer: a token begins as the teacher's embedding of the token
                as a text, by its `dim` principal directions over all tokens
    vocabulary  tokens that are kept, those that `texts` need most; None: all
    tokenizer   another one in place of the teacher's, for a narrower student
    max_length  tokens per sentence; None: the teacher's
    seed        draws what is not taken from the teacher

    Raises UserError for what the teacher cannot give.
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
    student = SentenceEncoder(
        backbone,
        chosen,
        pooling="mean",
        normalize=False,
        max_length=min(max_length or teacher.max_length, architecture.max_position_embeddings),
        projections=(),
    )
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
    """Give a student a vocabulary that knows every character; what it has learnt stays.

    Its layers, its pieces and their rows stay as they are, so that a text without unknown characters keeps its tokens
    and its vector. The row of another token that the teacher knows is predicted from the teacher's embedding of that
    token as a text, by least squares over the tokens that both know. The rows of bytes and of characters that the
    teacher does not know are drawn around the mean row. Layers that were taught without a token overrate its row, so
    it can be moved towards the row of the unknown token, which they know.

    Args:
        start: An encoder that was distilled from the teacher.
        teacher: The encoder that taught it.
        vocabulary: Tokens of the new vocabulary at most (`complete_tokenizer`).
        texts: Texts by whose needs pieces are left out where there is no room for all.
        seed: Draws the rows that nothing predicts.
        new_token_weight: Share of a new token's own row, 0 to 1. The rest is the row of the unknown token.

    Raises:
        UserError: The student's tokenizer is not a Unigram one, or the vocabulary is too small.
    """
    texts = as_text_list(texts, "texts")
    tokenizer = complete_tokenizer(start.tokenizer, texts, vocabulary)
    student = copy.deepcopy(start)
    backbone = student.backbone
    old_rows = token_embeddings(backbone).weight.detach().clone()
    shared = np.array(list(shared_tokens(start.tokenizer, tokenizer)))
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    spelt = [piece.replace("▁", " ").strip() for piece in pieces]
    is_seen = np.array([text_fault(text) is None for text in spelt])
    spelt = [text if is_seen[number] else "。" for number, text in enumerate(spelt)]
    ids = teacher.tokenizer(spelt, add_special_tokens=False)["input_ids"]
    is_known = np.array([teacher.tokenizer.unk_token_id not in row for row in ids])
    is_known &= is_seen & ~np.isin(
        np.arange(len(pieces)), [*tokenizer.all_special_ids, *_byte_numbers(tokenizer)]
    )
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
    return SentenceEncoder(
        backbone,
        tokenizer,
        pooling="mean",
        normalize=False,
        max_length=start.max_length,
        projections=(),
    ).train()


def _byte_numbers(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    numbers = tokenizer.get_vocab()
    return [numbers[byte] for byte in BYTES]


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
            "of its own tokens; ask for fewer dimensions, or leave the tokenizer out"
        )
    if not is_narrower:
        require_number("layers", layers, 1, architecture.num_hidden_layers)
    if vocabulary is not None and not texts:
        raise UserError("a smaller vocabulary needs texts whose tokens are counted")


@torch.no_grad()
def _shallower(teacher: SentenceEncoder, layers: int, token_ids: np.ndarray) -> PreTrainedModel:
    """Every k-th layer of the teacher, the last one among them, and the rows of some tokens."""
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
    """A transformer without layers whose tokens stand where the teacher puts them as texts."""
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
    """The teacher's embedding of each token as a text, by principal directions; special tokens are at the centre."""
    spelt = [str(tokenizer.decode([number])).strip() for number in range(len(tokenizer))]
    special = set(tokenizer.all_special_ids)
    texts = [text if text and number not in special else "。" for number, text in enumerate(spelt)]
    vectors = teacher.encode(texts, normalize=True)
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    rows = centred @ directions[:, ::-1][:, :dim]
    rows[sorted(special)] = 0
    return (rows * (SPREAD / rows.std())).astype(np.float32)
