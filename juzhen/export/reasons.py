"""Why a way gives another vector of a text: what an encoder with this or that mistake would give is computed too."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from juzhen.backends.names import MOST_DIFFERENCE
from juzhen.core.errors import UserError
from juzhen.encoders.parts import num_positions
from juzhen.encoders.pooling import POOLINGS, unit
from juzhen.encoders.proof import embedding_alone, layers_alone
from juzhen.encoders.sentence_encoder import SentenceEncoder

SHARE = 0.1
"""A mistake explains a vector if what it gives is ten times nearer than what is expected."""

LENGTHS = (16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192)
"""At which programs cut texts where nobody says otherwise."""

NEAR = 0.05
"""Difference up to which rounding of products is a reason."""


def reason_of(
    encoder: SentenceEncoder,
    texts: list[str],
    row: int,
    vector: np.ndarray,
    expected: np.ndarray,
    encode: Callable[[list[str]], np.ndarray],
    *,
    rounded: str,
) -> str:
    """The mistake that explains best what a way gave; "" where none does.

    vector    of length 1, of text number `row`
    expected  those of all texts
    encode    the way, which is asked for this text alone
    rounded   what is said where it rounds, and nothing else explains more; "": it should not
    """
    apart = float(np.abs(vector - expected[row]).max())
    best, reason_text = SHARE * apart, ""
    for reason, guess in _guesses(encoder, texts, row, expected):
        distance = float(np.abs(vector - guess).max())
        if distance < best:
            best, reason_text = distance, reason
            if best <= MOST_DIFFERENCE:
                return reason_text
    if reason_text:
        return reason_text
    if rounded and apart <= NEAR:
        return rounded
    try:
        alone = unit(np.asarray(encode([texts[row]]), dtype=np.float32))[0]
    except UserError:
        return ""
    if float(np.abs(alone - expected[row]).max()) <= MOST_DIFFERENCE:
        return "batch: the text alone is right, beside others it is not"
    return "precision: near, and no mistake explains it better" if apart <= NEAR else ""


def _guesses(
    encoder: SentenceEncoder, texts: list[str], row: int, expected: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """What is said of a mistake, and the unit embedding that it gives."""
    text, size = texts[row], expected.shape[1]

    def cut(embedding: torch.Tensor) -> np.ndarray:
        return unit(embedding.detach().cpu().float().numpy()[None, :size])[0]

    for number in range(len(texts)):
        if number != row:
            yield f"order: it is the vector of text {number + 1}", expected[number]
    for reason_text, reader in _prompts(encoder):
        yield reason_text, cut(embedding_alone(reader, text))
    for reason_text, changed in (
        ("text: line feeds became blanks", text.replace("\n", " ")),
        ("text: blanks at its ends are gone", text.strip()),
        ("text: in lower case", text.lower()),
        ("text: a line feed stands behind it", text + "\n"),
    ):
        if changed.strip() and changed != text:
            yield reason_text, cut(embedding_alone(encoder, changed))
    for reason_text, ids in _tokens(encoder, text):
        yield reason_text, cut(_of_ids(encoder, ids))
    tokens, layers = encoder.collate(encoder.tokenize([text])), layers_alone(encoder, text)
    own, projected = encoder.pooling, encoder.projections
    try:
        for name, pooling in POOLINGS.items():
            if name != own and not pooling.reads_first_layer:
                encoder.pooling = name
                yield f"pooling: {name} in the place of {own}", cut(encoder.pooled(layers, tokens)[0])
        encoder.pooling = own
        if projected:
            encoder.projections = torch.nn.ModuleList()
            if encoder.dim >= size:
                yield "projections: left out", cut(encoder.pooled(layers, tokens)[0])
    finally:
        encoder.pooling, encoder.projections = own, projected


def _prompts(encoder: SentenceEncoder) -> Iterator[tuple[str, SentenceEncoder]]:
    """The encoder behind each other prompt that a program could have put there."""
    pooling = encoder.prompt
    wrong = {"prompt: none stands before it": ""} if pooling else {}
    wrong |= {
        f"prompt: {name} ({text!r}) stands before it": text
        for name, text in encoder.prompts.texts.items()
        if text != pooling
    }
    wrong |= {"prompt: it stands there twice": pooling + pooling} if pooling else {}
    for reason_text, text in wrong.items():
        try:
            yield reason_text, encoder.with_prompt(prompt=text)
        except UserError:
            continue  # there is no room for it


def _tokens(encoder: SentenceEncoder, text: str) -> Iterator[tuple[str, list[int]]]:
    """The text as other token numbers: without special tokens, and cut elsewhere."""
    tokenizer, most = encoder.tokenizer, num_positions(encoder.backbone)
    (prompted,) = encoder.prompted([text])
    ids_of_all = tokenizer(prompted, verbose=False)["input_ids"]
    bare = tokenizer(prompted, add_special_tokens=False, verbose=False)["input_ids"][: encoder.max_length]
    if bare and len(bare) < len(ids_of_all):
        yield "special tokens: none stand around it", bare
        yield "special tokens: the first is missing", ids_of_all[1 : encoder.max_length]
        yield (
            "special tokens: the last is missing",
            ids_of_all[: min(len(ids_of_all) - 1, encoder.max_length)],
        )
    for length in (*LENGTHS, most):
        if length and length != encoder.max_length and length < max(len(ids_of_all), encoder.max_length):
            ids = tokenizer(prompted, truncation=True, max_length=length, verbose=False)["input_ids"]
            is_other = len(ids) != min(len(ids_of_all), encoder.max_length)
            if is_other and (most is None or length <= most):
                yield f"truncation: it is cut to {length} tokens, the encoder reads {encoder.max_length}", ids
    if len(ids_of_all) > encoder.max_length and (most is None or len(ids_of_all) <= most):
        yield f"truncation: it is whole, the encoder reads {encoder.max_length} tokens of it", ids_of_all


@torch.no_grad()
def _of_ids(encoder: SentenceEncoder, ids: list[int]) -> torch.Tensor:
    return encoder(encoder.collate([ids]))[0]
