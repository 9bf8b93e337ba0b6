"""Where the tokens of a text begin and end among those that a tokenizer puts around it."""

from transformers import PreTrainedTokenizerBase


def special_around(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Special tokens before a text, and behind it; some tokenizers put none, or only one."""
    empty, full = (tokenizer(text)["input_ids"] for text in ("", "a"))
    before = 0
    while before < len(empty) and empty[before] == full[before]:
        before += 1
    return before, len(empty) - before
