"""A vocabulary that knows every character: common ones have a piece, bytes spell the rest, scripts are folded."""

import base64
import io
import json
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, require_packages
from juzhen.core.text import script_table
from juzhen.distillation.vocabulary import token_counts

BYTES = tuple(f"<0x{number:02X}>" for number in range(256))

BYTE_SCORE = -1_000.0
"""Below any spelling of a text by characters, so that the text "<0x41>" itself is not read as a byte."""

SPACE = "▁"
"""What the Metaspace of a Unigram vocabulary writes for a space."""

EMOJI = ((0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F90C, 0x1F93A), (0x1F970, 0x1F97A), (0x2600, 0x26FF))
LETTERS = ((0x21, 0x7E), (0xA1, 0x17F), (0x391, 0x3C9), (0x410, 0x44F))
SIGNS = (
    (0x2010, 0x2027),
    (0x2190, 0x2193),
    (0x25A0, 0x25CF),
    (0x3001, 0x3011),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
)


def common_characters() -> list[str]:
    """Return the characters that always have a piece, in NFKC and simplified.

    They are the 6,763 hanzi of both levels of GB 2312, with which GB 18030 begins, letters of Latin, Greek and
    Cyrillic, kana, signs and common emoji.
    """
    hanzi = [
        bytes([row, cell]).decode("gb2312", "ignore")
        for row in range(0xB0, 0xF8)
        for cell in range(0xA1, 0xFF)
    ]
    others = [chr(number) for start, end in (*LETTERS, *SIGNS, *EMOJI) for number in range(start, end + 1)]
    table = script_table()
    assigned = [one for one in (*hanzi, *others) if one and unicodedata.category(one) not in {"Cn", "Mn"}]
    return list(
        dict.fromkeys(
            one for one in assigned if unicodedata.normalize("NFKC", one) == one and one not in table
        )
    )


def complete_tokenizer(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int
) -> PreTrainedTokenizerFast:
    """Make a tokenizer without unknown characters out of a Unigram tokenizer.

    It folds traditional characters (`juzhen.core.text.script_table`), drops marks on hanzi, and strips white space
    around a text. Its vocabulary holds the special tokens, 256 bytes, `common_characters`, and the pieces of the given
    tokenizer that the folded texts need most. Two texts that differ after normalization have different token ids.

    Args:
        tokenizer: A Unigram tokenizer, such as XLM-R's.
        texts: Texts whose pieces are counted.
        size: Tokens of the new vocabulary.

    Raises:
        UserError: Another kind of tokenizer, or a size that the characters alone fill.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    if spec["model"]["type"] != "Unigram":
        raise UserError(
            f"A {spec['model']['type']} vocabulary cannot be completed: only Unigram chooses pieces by scores. "
            "Take a teacher with a Unigram tokenizer, such as multilingual-e5"
        )
    spec["normalizer"] = folding_normalizer(spec["normalizer"])
    folding = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)), **_names(tokenizer)
    )
    scores: dict[str, float] = dict(spec["model"]["vocab"])
    old_numbers = tokenizer.get_vocab()
    specials = sorted(tokenizer.all_special_tokens, key=old_numbers.__getitem__)
    last = [piece for piece in specials if old_numbers[piece] > len(specials)]
    first = [piece for piece in specials if piece not in last]
    counts = token_counts(folding, texts)
    by_need = sorted(scores, key=lambda piece: -counts[old_numbers[piece]])
    always = dict.fromkeys([*first, *BYTES, SPACE, *common_characters()])
    free = size - len(always) - len(last)
    if free < 0:
        raise UserError(
            f"vocabulary={size:,}: the characters alone need {size - free:,} tokens. Take at least {size - free:,}"
        )
    table = script_table()
    fits = (
        piece
        for piece in by_need
        if piece not in always and piece not in specials and not table.keys() & set(piece)
    )
    kept = [*always, *(piece for piece, _ in zip(fits, range(free), strict=False)), *last]
    lowest = min(scores.values())
    special_scores = dict.fromkeys(specials, 0.0) | dict.fromkeys(BYTES, BYTE_SCORE)
    vocabulary = [[piece, special_scores.get(piece, scores.get(piece, lowest))] for piece in kept]
    numbers = {piece: number for number, piece in enumerate(kept)}
    spec["model"] |= {"vocab": vocabulary, "unk_id": numbers[tokenizer.unk_token], "byte_fallback": True}
    spec["added_tokens"] = [added | {"id": numbers[added["content"]]} for added in spec["added_tokens"]]
    for entry in (spec["post_processor"] or {}).get("special_tokens", {}).values():
        entry["ids"] = [numbers[piece] for piece in entry["tokens"]]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **_names(tokenizer),
    )


def folding_normalizer(before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Put the folding of scripts behind a tokenizer's own normalizer, which must begin with NFKC.

    Marks that follow a hanzi are dropped first: the Precompiled normalizer of the tokenizers library looks up a
    character together with its marks, and would drop them beside the characters of the table alone.
    """
    steps = [] if before is None else before.get("normalizers", [before])
    if {"type": "NFKC"} not in steps:
        steps = [{"type": "NFKC"}, *steps]
    return {
        "type": "Sequence",
        "normalizers": [
            *steps,
            {"type": "Replace", "pattern": {"Regex": r"(?<=\p{Han})\p{M}+"}, "content": ""},
            {"type": "Replace", "pattern": {"String": SPACE}, "content": "_"},
            {"type": "Precompiled", "precompiled_charsmap": _charsmap(script_table())},
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ],
    }


def _charsmap(table: Mapping[str, str]) -> str:
    """Compile a table of characters into the trie that sentencepiece and tokenizers read, base64."""
    require_packages("A complete vocabulary", "sentencepiece", extra="student")
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rows = (f"{ord(character):X}\t{ord(simple):X}\n" for character, simple in sorted(table.items()))
        write_text(rules, "".join(rows), in_own_folder=True)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["一二三四五六七八九十"] * 8),
            model_writer=model,
            vocab_size=14,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    proto: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(model.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def _names(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, Any]:
    return dict(tokenizer.special_tokens_map)


def shared_tokens(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> Iterable[tuple[int, int]]:
    """Yield the numbers of each token that both vocabularies hold: (in the old one, in the new one)."""
    numbers = old.get_vocab()
    return ((numbers[token], number) for token, number in new.get_vocab().items() if token in numbers)
