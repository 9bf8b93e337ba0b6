"""Where a text begins and ends among the tokens that are put around it, and by what a tokenizer is known again."""

import hashlib
import tempfile
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import tokenizers
import transformers
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


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> bytes:
    """Digest of a tokenizer's whole state, special tokens and library versions included; not of where it was read."""
    state = [
        type(tokenizer).__name__,
        transformers.__version__,
        tokenizers.__version__,
        str(sorted((name, str(token)) for name, token in tokenizer.special_tokens_map.items())),
        str(tokenizer.truncation_side),
        str(getattr(tokenizer, "split_special_tokens", None)),
    ]
    digest = hashlib.blake2b("\0".join(state).encode())
    if tokenizer.is_fast:
        # Truncation and padding are left behind by the last call and set by the next.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        digest.update(tokenizer.backend_tokenizer.to_str().encode())
        return digest.digest()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()
