"""From token numbers to one embedding per sentence: transformer → pooling → projections."""

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_column
from juzhen.core.errors import UserError, check_count
from juzhen.core.examples import Side
from juzhen.core.text import counted, short
from juzhen.encoders.backbone import StaticTokens, evaluating, without_cache
from juzhen.encoders.forward import (
    in_micro_batches,
    pack,
    packed_inputs,
    padded_inputs,
    use_cheap_dropout,
    use_packed_attention,
)
from juzhen.encoders.peer_options import (
    GuardedAttributesMixin,
    check_flag,
    check_tokenizer,
    takes_peer_options,
)
from juzhen.encoders.pooling import POOLINGS, check_pooling
from juzhen.encoders.projection import BilinearScore, OutputLayer
from juzhen.encoders.prompts import Prompts, Templates, as_prompts
from juzhen.encoders.tokens import TokenTable, token_ids, tokenized

CHARACTERS_PER_TOKEN = 64
"""Characters for each token of `max_length` with which a very long text is tried."""

BEHIND_TEMPLATES = "this encoder reads sentences through templates, before which no prompt stands"


class Prompted(GuardedAttributesMixin):
    """Prompts of an encoder with a tokenizer, a maximal length and optional templates."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    templates: Templates | None
    _prompt: str
    _prompts: Prompts
    _prompt_tokens: int
    _prompt_is_given: bool

    def with_prompt(self, prompt_name: str | None = None, prompt: str | None = None) -> Self:
        """Return a copy that shares the weights and prepends another prompt to every sentence.

        Args:
            prompt_name: Name of one of the prompts of the encoder.
            prompt: The text itself.

        Returns:
            The copy.

        Raises:
            UserError: Both are given, the name is unknown, or the encoder has templates.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> SentenceEncoder.load("builtin/mini_zh").with_prompt(prompt="查询：").prompt
            '查询：'
        """
        other = copy.copy(self)
        other.prompt = self.prompts.chosen(prompt_name, prompt)
        return other

    @property
    def prompts(self) -> Prompts:
        return self._prompts

    @prompts.setter
    def prompts(self, value: Prompts | Mapping[str, str]) -> None:
        prompts = as_prompts(value, getattr(self, "_prompts", Prompts()))
        self._put_before(prompts.text)
        self._prompts, self._prompt_is_given = prompts, False

    @property
    def default_prompt_name(self) -> str | None:
        """Name of the prompt of every sentence. None for no prompt."""
        return self.prompts.default_prompt_name

    @default_prompt_name.setter
    def default_prompt_name(self, name: str | None) -> None:
        self.prompts = replace(self.prompts, default_prompt_name=name)

    @property
    def prompt(self) -> str:
        return self._prompt

    @prompt.setter
    def prompt(self, text: str) -> None:
        self._put_before(text)
        self._prompt_is_given = True

    def _put_before(self, prompt: str) -> None:
        """Set the prompt of every sentence. Raises UserError if it is not a text, or would be truncated."""
        if not isinstance(prompt, str):
            raise UserError(
                f"prompt={short(repr(prompt))}: not a text. Give the text to prepend to each sentence"
            )
        if not prompt:
            self._prompt, self._prompt_tokens = prompt, 0
            return
        quoted = f"prompt {short(repr(prompt))}"
        if self.templates is not None:
            raise UserError(BEHIND_TEMPLATES)
        if self.tokenizer.truncation_side == "left":
            raise UserError(
                f"{quoted}: this tokenizer truncates sentences at the front, and so the prompt. "
                "Set truncation_side to right in its tokenizer_config.json, or do without a prompt"
            )
        ids = self.tokenizer(prompt, verbose=False)["input_ids"]
        if len(ids) >= self.max_length:
            raise UserError(
                f"max_length={self.max_length}: the {quoted} takes {counted(len(ids), 'tokens')} of it, special ones "
                f"included, and leaves none for the sentence. Set at least max_length={len(ids) + 16}"
            )
        # Counted as sentence-transformers does: alone, and without the special token behind it.
        self._prompt = prompt
        self._prompt_tokens = len(ids) - sum(number in self.tokenizer.all_special_ids for number in ids[-1:])


TYPES = "token_type_ids"
SIZES = "matryoshka_dimensions"
"""Entry of config.json that servers read: to which sizes embeddings may be cut."""
Places = tuple[int | Tensor, slice | Tensor]
"""Positions of the token states in the output of the transformer."""


class PooledEncoder(Prompted):
    """backbone → pooling → projections (usually none) → length 1, if `normalize`.

    An attribute that is set later applies to the next text and to the saved folder.

    Attributes:
        backbone: A Hugging Face encoder without a head.
        tokenizer: Tokenizer with the vocabulary of the backbone.
        pooling: A name of `juzhen.encoders.pooling.POOLINGS`.
        normalize: Scale embeddings to length 1.
        projections: Layers after pooling, in their order.
        max_length: Tokens per sentence, special tokens included. Longer sentences are truncated.
        dim: Dimensions of an embedding.
        micro_batch_tokens: Tokens of a micro-batch when gradients are kept. None computes the batch at once.
        pad: Token id of padding.
        takes_segments: The backbone has segment embeddings for two sentences.
        gives_segments: Single sentences get segment ids too, because their tokenizer returns them.
        truncate_dim: Dimensions that `encode` returns, the first ones. None returns all.
        score_head: Module that scores two embeddings. None for the cosine.
        templates: Templates around a sentence, or None.
        prompts: Known prompts. A mapping name → text can be set.
        prompt: Prompt of every sentence. "" for none.

    Raises:
        UserError: A tokenizer that marks a single text as a second sentence.
    """

    settable: ClassVar[tuple[str, ...]] = (
        "default_prompt_name",
        "max_length",
        "micro_batch_tokens",
        "nested_dims",
        "normalize",
        "pooling",
        "projections",
        "prompt",
        "prompts",
        "score_head",
        "tokenizer",
        "truncate_dim",
    )
    _serves_head = False
    _token_layers = 0
    most_pieces: Callable[[int], int] | None = None
    """The most micro-batches of any process, from those of this one, where all go through the layers together."""

    @takes_peer_options
    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        pooling: str,
        normalize: bool,
        max_length: int,
        projections: Sequence[OutputLayer],
        prompts: Prompts = Prompts(),  # noqa: B008  # frozen
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pooling = check_pooling(pooling)
        self.normalize = normalize
        self.max_length = max_length
        self.projections = nn.ModuleList(projections)
        self.score_head: BilinearScore | None = None
        self.licence: str | None = None
        """Of the weights that it began with, which what is trained from them is under, too."""
        self.load_warnings: tuple[str, ...] = ()
        """Lines that a user should hear once."""
        self.templates: Templates | None = None
        self.micro_batch_tokens: int | None = None
        self.truncate_dim: int | None = None
        self._packs = use_packed_attention(backbone)
        use_cheap_dropout(backbone)
        self.takes_segments = TYPES in inspect.signature(backbone.forward).parameters
        # GPT-2 would add the embedding of token 0: of what the model takes, it gets what its own tokenizer gives.
        self.gives_segments = self.takes_segments and TYPES in tokenizer.model_input_names
        if self.gives_segments and any(tokenizer("a")[TYPES]):
            raise UserError(
                f"{tokenizer.name_or_path}: its tokenizer gives a single text another segment than 0, which is not "
                "computed here. Write 0 as each type_id of single in tokenizer.json, or use another encoder"
            )
        # Models without padding token (GPT-2) never see the number: the mask hides it.
        self.pad: int = tokenizer.pad_token_id or 0
        self.prompts = prompts

    def check_setting(self, name: str, value: Any) -> None:
        from juzhen.encoders.components import num_positions  # it reads folders, and imports this

        match name:
            case "pooling":
                check_pooling(str(value))
            case "normalize":
                check_flag(name, value)
            case "truncate_dim" if value is not None:
                check_count(name, value, most=self.dim)
                if self.score_head is not None and value < self.dim:
                    raise UserError(
                        f"truncate_dim={value}: this encoder scores pairs by a learnt form of all {self.dim} numbers"
                    )
            case "nested_dims":
                for dim in value:
                    check_count(name, dim, most=self.dim)
            case "micro_batch_tokens" if value is not None:
                check_count(name, value)
            case "max_length":
                limit, beside = num_positions(self.backbone), self.input_length - self.max_length
                special = self.tokenizer.num_special_tokens_to_add()
                least = max(special, self._prompt_tokens + bool(self._prompt_tokens)) + 1
                check_count(name, value, least=least, most=None if limit is None else limit - beside)
            case "tokenizer":
                check_tokenizer(value, self.tokenizer)
            case "prompts" if self.templates is not None and as_prompts(value, self.prompts).texts:
                raise UserError(BEHIND_TEMPLATES)
        if (
            self._serves_head
            and value
            and name in ("normalize", "score_head", "prompt", "prompts", "default_prompt_name")
        ):
            raise UserError(
                f"{name}: this encoder belongs to a cross-encoder, whose head reads pooled states unchanged"
            )

    @property
    def sides(self) -> Int[np.ndarray, "sides"]:
        """Sides of `Prompts`. All 0 with templates or with a prompt of `with_prompt`, which apply to every text."""
        is_own = self.templates is None and not self._prompt_is_given
        return np.array(self._prompts.sides if is_own else [Side.EVERY] * len(Side), dtype=np.int8)

    def reading(self, side: Side) -> Self:
        """Return a copy that shares the weights and has the prompt of a side, or itself if the prompt is the same.

        Args:
            side: Read the texts as queries or as documents.

        Returns:
            An encoder.
        """
        if self.sides[side] == Side.EVERY:
            return self
        return self.with_prompt(None, self._prompts.of_side(side))

    def prompted(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them.

        Args:
            texts: The texts.

        Returns:
            The texts with prompt.
        """
        return [self._prompt + text for text in texts] if self._prompt else list(texts)

    def beginning(self, text: str) -> str:
        """Return the part of a very long text that decides what is read of it.

        Tokenizers read a text to its end before they truncate it, which takes 30 s for 7 million characters. A part
        with twice the tokens that are kept has the same first ones.

        Args:
            text: The text.

        Returns:
            Its start, or all of it.
        """
        size = CHARACTERS_PER_TOKEN * self.max_length
        if len(text) <= size or self.tokenizer.truncation_side != "right":
            return text
        tokens = self.tokenizer(text[:size], add_special_tokens=False, truncation=False, verbose=False)
        return text[:size] if len(tokens["input_ids"]) >= 2 * self.max_length else text

    @property
    def unpooled(self) -> int:
        """Tokens at the start of each sentence that pooling leaves out."""
        return 0 if self._prompts.include_prompt else self._prompt_tokens

    @property
    def inner(self) -> Self:
        """The encoder that reads texts. A cross-encoder returns its transformer."""
        return self

    @property
    def dim(self) -> int:
        return self.output_layers[-1].out_features if self.projections else self.backbone.config.hidden_size

    @property
    def may_be_zero(self) -> bool:
        """True if zeros are a valid embedding, which happens for tokens that a static table lacks.

        For a transformer, a zero vector means that the states overflowed before normalization.
        """
        return not self.normalize or isinstance(self.backbone, StaticTokens)

    @property
    def nested_dims(self) -> tuple[int, ...]:
        """Sizes below `dim` for which truncation was trained, in ascending order. May be empty."""
        dims = getattr(self.backbone.config, SIZES, None)
        sizes = dims if isinstance(dims, list | tuple) else ()
        return tuple(sorted({dim for dim in sizes if type(dim) is int and 0 < dim < self.dim}))

    @nested_dims.setter
    def nested_dims(self, dims: Iterable[int]) -> None:
        if smaller := sorted({int(dim) for dim in dims if dim < self.dim}):
            setattr(self.backbone.config, SIZES, [*smaller, self.dim])
        elif hasattr(self.backbone.config, SIZES):
            delattr(self.backbone.config, SIZES)

    @property
    def output_layers(self) -> list[OutputLayer]:
        """Layers after pooling, in order."""
        return [cast(OutputLayer, layer) for layer in self.projections]

    @property
    def token_layers(self) -> int:
        """So many of the output layers, the first ones, come before pooling, over the state of each token."""
        return self._token_layers

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def input_length(self) -> int:
        """Tokens of the whole input, those of a template included."""
        return self.max_length

    def forward(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings in float32, also under autocast, in the order in which the sentences were collated.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Embeddings, (sentences, dim).
        """
        return self._finished(self._in_micro_batches(self._packed_order, tokens), tokens)

    def pair_scores(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """Score each pair of embeddings, higher = closer, by the cosine or by the score head.

        Args:
            first: Embeddings of the first sentences.
            second: Embeddings of the second sentences.

        Returns:
            One score for each pair.
        """
        if self.score_head is not None:
            return self.score_head(first, second)
        return F.cosine_similarity(first.float(), second.float(), dim=-1)

    def token_states(self, tokens: Tokens) -> Float[Tensor, "tokens dim"]:
        """States of all tokens after the last layer, in packed order.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            States, (tokens, dim).
        """
        return self._in_micro_batches(lambda piece: self._layers(piece)[-1], tokens)

    def states_and_embeddings(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "tokens dim"], Float[Tensor, "sentences dim"]]:
        """Return `token_states` and `forward` from one pass, without micro-batches.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            States (tokens, dim), and embeddings (sentences, dim).
        """
        layers = self._layers(tokens)
        return layers[-1], self.pooled(layers, tokens)

    def pooled(self, layers: tuple[Tensor, ...], tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """The embeddings that states in packed order become, in the order in which sentences were collated.

        Args:
            layers: States of each layer in packed order, (tokens, dim).
            tokens: Packed tokens, as from `collate`.

        Returns:
            Embeddings, (sentences, dim).
        """
        return self._finished(self._pooled(layers, tokens), tokens)

    def at_depths(
        self, tokens: Tokens, depths: Sequence[float], *, finished: bool = False
    ) -> tuple[Float[Tensor, "sentences dim"], list[Float[Tensor, "sentences dim"]]]:
        """Return `forward`, and the same pooling after lower layers, in one pass.

        Args:
            tokens: Packed sentences.
            depths: Fractions of the layers of the backbone, in (0, 1]. With 12 layers 0.5 is layer 6. The last layer is
                that of `forward`. Lower layers are pooled and not projected.
            finished: Lower layers are also projected and normalized, as by an encoder with these layers only.

        Returns:
            Embeddings of the last layer, and those of each depth.

        Raises:
            UserError: The encoder is a static embedding, which has no layers.
        """
        count = self.backbone.config.num_hidden_layers
        if not count:
            raise UserError("depths: a static embedding has no layers. Choose a transformer, or another loss")
        layers_at = [layer_at(depth, count) for depth in depths]
        inner = sorted({layer for layer in layers_at if layer < count})

        def columns(piece: Tokens) -> Tensor:
            states, real = self._layer_states(piece, needs_layers=True)
            first, last = states[0][real], states[-1][real]
            pool = self._pooled if finished else self._pool
            pooled = [pool((first, states[layer - 1][real]), piece) for layer in inner]
            return torch.cat([self._pooled((first, last), piece), *pooled], dim=1)

        width = self.dim if finished else self.backbone.config.hidden_size
        widths = [self.dim] + [width] * len(inner)
        final, *below = self._in_micro_batches(columns, tokens).split(widths, dim=1)
        final = self._finished(final, tokens)
        by_layer = {
            layer: self._finished(embeddings, tokens) if finished else embeddings[tokens.inverse_permutation]
            for layer, embeddings in zip(inner, below, strict=True)
        }
        return final, [by_layer.get(layer, final) for layer in layers_at]

    def _in_micro_batches(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        """`function` of the tokens, whose rows follow packed order, piece by piece where memory is short."""
        if self.micro_batch_tokens is None or not torch.is_grad_enabled():
            return function(tokens)
        pieces = list(tokens.micro_batches(self.micro_batch_tokens))
        least = len(pieces) if self.most_pieces is None else self.most_pieces(len(pieces))
        return in_micro_batches(function, pieces, least=least)

    def _packed_order(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings from the shortest sentence to the longest, before they are normalized."""
        return self._pooled(self._layers(tokens), tokens)

    def _pooled(self, layers: tuple[Tensor, ...], tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        return self._projected(self._pool(layers, tokens))

    def _pool(self, layers: Sequence[Tensor], tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        for layer in self.output_layers[: self.token_layers]:
            layers = [layer(states) for states in layers]
        return POOLINGS[self.pooling].pool(layers, PackedSentences(tokens))

    def _projected(self, embeddings: Tensor) -> Float[Tensor, "sentences dim"]:
        for projection in self.output_layers[self.token_layers :]:
            embeddings = projection(embeddings)
        return embeddings.float()

    def _finished(self, embeddings: Tensor, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Pooled sentences in the order in which they were collated, of length 1 where that is asked for."""
        embeddings = embeddings[tokens.inverse_permutation]
        return F.normalize(embeddings, dim=-1) if self.normalize else embeddings

    def _layers(self, tokens: Tokens) -> tuple[Float[Tensor, "tokens dim"], ...]:
        """Token states of the first layer, where the pooling reads it, and of the last."""
        states, real = self._layer_states(tokens, needs_layers=POOLINGS[self.pooling].reads_first_layer)
        return tuple(layer[real] for layer in (states[:1] + states[-1:] if len(states) > 1 else states))

    def _layer_states(self, tokens: Tokens, *, needs_layers: bool) -> tuple[list[Tensor], Places]:
        """States after each layer, or after the last alone, and where among them those of the tokens are."""
        inputs, real = self._inputs(tokens)
        output = self.backbone(**inputs, output_hidden_states=needs_layers)
        # hidden_states[0] is the embedding layer. The last one is taken from last_hidden_state because some
        # models normalize it once more.
        inner = output.hidden_states[1:-1] if needs_layers else ()
        return [*inner, output.last_hidden_state], real

    def _inputs(self, tokens: Tokens) -> tuple[dict[str, Any], Places]:
        """Arguments of the backbone, and the positions of the tokens in its output."""
        if self._packs:
            return packed_inputs(self.backbone, tokens, pad=self.pad), (0, slice(len(tokens.input_ids)))
        input_ids, mask = padded_inputs(tokens, pad=self.pad)
        inputs = {"input_ids": input_ids, "attention_mask": mask} | without_cache(self.backbone)
        if self.gives_segments or tokens.segments is not None:
            inputs[TYPES] = types = torch.zeros_like(input_ids)
            if tokens.segments is not None:
                types[tokens.places] = tokens.segments
        return inputs, tokens.places

    def tokenize(self, texts: Iterable[str], *, progress: bool | None = False) -> TokenTable:
        """Tokenize texts with special tokens, truncated to max_length, without padding.

        Args:
            texts: Texts without the prompt.
            progress: Progress bar. None shows it on a terminal if it takes long.

        Returns:
            Token numbers of each text.

        Raises:
            UserError: A text has no token, and so no embedding.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> SentenceEncoder.load("builtin/mini_zh").tokenize(["今天天气很好", "A dog."]).lengths.tolist()
            [5, 6]
        """
        if isinstance(texts, str) or not isinstance(texts, Sequence):  # running text is read piece by piece
            texts = as_column(texts, "texts")

        def read(portion: Sequence[str]) -> TokenTable:
            inputs = self.prompted([self.beginning(text) for text in portion])
            table = TokenTable.of(token_ids(self.tokenizer, inputs, max_length=self.max_length))
            if not table.lengths.all():
                text = portion[int(table.lengths.argmin())]
                raise UserError(f"{short(repr(text))}: the tokenizer knows nothing in this text")
            return table

        return tokenized(texts, read, progress=progress)

    def collate(self, token_lists: Sequence[Sequence[int] | np.ndarray]) -> Tokens:
        """Tokens of several sentences, packed without padding.

        Args:
            token_lists: Token ids of each sentence.

        Returns:
            Packed tokens.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> encoder = SentenceEncoder.load("builtin/mini_zh")
            >>> encoder(encoder.collate(encoder.tokenize(["今天天气很好", "A dog."]))).shape
            torch.Size([2, 256])
        """
        tokens = pack(token_lists, max_group_tokens=self.micro_batch_tokens)
        tokens.unpooled = self.unpooled
        return tokens

    def input_lengths(self, table: TokenTable) -> Int[np.ndarray, "sentences"]:
        """Tokens that the transformer sees of each sentence.

        Args:
            table: Token ids of the sentences.

        Returns:
            int array (sentences,), with prompt and special tokens.
        """
        return table.lengths

    @torch.inference_mode()
    def infer(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Return `forward` as an array, without gradients and without dropout, on the device of the weights.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            float32 array (sentences, dim).
        """
        with evaluating(self):
            return self(tokens.to(self.device)).cpu().numpy()


class PackedSentences:
    """`Sentences` of `juzhen.encoders.pooling` for packed token states.

    Args:
        tokens: Their sentences, in packed order.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.skipped = tokens.num_unpooled.unsqueeze(-1)
        self.count = tokens.lengths.unsqueeze(-1) - self.skipped

    @property
    def places(self) -> Float[Tensor, "tokens 1"]:
        return (self.tokens.positions + 1).unsqueeze(-1).float()

    def sum(self, states: Float[Tensor, "tokens dim"]) -> Float[Tensor, "sentences dim"]:
        """Sum of the pooled states of each sentence.

        Args:
            states: Packed token states.

        Returns:
            float32, one row per sentence.
        """
        empty = torch.zeros(len(self.tokens), states.shape[-1], device=states.device)
        return empty.index_add(0, self.tokens.sentence_of_token, self._pooled(states, filling=0.0))

    def max(self, states: Float[Tensor, "tokens dim"]) -> Float[Tensor, "sentences dim"]:
        """Largest pooled value of each dimension.

        Args:
            states: Packed token states.

        Returns:
            float32, one row per sentence.
        """
        states = self._pooled(states, filling=float("-inf"))
        lowest = states.new_full((len(self.tokens), states.shape[-1]), float("-inf"))
        numbers = self.tokens.sentence_of_token.unsqueeze(-1).expand_as(states)
        return lowest.scatter_reduce(0, numbers, states, "amax")

    def first(self, states: Float[Tensor, "tokens dim"]) -> Float[Tensor, "sentences dim"]:
        """State of the first pooled token.

        Args:
            states: Packed token states.

        Returns:
            float32, one row per sentence.
        """
        return states[self.tokens.starts + self.skipped.squeeze(-1)].float()

    def last(self, states: Float[Tensor, "tokens dim"]) -> Float[Tensor, "sentences dim"]:
        """State of the last token.

        Args:
            states: Packed token states.

        Returns:
            float32, one row per sentence.
        """
        return states[self.tokens.lengths.cumsum(0) - 1].float()

    def _pooled(self, states: Float[Tensor, "tokens dim"], *, filling: float) -> Float[Tensor, "tokens dim"]:
        """The states in float32, with `filling` for those of a prompt that is not pooled."""
        tokens, states = self.tokens, states.float()
        if isinstance(tokens.unpooled, int) and not tokens.unpooled:
            return states
        left_out = tokens.positions < tokens.num_unpooled[tokens.sentence_of_token]
        return states.masked_fill(left_out.unsqueeze(-1), filling)


def layer_at(depth: float, count: int) -> int:
    """Layer number, from 1, at a fraction of `count` layers, rounded up.

    Args:
        depth: Fraction of the layers, above 0 and at most 1.
        count: Layers of the transformer.

    Returns:
        From 1 to `count`. 0 for a transformer without layers.

    Example:
        >>> [layer_at(depth, 12) for depth in (0.01, 0.25, 0.7, 1)], layer_at(0.5, 1)
        ([1, 3, 9, 12], 1)
    """
    return max(math.ceil(depth * count - 1e-6), min(count, 1))
