"""Where a text begins and ends among the tokens that are put around it, and by what a tokenizer is known again."""

import hashlib
import tempfile
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import tokenizers
import transformers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.safe_open import read_json
from juzhen.encoders.settings_file import read_settings

TOKENIZER_SETTINGS = "tokenizer_config.json"
NAMES_BEFORE_5 = {"TokenizersBackend": "PreTrainedTokenizerFast"}
"""Class of a tokenizer in transformers 5 → its name in 4, which both read."""


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


def append_end_token(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Has the tokenizer put its end token behind each text, where its settings say so and its file does not yet.

    Transformers 5 passes over `add_eos_token` where there is a tokenizer.json, and embeddings of the last token would
    be silently others than those of the author. Raises UserError where the settings name no such token.
    """
    path = folder / TOKENIZER_SETTINGS
    wants_end = path.is_file() and read_settings(path).get("add_eos_token") is True
    if not wants_end or not tokenizer.is_fast or special_around(tokenizer)[1]:
        return
    end = tokenizer.eos_token
    if end is None:
        raise UserError(
            f"{path}: add_eos_token is true, and there is no eos_token; name one, or set it to false"
        )
    before = tokenizer.convert_ids_to_tokens(tokenizer("")["input_ids"])
    first, second = (
        [*(f"{token}:{part}" for token in before), f"${text}:{part}", f"{end}:{part}"]
        for part, text in enumerate("AB")
    )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=first,
        pair=[*first, *second],
        special_tokens=[(token, tokenizer.convert_tokens_to_ids(token)) for token in {*before, end}],
    )


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


def write_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """As transformers writes it, by names that programs with transformers 4 know as well."""
    tokenizer.save_pretrained(folder)
    settings = read_json(folder / TOKENIZER_SETTINGS)
    if name := NAMES_BEFORE_5.get(settings.get("tokenizer_class")):
        settings["tokenizer_class"] = name
        write_json(folder / TOKENIZER_SETTINGS, settings, indent=2, in_own_folder=True)
