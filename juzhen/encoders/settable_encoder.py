"""What can be set on an encoder of texts, and how each of it is checked."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from torch import nn
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError
from juzhen.core.texts import short, text_fault
from juzhen.encoders.layout import check_pooling
from juzhen.encoders.pooling import BilinearScore
from juzhen.encoders.prefix import Prefix, checked_prefix
from juzhen.encoders.settable import Settable, check_count, check_flag

T = TypeVar("T")


SEGMENTS_UNKNOWN = (
    "segments=true: this encoder, or its tokenizer, does not tell two sentences apart by segments, as that of "
    "builtin/mini_zh does not; leave it at null"
)


class SettableEncoder(Settable):
    """The part of `juzhen.encoders.pooled_encoder.PooledEncoder` that checks what is set. Raises UserError."""

    hints: ClassVar[Mapping[str, str]] = {
        "prompts": "templates belong to the weights; texts before sentences are "
        'encoder.prefix = {"query": "query: "}, or encode(…, prompt="query: ")',
        "prompt": "encoder.with_prompt(prompt=…) has the same weights and that text before every sentence; what is to "
        'be saved with the encoder: encoder.prefix = Prefix({"name": "text"}, "name")',
        "max_seq_length": "it is called max_length here",
    }

    def _checked_pooling(self: Any, value: Any) -> str:
        return check_pooling(str(value))

    def _checked_normalize(self: Any, value: Any) -> bool:
        return bool(self._of_embeddings("normalize", check_flag("normalize", value)))

    def _checked_max_length(self: Any, value: Any) -> int:
        from juzhen.encoders.parts import num_positions  # it reads folders, and imports this

        special, beside = self.tokenizer.num_special_tokens_to_add(), self.input_length - self.max_length
        limit = num_positions(self.backbone)
        least = max(special, self._prompt_tokens + bool(self._prompt_tokens)) + 1
        return check_count("max_length", value, least=least, most=None if limit is None else limit - beside)

    def _checked_micro_batch_tokens(self: Any, value: Any) -> int | None:
        return None if value is None else check_count("micro_batch_tokens", value)

    def _checked_score_head(self: Any, value: Any) -> BilinearScore | None:
        if value is not None and not isinstance(value, BilinearScore):
            raise UserError(
                f"score_head={short(repr(value), 40)}: expected a BilinearScore, or None for the cosine"
            )
        return self._of_embeddings("score_head", value)

    def _checked_projections(self: Any, value: Any) -> nn.ModuleList:
        if not isinstance(value, nn.ModuleList):
            raise UserError(f"projections={short(repr(value), 40)}: expected an nn.ModuleList of layers")
        return value

    def _checked_prefix(self: Any, value: Any) -> Prefix:
        prefix = checked_prefix(value, self.prefix)
        if self.prompts is not None and prefix.prompts:
            raise UserError("this encoder reads sentences through templates, before which no prompt stands")
        self._of_embeddings("prefix", prefix.prompts)
        self._put_before(prefix.text)
        self._prompt_is_given = False
        return prefix

    def _of_embeddings(self: Any, name: str, value: T) -> T:
        if value and self._serves_head:
            raise UserError(
                f"{name}: this encoder serves a cross-encoder, whose head reads pooled states as they are"
            )
        return value

    def _checked_tokenizer(self: Any, value: Any) -> PreTrainedTokenizerBase:
        if not isinstance(value, PreTrainedTokenizerBase) or value.get_vocab() != self.tokenizer.get_vocab():
            raise UserError(
                "the weights belong to the vocabulary that they were loaded with; load another encoder"
            )
        return value

    def _put_before(self: Any, prompt: str) -> None:
        """Has a prompt stand before every sentence. Raises UserError where it could not stand there whole."""
        if not prompt:
            self.__dict__.update(prompt=prompt, _prompt_tokens=0)
            return
        shown = f"prompt {short(repr(prompt))}"
        if fault := text_fault(f"a{prompt}"):
            raise UserError(f"{shown} {fault}")
        if self.tokenizer.truncation_side == "left":
            raise UserError(
                f"{shown}: this tokenizer cuts long sentences at the front, where the prompt stands; "
                "set truncation_side to right in its tokenizer_config.json, or do without a prompt"
            )
        ids = self.tokenizer(prompt, verbose=False)["input_ids"]
        if len(ids) >= self.max_length:
            raise UserError(
                f"max_length={self.max_length}: the {shown} takes {len(ids)} tokens of it, special ones "
                f"included, which leaves none for the sentence; set at least max_length={len(ids) + 16}"
            )
        # Counted as sentence-transformers does: alone, and without the special token behind it.
        taken = len(ids) - sum(one in self.tokenizer.all_special_ids for one in ids[-1:])
        self.__dict__.update(prompt=prompt, _prompt_tokens=taken)


class SettablePairs(Settable):
    """The same of `juzhen.encoders.cross_encoder.CrossEncoder`."""

    hints: ClassVar[Mapping[str, str]] = {
        name: f"it is encoder.inner.{name}" for name in ("pooling", "max_length", "micro_batch_tokens")
    }

    def _checked_symmetric(self: Any, value: Any) -> bool:
        return check_flag("symmetric", value)

    def _checked_segments(self: Any, value: Any) -> bool:
        if check_flag("segments", value) and not self.marks_segments:
            raise UserError(SEGMENTS_UNKNOWN)
        return value
