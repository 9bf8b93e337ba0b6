"""A tokenizer with fewer tokens: those that some text needs most."""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from juzhen.core.errors import UserError

TEXTS_PER_CALL = 10_000


def token_counts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Int[np.ndarray, "tokens"]:
    """How often each token occurs in the texts; a single character also where it is part of a longer token.

    A text that holds a token which is left out later is spelt by characters, so these must be known.
    """
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    characters: Counter[str] = Counter()
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        characters.update("".join(portion))
        ids = tokenizer(portion, add_special_tokens=False, verbose=False)["input_ids"]
        counts += np.bincount(
            np.concatenate([np.asarray(ids_of_text, dtype=np.int64) for ids_of_text in ids]),
            minlength=len(counts),
        )
    spelt = tokenizer.get_vocab()
    for character, count in characters.items():
        if character in spelt:
            counts[spelt[character]] = max(counts[spelt[character]], count)
    return counts


def most_needed(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int
) -> Int[np.ndarray, "kept"]:
    """Numbers, ascending, of the `size` tokens to keep: all special ones, then those that the texts need most."""
    spelt = tokenizer.get_vocab()
    always = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    always |= {spelt["▁"]} if "▁" in spelt else set()
    if size <= len(always):
        raise UserError(
            f"a vocabulary of {size:,}: {len(always)} are special tokens alone; ask for some thousand"
        )
    order = np.argsort(-token_counts(tokenizer, texts), kind="stable")
    by_need = [number for number in order.tolist() if number not in always]
    return np.sort(np.asarray([*always, *by_need[: size - len(always)]], dtype=np.int64))


def with_tokens(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> PreTrainedTokenizerFast:
    """The tokenizer with the tokens of these numbers alone, numbered anew in their order.

    Raises UserError for a tokenizer of another kind than Unigram or WordPiece: others build a token out of smaller
    ones, which have to stay.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    model, number = spec["model"], {int(old): new for new, old in enumerate(token_ids)}
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in number]
        model["unk_id"] = number.get(model["unk_id"])
    elif model["type"] == "WordPiece":
        model["vocab"] = {token: number[old] for token, old in model["vocab"].items() if old in number}
    else:
        raise UserError(
            f"a {model['type']} vocabulary cannot be cut down: its tokens are built out of smaller ones; "
            "only Unigram and WordPiece can"
        )
    spec["added_tokens"] = [added | {"id": number[added["id"]]} for added in spec["added_tokens"]]
    for entry in (spec["post_processor"] or {}).get("special_tokens", {}).values():
        entry["ids"] = [number[old] for old in entry["ids"]]
    smaller = Tokenizer.from_str(json.dumps(spec))
    return PreTrainedTokenizerFast(
        tokenizer_object=smaller,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )
