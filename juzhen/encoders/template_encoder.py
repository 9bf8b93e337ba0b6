"""Sentences read through templates: the state at [MASK] in one pass, or in two, the first one put into the second."""

from collections.abc import Sequence
from typing import Any, NoReturn, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AddedToken, PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Group, Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.architectures import first_position
from juzhen.encoders.packing import pack
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.template_tokens import Frame, TemplateTokens, blanks, mask_table, read_template, wrap
from juzhen.encoders.templates import INJECTED, SENTENCE, Templates
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.transformer import token_embeddings


class TemplateEncoder(PooledEncoder):
    """template → backbone → state at [MASK] → (template of stage 2 → backbone → state at [MASK]) → embedding.

    h = f(stage 1 template with the sentence), h⁺ = f(stage 2 template with the word embedding of
    [IT_SPECIAL_TOKEN] replaced by h), f the last layer at [MASK]. One function in training and evaluation.
    Templates with one stage are PromptBERT's (Jiang et al. 2022, https://arxiv.org/abs/2201.04337) and, with two
    [MASK]s of which the last is read, CoT-BERT's (Zhang et al. 2024, https://arxiv.org/abs/2309.11143).

    templates   texts that a sentence is put in, and how they are read
    max_length  as given: tokens of the whole input; as attribute: what that leaves to the sentence with its special
                tokens beside the longest template. Longer sentences are cut, templates never.
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
                "the tokenizer has no [MASK], which templates are read at; choose another backbone, or an "
                "encoder without templates"
            )
        self.frame = Frame.of(tokenizer)
        self.template_tokens = [
            read_template(getattr(templates, view), SENTENCE, tokenizer, self.frame)
            for view in templates.views
        ]
        self.max_length = self._left_to_sentences(max_length)
        if templates.read != "pooling":
            masks, weights = mask_table(self.template_tokens, read=templates.read)
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
                f"max_length={max_length}: the longest template takes {taken} tokens of it, which leaves "
                f"none for the sentence; set at least max_length={taken + special + 16}"
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
        masks, weights = mask_table([template], read=self.templates.read)
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
        """The sentences in their templates, packed. views: number of each one's template; None: the anchor's."""
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
        """States h of stage 1, in packed order; what denoising takes off is still in them."""
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
        """Each template without a sentence, once per length present; positions; which one belongs to each sentence."""
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
        """Raises UserError: states of the tokens of templates are no states of the sentence's."""
        raise UserError(
            "this encoder reads sentences through templates, which a masked language model cannot learn from; start it "
            "from an encoder without templates"
        )

    states_and_embeddings = token_states
