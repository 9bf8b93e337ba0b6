"""Sentences read through templates: the state at [MASK] in one pass, or in two, the first one put into the second."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AddedToken, PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Group, Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.backbone import first_position, token_embeddings
from juzhen.encoders.forward import pack
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.prompts import INJECTED, MASK, SENTENCE, Templates
from juzhen.encoders.tokens import TokenTable, runs, special_around


@dataclass
class TemplateTokens(Tokens):
    """Sentences in their templates.

    Args:
        views: Number of each sentence's template, in packed order.
    """

    views: Int[Tensor, "sentences"] = field(kw_only=True)

    def micro_batches(self, max_tokens: int) -> Iterator["TemplateTokens"]:
        start = 0
        for piece in super().micro_batches(max_tokens):
            views = self.views[start : start + len(piece)]
            start += len(piece)
            yield TemplateTokens.of(piece, views)

    @classmethod
    def of(cls, tokens: Tokens, views: Int[Tensor, "sentences"]) -> "TemplateTokens":
        """Add templates to packed sentences.

        Args:
            tokens: Packed sentences.
            views: Template number of each sentence, in packed order.

        Returns:
            The same tokens with their templates.
        """
        given = {part.name: getattr(tokens, part.name) for part in fields(Tokens) if part.init}
        return cls(**given, views=views)


@dataclass(frozen=True)
class Template:
    """Token ids before and after the placeholder, without the special tokens of the tokenizer.

    Attributes:
        prefix: Tokens before it.
        suffix: Tokens after it.
        masks: Positions of [MASK] in the input: from 0 before the sentence, from −1 backwards after it.
    """

    prefix: np.ndarray
    suffix: np.ndarray
    masks: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.suffix)


@dataclass(frozen=True)
class Frame:
    """The special tokens that the tokenizer puts before and after every input.

    Args:
        before: Ids of those before.
        after: Ids of those after.
    """

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Frame":
        """Read the special tokens of a tokenizer.

        Args:
            tokenizer: Its empty text is tokenized.

        Returns:
            Special tokens before and after a text, int32.
        """
        special = np.array(tokenizer("")["input_ids"], np.int32)
        return cls(*np.split(special, [special_around(tokenizer)[0]]))

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after)


def read_template(text: str, placeholder: str, tokenizer: PreTrainedTokenizerBase, frame: Frame) -> Template:
    """Tokenize a template with one placeholder.

    Both halves are tokenized separately, as the sentence is. A subword tokenizer might otherwise join words that touch
    without a space or a sign.

    Args:
        text: A template with one `placeholder` and any number of [MASK]s.
        placeholder: Sign that stands for the sentence, or for the state of stage 1.
        tokenizer: Its mask token replaces [MASK].
        frame: Special tokens around the input, for the positions of the masks.

    Returns:
        Token ids of both halves, and positions of the masks. Those after the placeholder count from the end.
    """
    parts = text.replace(MASK, tokenizer.mask_token or MASK).split(placeholder)
    halves = [np.array(tokenizer(text, add_special_tokens=False)["input_ids"], np.int32) for text in parts]
    before, after = (np.flatnonzero(half == tokenizer.mask_token_id) for half in halves)
    forwards = (before + len(frame.before)).tolist()
    backwards = (after - len(halves[1]) - len(frame.after)).tolist()
    return Template(halves[0], halves[1], (*forwards, *backwards))


def wrap(table: TokenTable, templates: Sequence[Template], views: np.ndarray, *, frame: Frame) -> TokenTable:
    """Put each text in its template, between the special tokens.

    Args:
        table: Texts with their special tokens.
        templates: All templates.
        views: Template number of each text.
        frame: Special tokens around a text.

    Returns:
        Token ids of the filled templates, in the order of the texts.

    Example:
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

    Args:
        templates: All templates.
        views: Template of each input.
        bodies: Number of tokens of the missing sentence.
        frame: Special tokens around the input.
        pad: Token that replaces the sentence. None leaves it out and keeps the later positions.

    Returns:
        Token ids and positions, one row for each of `views`.
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


def _mask_table(templates: Sequence[Template], *, read: str) -> tuple[Tensor, Tensor]:
    """Places of the [MASK]s that are read and what each counts, both (templates, masks)."""
    chosen = [template.masks[-1:] if read == "last" else template.masks for template in templates]
    width = max(map(len, chosen))
    mask_places = torch.zeros(len(chosen), width, dtype=torch.long)
    weights = torch.zeros(len(chosen), width)
    for row, masks in enumerate(chosen):
        mask_places[row, : len(masks)] = torch.tensor(masks)
        weights[row, : len(masks)] = 1 / max(len(masks), 1)
    return mask_places, weights


