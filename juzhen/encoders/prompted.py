"""The text that stands before every sentence of an encoder: set by name, set as it is, or chosen for a call."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError
from juzhen.core.text import short
from juzhen.encoders.prompts import Prompts, as_prompts
from juzhen.encoders.settable import Settable
from juzhen.encoders.templates import Templates

BEHIND_TEMPLATES = "this encoder reads sentences through templates, before which no prompt stands"


class Prompted(Settable):
    """What an encoder that has a tokenizer, a maximal length and templates or none knows of prompts."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    templates: Templates | None
    _prompt: str
    _prompts: Prompts
    _prompt_tokens: int
    _prompt_is_given: bool

    def with_prompt(self, prompt_name: str | None = None, prompt: str | None = None) -> Self:
        """The same weights with another text before every sentence: the prompt of that name, or the text itself.

        Raises UserError for both, for an unknown name, and for an encoder that reads sentences through templates.
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
        """Name of the prompt before every sentence, as of `Prompts`; None: none stands there."""
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
        """Has a prompt stand before every sentence. Raises UserError where it could not stand there whole."""
        if not prompt:
            self._prompt, self._prompt_tokens = prompt, 0
            return
        quoted = f"prompt {short(repr(prompt))}"
        if self.templates is not None:
            raise UserError(BEHIND_TEMPLATES)
        if self.tokenizer.truncation_side == "left":
            raise UserError(
                f"{quoted}: this tokenizer cuts long sentences at the front, where the prompt stands; "
                "set truncation_side to right in its tokenizer_config.json, or do without a prompt"
            )
        ids = self.tokenizer(prompt, verbose=False)["input_ids"]
        if len(ids) >= self.max_length:
            raise UserError(
                f"max_length={self.max_length}: the {quoted} takes {len(ids)} tokens of it, special ones "
                f"included, which leaves none for the sentence; set at least max_length={len(ids) + 16}"
            )
        # Counted as sentence-transformers does: alone, and without the special token behind it.
        self._prompt = prompt
        self._prompt_tokens = len(ids) - sum(number in self.tokenizer.all_special_ids for number in ids[-1:])
