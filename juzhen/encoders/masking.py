"""Masked language modelling: choice of the masked tokens, their replacement, and the output head.

Every draw is a hash of (seed, step, sentence, position). No generator has a state, so a resumed run, another number of
processes or another order of rows masks the same tokens.
"""

import copy
import logging
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from juzhen.core.batch import Tokens, mapped
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.encoders.backbone import quiet
from juzhen.encoders.forward import FILL_TO
from juzhen.encoders.resolve_path import has_weights
from juzhen.encoders.tokens import special_around

log = logging.getLogger(__name__)

STRATEGIES = ("token", "word", "span")
LONGEST_SPAN = 10
"""Words of a span. Longer spans are truncated, as in SpanBERT."""

BITS = 24
"""Bits of a draw, as many as float32 can represent."""

_START, _LENGTH, _REPLACE, _RANDOM = range(4)
"""Purpose of a draw."""


def _logical_shift(keys: Int[Tensor, "*any"], bits: int) -> Int[Tensor, "*any"]:
    return (keys >> bits) & ((1 << (64 - bits)) - 1)


def mixed(keys: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """splitmix64's finaliser (Steele et al. 2014, https://doi.org/10.1145/2660193.2660195): scrambles 64 bits.

    Args:
        keys: int64, read as 64 bits each.

    Returns:
        int64 of the same shape.
    """
    keys = keys + (0x9E3779B97F4A7C15 - 2**64)
    keys = (keys ^ _logical_shift(keys, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    keys = (keys ^ _logical_shift(keys, 27)) * (0x94D049BB133111EB - 2**64)
    return keys ^ _logical_shift(keys, 31)


def _bits(keys: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """The first BITS bits of scrambled keys."""
    return _logical_shift(keys, 64 - BITS)


def uniform(keys: Int[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Scrambled keys as numbers of [0, 1).

    Args:
        keys: int64, results of `mixed`.

    Returns:
        float32, multiples of 2 to the power of −BITS.
    """
    return _bits(keys).float() / 2**BITS


@dataclass(frozen=True)
class Vocabulary:
    """Properties of a tokenizer for masking.

    Attributes:
        mask: Id of the mask token.
        special: True for special tokens, which are never masked.
        continues: True for tokens that continue the word of the token before.
        ordinary: Ids of the possible replacements.
        spared: Tokens at the start of every text that are never masked: special tokens and a prompt.
    """

    mask: int
    special: Bool[Tensor, "vocabulary"]
    continues: Bool[Tensor, "vocabulary"]
    ordinary: Int[Tensor, "some"]
    spared: int = 0

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, *, size: int, prompt: str = "") -> "Vocabulary":
        """Read the properties of a tokenizer.

        Args:
            tokenizer: A tokenizer with a mask token.
            size: Rows of the embedding table. It may be larger than the vocabulary of the tokenizer.
            prompt: Prompt before every text, which is never masked. "" for none.

        Returns:
            Number of the mask token, and tensors over `size` tokens.

        Raises:
            UserError: The tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            raise UserError(
                f"{tokenizer.name_or_path or 'this encoder'}: its tokenizer has no mask token, which masked "
                "language modelling needs. Choose a masked language model, such as a BERT"
            )
        numbers = tokenizer.get_vocab()
        special = torch.zeros(size, dtype=torch.bool)
        special[tokenizer.all_special_ids] = True
        continues = torch.zeros(size, dtype=torch.bool)
        continues[[numbers[token] for token in numbers if continues_word(token, numbers)]] = True
        ordinary = torch.tensor(sorted(set(numbers.values()) - set(tokenizer.all_special_ids)))
        spared = special_around(tokenizer, prompt=prompt)[0] if prompt else 0
        return cls(tokenizer.mask_token_id, special, continues & ~special, ordinary, spared)

    def to(self, device: torch.device) -> "Vocabulary":
        """Copy the tensors to a device.

        Args:
            device: Device of the new tensors.

        Returns:
            A copy on that device.
        """
        return mapped(self, lambda tensor: tensor.to(device))


def continues_word(token: str, vocabulary: dict[str, int]) -> bool:
    """True for a token inside a word. WordPiece marks continuations (##ing), BPE and SentencePiece mark starts (Ġthe,
    ▁the).

    If starts are marked, only Latin letters and digits continue a word, since Chinese has no spaces.

    Args:
        token: Token as the vocabulary spells it.
        vocabulary: Token → id. It decides which of the two marks is used.

    Returns:
        False for a token that starts a word, and for a Chinese character under SentencePiece and BPE.
    """
    if "##a" in vocabulary or "##s" in vocabulary:
        return token.startswith("##")
    return token.isascii() and token.isalnum()


def span_start_rate(rate: float, *, mean: float) -> float:
    """How often a span must begin at a word, so that a word is inside of one with probability `rate`.

    A word is hidden unless none of the spans that begin at it or up to LONGEST_SPAN − 1 words before reaches it:
    rate = 1 − Π_k (1 − p · P(length > k)), with P(length > k) = (1 − 1/mean)^k. Solved by bisection.

    Args:
        rate: Probability that a word is hidden, between 0 and 1.
        mean: Mean words of a span before the limit, at least 1.

    Returns:
        Probability p, at most `rate`.
    """
    low, high = 0.0, rate
    for _ in range(60):
        middle = (low + high) / 2
        spared = 1.0
        for lag in range(LONGEST_SPAN):
            spared *= 1 - middle * (1 - 1 / mean) ** lag
        low, high = (middle, high) if 1 - spared < rate else (low, middle)
    return high


@dataclass(frozen=True)
class Masking:
    """Masks a share of the tokens (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 3.1).

    Attributes:
        rate: Share of tokens to predict, above 0 and below 1.
        strategy: token: single tokens · word: all tokens of a word or number, a Chinese character is a word ·
            span: runs of words with geometric length (Joshi et al. 2020, https://arxiv.org/abs/1907.10529, section
            3.1).
        mean_span: Mean words per span, before the limit LONGEST_SPAN.
        mask_share: Share of the predicted tokens that the mask token replaces.
        random_share: Share that a random token replaces. The rest is unchanged.
    """

    rate: float
    strategy: str
    mean_span: float
    mask_share: float
    random_share: float

    def __post_init__(self) -> None:
        require_choice("strategy", self.strategy, STRATEGIES)
        require_number("mask_rate", self.rate, 0, 1, open_low=True, open_high=True)
        require_number("mean_span", self.mean_span, 1, LONGEST_SPAN)
        require_number("mask_share", self.mask_share, 0, 1)
        require_number("random_share", self.random_share, 0, 1 - self.mask_share)

    def __call__(
        self,
        tokens: Tokens,
        numbers: Int[Tensor, "sentences"],
        vocabulary: Vocabulary,
        *,
        seed: int,
        step: int,
    ) -> tuple[Int[Tensor, "tokens"], Bool[Tensor, "tokens"]]:
        """Return (input ids, mask of the tokens to predict), both in packed order.

        `numbers` of the sentences, in the order given to collate, determine the draws together with seed and step.
        """
        ids = tokens.input_ids
        keys = torch.empty_like(numbers)
        keys[tokens.inverse_permutation] = numbers
        keys = mixed(mixed(mixed(torch.full_like(keys, seed)) ^ step) ^ keys)[tokens.sentence_of_token]
        special = vocabulary.special[ids]
        hidden = self._hidden(tokens, keys, vocabulary.continues[ids]) & ~special
        hidden &= tokens.positions >= vocabulary.spared
        token_keys = mixed(keys + tokens.positions)
        draw = uniform(mixed(token_keys ^ _REPLACE))
        # In whole numbers: float32 would round up to the size of the vocabulary, and a Mac's GPU has no float64.
        drawn_tokens = _bits(mixed(token_keys ^ _RANDOM)) * len(vocabulary.ordinary) >> BITS
        seen = torch.where(hidden & (draw < self.mask_share), torch.full_like(ids, vocabulary.mask), ids)
        at_random = hidden & (draw >= self.mask_share) & (draw < self.mask_share + self.random_share)
        return torch.where(at_random, vocabulary.ordinary[drawn_tokens], seen), hidden

    def _hidden(
        self, tokens: Tokens, keys: Int[Tensor, "tokens"], continues: Bool[Tensor, "tokens"]
    ) -> Bool[Tensor, "tokens"]:
        """Masked tokens before special tokens are excluded."""
        if self.strategy == "token":
            return uniform(mixed(mixed(keys + tokens.positions) ^ _START)) < self.rate
        begun = (~continues).long().cumsum(0)
        word_numbers = begun - begun[tokens.starts][tokens.sentence_of_token]
        if self.strategy == "word":
            return uniform(mixed(mixed(keys + word_numbers) ^ _START)) < self.rate
        start_rate = span_start_rate(self.rate, mean=self.mean_span)
        reaches = 1 - 1 / self.mean_span  # probability that a span goes on by one more word
        hidden = torch.zeros_like(continues)
        for lag in range(LONGEST_SPAN if reaches else 1):
            # Spans may begin before the sentence does, or its first words would be spared.
            first = mixed(keys + word_numbers - lag)
            begins = uniform(mixed(first ^ _START)) < start_rate
            hidden |= begins & (uniform(mixed(first ^ _LENGTH)) < reaches**lag)
        return hidden


class _StatesInstead(nn.Module):
    """Stands where the transformer was: gives what came in as if it were the transformer's output."""

    def forward(self, *unused: object, inputs_embeds: Tensor, **options: object) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedTokenHead(nn.Module):
    """Token states → logits over the vocabulary, as computed by the architecture's `…ForMaskedLM`.

    The transformer is replaced by given states, so only selected tokens pass the head. The logits of a token do not
    depend on other tokens. The output matrix is the backbone's embedding table if the architecture ties the two.

    Args:
        backbone: Its folder may hold the weights of the head.

    Attributes:
        is_new: The weights are random, because the folder of the backbone has none.
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.model, self.is_new = _with_head(backbone)
        if backbone.config.get_text_config().tie_word_embeddings:
            self.model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
        setattr(self.model, self.model.base_model_prefix, _StatesInstead())
        self.train()  # what comes from a folder is set to be used, not to learn

    def forward(self, states: Float[Tensor, "some dim"]) -> Float[Tensor, "some vocabulary"]:
        """Predict the tokens of selected places.

        Args:
            states: States of these tokens.

        Returns:
            Logits, one row per state.
        """
        rows = len(states)
        # Every step hides another number of tokens, and a bf16 product on a CPU keeps code for each shape.
        missing = -rows % FILL_TO if states.device.type == "cpu" else 0
        return self.model(inputs_embeds=F.pad(states, (0, 0, 0, missing)).unsqueeze(0)).logits[0, :rows]

    def save(self, backbone: PreTrainedModel, folder: Path) -> None:
        """Write the masked language model of a backbone and this head, as transformers writes it.

        Args:
            backbone: Takes the place of the given states in the file.
            folder: Target folder.
        """
        name = self.model.base_model_prefix
        stand_in = getattr(self.model, name)
        setattr(self.model, name, backbone)
        try:
            with quiet():
                self.model.save_pretrained(folder)
        finally:
            setattr(self.model, name, stand_in)


def _with_head(backbone: PreTrainedModel) -> tuple[PreTrainedModel, bool]:
    """Masked language model of the backbone's architecture, and whether its head is new.

    The head comes from the folder, or from torch's generator if the folder has none.
    """
    architecture = copy.deepcopy(backbone.config)
    # The stand-in takes no masks, so the plainest attention will do.
    architecture._attn_implementation = "eager"
    folder = Path(backbone.name_or_path) if backbone.name_or_path else None
    with quiet():
        if folder is None or not folder.is_dir() or not has_weights(folder):
            return AutoModelForMaskedLM.from_config(architecture, dtype=torch.float32), True
        model, report = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=architecture,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    require_finite_weights(model.named_parameters(), folder)
    if report["missing_keys"]:
        log.info("%s holds no head for masked tokens; a new one is trained", folder)
    return model, bool(report["missing_keys"])