class TemplateEncoder(PooledEncoder):
    """template → backbone → state at [MASK] → (template of stage 2 → backbone → state at [MASK]) → embedding.

    h = f(stage 1 template with the sentence), h⁺ = f(stage 2 template with the word embedding of
    [IT_SPECIAL_TOKEN] replaced by h), f the last layer at [MASK]. Training and evaluation use the same function.
    Templates with one stage are PromptBERT's (Jiang et al. 2022, https://arxiv.org/abs/2201.04337) and, with two
    [MASK]s of which the last is read, CoT-BERT's (Zhang et al. 2024, https://arxiv.org/abs/2309.11143).

    Args:
        templates: Templates and their reading.
        max_length: Tokens of the whole input. The attribute is the rest for the sentence with its special tokens after
            the longest template. Sentences are truncated, templates never.

    Raises:
        UserError: A tokenizer without a [MASK].
    """

    templates: Templates
    _mask_places: Tensor
    _mask_weights: Tensor
    _stage_2: Tensor
    _stage_2_places: Tensor
    _stage_2_weights: Tensor

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        templates: Templates,
        max_length: int,
        **options: Any,
    ) -> None:
        super().__init__(backbone, tokenizer, max_length=max_length, **options)
        self.templates = templates
        self._norm_ratio: Tensor | None = None
        if templates.read != "pooling" and tokenizer.mask_token_id is None:
            raise UserError(
                "the tokenizer has no [MASK], where templates are read. Choose another backbone, or an "
                "encoder without templates"
            )
        self.frame = Frame.of(tokenizer)
        self.template_tokens = [
            read_template(getattr(templates, view), SENTENCE, tokenizer, self.frame)
            for view in templates.views
        ]
        self.max_length = self._left_to_sentences(max_length)
        if templates.read != "pooling":
            masks, weights = _mask_table(self.template_tokens, read=templates.read)
            self.register_buffer("_mask_places", masks, persistent=False)
            self.register_buffer("_mask_weights", weights, persistent=False)
        if templates.stage_2 is not None:
            self._prepare_stage_2(templates.stage_2)

    @property
    def norm_ratio(self) -> Tensor | None:
        """Mean length of the last states that were put in stage 2, over that of a word embedding."""
        return self._norm_ratio

    @property
    def input_length(self) -> int:
        return self.max_length + max(template.size for template in self.template_tokens)

    def _left_to_sentences(self, max_length: int) -> int:
        taken, special = max(template.size for template in self.template_tokens), self.frame.size
        if max_length - taken <= special:
            raise UserError(
                f"max_length={max_length}: the longest template takes {taken} tokens of it, and leaves "
                f"none for the sentence. Set at least max_length={taken + special + 16}"
            )
        return max_length - taken

    def _prepare_stage_2(self, text: str) -> None:
        """Adds [IT_SPECIAL_TOKEN] to the vocabulary, with the mean of all word embeddings as its own."""
        tokenizer, backbone = self.tokenizer, self.backbone
        tokenizer.add_tokens([AddedToken(INJECTED, special=True)], special_tokens=True)
        number = cast(int, tokenizer.convert_tokens_to_ids(INJECTED))
        rows = len(token_embeddings(backbone).weight)
        if number >= rows:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                mean = token_embeddings(backbone).weight.mean(dim=0)
                backbone.resize_token_embeddings(number + 1, mean_resizing=False)
                token_embeddings(backbone).weight[rows:] = mean
        template = read_template(text, INJECTED, tokenizer, self.frame)
        head = np.concatenate([self.frame.before, template.prefix])
        ids = np.concatenate([head, [number], template.suffix, self.frame.after])
        self._injected_at = len(head)
        self.register_buffer("_stage_2", torch.from_numpy(ids.astype(np.int64)), persistent=False)
        masks, weights = _mask_table([template], read=self.templates.read)
        # Counted from the end, since what stands between the halves is one token.
        self.register_buffer(
            "_stage_2_places",
            torch.where(masks < 0, masks + len(ids), masks)[0],
            persistent=False,
        )
        self.register_buffer("_stage_2_weights", weights[0], persistent=False)

    def collate(
        self, token_lists: Sequence[Sequence[int] | np.ndarray], views: np.ndarray | None = None
    ) -> TemplateTokens:
        """Pack sentences in their templates.

        Args:
            token_lists: Token ids of each sentence.
            views: Number of each sentence's template. None: the template of anchors.

        Returns:
            Packed tokens.

        Example:
            >>> from juzhen import PromptEncoder
            >>> from juzhen.encoders import load_encoder
            >>> from juzhen.encoders.prompts import Templates
            >>> encoder = PromptEncoder.around(load_encoder("builtin/mini_zh"), Templates("“[X]”的意思是[MASK]。"))
            >>> len(encoder.collate(encoder.tokenize(["今天天气很好", "几天发货"])))
            2
        """
        table = TokenTable.of(token_lists)
        views = np.zeros(len(table), dtype=np.int64) if views is None else np.asarray(views)
        tokens = pack(
            wrap(table, self.template_tokens, views, frame=self.frame),
            max_group_tokens=self.micro_batch_tokens,
        )
        packed = torch.empty(len(table), dtype=torch.long)
        packed[tokens.inverse_permutation] = torch.from_numpy(views)
        return TemplateTokens.of(tokens, packed)

    def stage_1(self, tokens: TemplateTokens) -> Float[Tensor, "sentences dim"]:
        """States h of stage 1, in packed order, before denoising.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            States, (sentences, dim).
        """
        return self._read(self._states(tokens), tokens)

    def _packed_order(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        tokens = cast(TemplateTokens, tokens)
        embeddings = self._through_stages(tokens)
        if self.templates.denoise != "none":
            blank, positions, of_sentences = self._blanks(tokens)
            embeddings = embeddings - self._through_stages(blank, positions)[of_sentences]
        return self._projected(embeddings)

    def _through_stages(
        self, tokens: TemplateTokens, positions: Tensor | None = None
    ) -> Float[Tensor, "sentences dim"]:
        if self.templates.read == "pooling":
            return self._pool(self._layers(tokens), tokens)
        state = self._read(self._states(tokens, positions=positions), tokens)
        return state if self.templates.stage_2 is None else self._second_stage(state)

    def _read(
        self, states: Float[Tensor, "tokens dim"], tokens: TemplateTokens
    ) -> Float[Tensor, "sentences dim"]:
        """The states at the [MASK]s of each sentence's template. Found by place: a sentence may hold a [MASK], too."""
        masks, weights = self._mask_places[tokens.views], self._mask_weights[tokens.views]
        starts = tokens.starts.unsqueeze(1)
        masks = torch.where(masks < 0, starts + tokens.lengths.unsqueeze(1) + masks, starts + masks)
        return (states[masks] * weights.unsqueeze(-1)).sum(dim=1)

    def _second_stage(self, state: Float[Tensor, "sentences dim"]) -> Float[Tensor, "sentences dim"]:
        """The states at [MASK] of stage 2, with `state` where the word embedding of [IT_SPECIAL_TOKEN] would be."""
        table = token_embeddings(self.backbone)
        if not self.templates.end_to_end:
            state = state.detach()
        with torch.no_grad():
            mean_norm = table.weight.norm(dim=1).mean()
            self._norm_ratio = state.norm(dim=1).mean() / mean_norm
        if self.templates.match_norm:
            state = F.normalize(state, dim=-1) * mean_norm
        count, length = len(state), len(self._stage_2)
        vectors = table(self._stage_2).expand(count, -1, -1)
        injected_at = self._injected_at
        vectors = torch.cat(
            [
                vectors[:, :injected_at],
                state.to(vectors.dtype).unsqueeze(1),
                vectors[:, injected_at + 1 :],
            ],
            dim=1,
        )
        tokens = Tokens(
            self._stage_2.repeat(count),
            torch.full((count,), length, device=state.device),
            torch.arange(count, device=state.device),
            [Group(count, length, count * length, slots=None, mask=None)],
        )
        states = self._states(tokens, words=vectors.flatten(0, 1)).unflatten(0, (count, length))
        return (states[:, self._stage_2_places] * self._stage_2_weights.unsqueeze(-1)).sum(dim=1)

    def _blanks(self, tokens: TemplateTokens) -> tuple[TemplateTokens, Tensor, Int[Tensor, "sentences"]]:
        """Each template without a sentence, once per length in the batch, positions, and the index for sentences."""
        pairs, of_sentences = torch.unique(
            torch.stack([tokens.views, tokens.lengths]), dim=1, return_inverse=True
        )
        views, lengths = pairs.tolist()
        bodies = [
            length - self.frame.size - self.template_tokens[view].size
            for view, length in zip(views, lengths, strict=True)
        ]
        pad = self.pad if self.templates.denoise == "pads" else None
        ids, positions = blanks(self.template_tokens, views, bodies, frame=self.frame, pad=pad)
        blank = pack(ids)
        order = blank.inverse_permutation.argsort()
        in_order = torch.from_numpy(positions[order.numpy()].flat().astype(np.int64))
        device = tokens.lengths.device
        packed = TemplateTokens.of(blank, torch.tensor(views)[order])
        return packed.to(device), in_order.to(device), blank.inverse_permutation.to(device)[of_sentences]

    def _states(
        self,
        tokens: Tokens,
        *,
        positions: Tensor | None = None,
        words: Float[Tensor, "tokens dim"] | None = None,
    ) -> Float[Tensor, "tokens dim"]:
        """Last layer, with other positions or other word embeddings than those of the tokens where they are given."""
        inputs, real = self._inputs(tokens)
        input_ids = inputs["input_ids"]
        if positions is not None:
            offset = first_position(self.backbone.config)
            inputs["position_ids"] = torch.full_like(input_ids, offset)
            inputs["position_ids"][real] = positions + offset
        if words is not None:
            del inputs["input_ids"]
            embedded = words.new_zeros(*input_ids.shape, words.shape[-1])
            embedded[real] = words
            inputs["inputs_embeds"] = embedded
        return self.backbone(**inputs).last_hidden_state[real]

    def input_lengths(self, table: TokenTable) -> Int[np.ndarray, "sentences"]:
        return table.lengths + self.template_tokens[0].size

    def token_states(self, tokens: Tokens) -> NoReturn:
        """Raise UserError, since the states of template tokens are not states of the sentence.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Nothing, since it always raises.

        Raises:
            UserError: Always.
        """
        raise UserError(
            "this encoder reads sentences through templates, which a masked language model cannot learn from. Start it "
            "from an encoder without templates"
        )

    states_and_embeddings = token_states
