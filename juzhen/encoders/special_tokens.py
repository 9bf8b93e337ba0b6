"""Where the tokens of a text begin and end among those that a tokenizer puts around it."""

from collections.abc import Sequence
from itertools import takewhile

from transformers import PreTrainedTokenizerBase


def special_around(tokenizer: PreTrainedTokenizerBase, *, prompt: str = "") -> tuple[int, int]:
    """Special tokens before a text, and behind it; some tokenizers put none, or only one.

    prompt  its tokens count as special ones before the text, but for one that the text may join
    """
    empty, full = (tokenizer(text)["input_ids"] for text in ("", "a"))
    before = _shared(empty, full)
    after = len(empty) - before
    if prompt:
        before = _shared(*(tokenizer(prompt + text)["input_ids"] for text in ("a", "今")))
    return before, after


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens at the start that are the same."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return len(list(pairs))
