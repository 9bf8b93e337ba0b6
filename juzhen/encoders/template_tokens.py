"""Templates as token numbers, put around sentences that are token numbers already: no text is tokenised again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from juzhen.core.batch import Tokens
from juzhen.encoders.special_tokens import special_around
from juzhen.encoders.templates import MASK
from juzhen.encoders.token_table import TokenTable, runs


@dataclass
class TemplateTokens(Tokens):
    """Sentences in their templates; `views` has the number of each one's template, in packed order."""

    views: Int[Tensor, "sentences"] = field(kw_only=True)

    def micro_batches(self, max_tokens: int) -> Iterator["TemplateTokens"]:
        start = 0
        for piece in super().micro_batches(max_tokens):
            views = self.views[start : start + len(piece)]
            start += len(piece)
            yield TemplateTokens.of(piece, views)

    @classmethod
    def of(cls, tokens: Tokens, views: Int[Tensor, "sentences"]) -> "TemplateTokens":
        """Packed sentences and the number of each one's template, in packed order."""
        return cls(**{part.name: getattr(tokens, part.name) for part in fields(Tokens)}, views=views)


@dataclass(frozen=True)
class Template:
    """Token numbers before and after what a template is put around, without the tokenizer's special tokens.

    masks  where its [MASK]s are in the whole input: from 0 before the sentence, from −1 backwards after it
    """

    prefix: np.ndarray
    suffix: np.ndarray
    masks: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.suffix)


@dataclass(frozen=True)
class Frame:
    """The special tokens that the tokenizer puts before and after every input."""

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Frame":
        special = np.array(tokenizer("")["input_ids"], np.int32)
        return cls(*np.split(special, [special_around(tokenizer)[0]]))

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after)


def read_template(text: str, placeholder: str, tokenizer: PreTrainedTokenizerBase, frame: Frame) -> Template:
    """The template `text`, whose one `placeholder` stands for what it is put around.

    Both halves are tokenised for themselves, as the sentence is: where words touch without a space or a sign
    between them, a tokenizer of subwords might have joined them.
    """
    parts = text.replace(MASK, tokenizer.mask_token or MASK).split(placeholder)
    halves = [np.array(tokenizer(text, add_special_tokens=False)["input_ids"], np.int32) for text in parts]
    before, after = (np.flatnonzero(half == tokenizer.mask_token_id) for half in halves)
    forwards = (before + len(frame.before)).tolist()
    backwards = (after - len(halves[1]) - len(frame.after)).tolist()
    return Template(halves[0], halves[1], (*forwards, *backwards))


def wrap(table: TokenTable, templates: Sequence[Template], views: np.ndarray, *, frame: Frame) -> TokenTable:
    """Each text of the table in the template that `views` names for it, between the special tokens.

    >>> frame = Frame(np.array([2]), np.array([3]))
    >>> wrap(TokenTable.of([[2, 7, 8, 3]]), [Template(np.array([5]), np.array([6, 4]), (-2,))], np.array([0]),
    ...      frame=frame).tolist()
    [[2, 5, 7, 8, 6, 4, 3]]
    """
    lengths = table.lengths
    prefixes, suffixes = (
        np.array([len(getattr(text, half)) for text in templates])[views] for half in ("prefix", "suffix")
    )
    ends = np.cumsum(lengths + prefixes + suffixes)
    starts = ends - lengths - prefixes - suffixes
    ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
    inside, targets = runs(np.zeros_like(lengths), lengths), runs(starts, lengths)
    targets += np.where(inside >= len(frame.before), np.repeat(prefixes, lengths), 0)
    targets += np.where(
        inside >= np.repeat(lengths - len(frame.after), lengths), np.repeat(suffixes, lengths), 0
    )
    ids[targets] = table.flat()
    for number, template in enumerate(templates):
        chosen = views == number
        first = starts[chosen, None] + len(frame.before)
        ids[first + np.arange(len(template.prefix))] = template.prefix
        last = ends[chosen, None] - len(frame.after) - len(template.suffix)
        ids[last + np.arange(len(template.suffix))] = template.suffix
    return TokenTable(ids, starts, ends)


def blanks(
    templates: Sequence[Template],
    views: Sequence[int],
    bodies: Sequence[int],
    *,
    frame: Frame,
    pad: int | None,
) -> tuple[TokenTable, TokenTable]:
    """Templates without their sentence, and the position of each token.

    bodies  tokens that the sentence would have had
    pad     this token stands in its place; None: nothing does, and what follows keeps its positions
    """
    ids, positions = [], []
    for view, body in zip(views, bodies, strict=True):
        template = templates[view]
        head = np.concatenate([frame.before, template.prefix])
        tail = np.concatenate([template.suffix, frame.after])
        filling = np.full(0 if pad is None else body, pad or 0, dtype=np.int32)
        ids.append(np.concatenate([head, filling, tail]))
        token_positions = np.arange(len(ids[-1]))
        token_positions[len(head) + len(filling) :] += body - len(filling)
        positions.append(token_positions)
    return TokenTable.of(ids), TokenTable.of(positions)


def mask_table(templates: Sequence[Template], *, read: str) -> tuple[Tensor, Tensor]:
    """Places of the [MASK]s that are read and what each counts, both (templates, masks)."""
    chosen = [template.masks[-1:] if read == "last" else template.masks for template in templates]
    width = max(map(len, chosen))
    mask_places = torch.zeros(len(chosen), width, dtype=torch.long)
    weights = torch.zeros(len(chosen), width)
    for row, masks in enumerate(chosen):
        mask_places[row, : len(masks)] = torch.tensor(masks)
        weights[row, : len(masks)] = 1 / max(len(masks), 1)
    return mask_places, weights
