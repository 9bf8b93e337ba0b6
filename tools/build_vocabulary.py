"""Writes config.json and vocabulary of the built-in encoder and decoder: `python -m tools.build_vocabulary`.

The vocabulary is a closed list, not learnt from a corpus, so the same files come out on every machine:

    special tokens · lower-cased ASCII · further letters and signs · all hanzi of GB 2312 · some later hanzi

Whatever the tokenizer keeps together as one word (letters, digits, signs that are no punctuation) also stands
as a continuation (`##a`), so that every such word splits into its characters.
"""

import string
import sys
import unicodedata
from pathlib import Path
from typing import Any

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_json, write_text
from juzhen.core.paths import BUILTIN

FOLDER, DECODER = BUILTIN / "encoder", BUILTIN / "decoder"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHANUMERIC = string.digits + string.ascii_lowercase
GREEK = "αβγδεζηθικλμνξοπρςστυφχψω"
FULL_WIDTH = "".join(chr(ord(letter) + 0xFEE0) for letter in ALPHANUMERIC)
PUNCTUATION = (
    "，。！？、；：“”‘’（）《》〈〉【】『』「」〔〕〖〗—…·－／％＆＃＠＊＿＂＇．｛｝［］＼–‐―‧・﹐﹑′″‰※§¶†•"
)
SIGNS = "～＋＝＜＞｜｀＾＄￥°℃℉×÷±≈≤≥∞√∑∏∫∈∩∪∠⊥∥→←↑↓↔─●○◎◇◆□■△▲▽▼☆★№™®©€£¥¢²³μ"
ENUMERATORS = "①②③④⑤⑥⑦⑧⑨⑩ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ"
LATER_HANZI = (
    "〇々啰瞭镕囧喆堃嘚咗嘢嗰咁屌珺玥珅琤瑀玭暐昇昉燚璟翀祐祇牠邨呎吋埗粧舖劵砲衞畠彧嬛禛焗冇冏乂氹霑"
)
"""Hanzi in use today that GB 2312 (1980) lacks."""

TRADITIONAL = "這個們說時為來對學會與從過還沒嗎麼開見間問請額銀帳換國長門東車馬鳥魚龍點電話頭買賣錢號網"
"""The commonest traditional forms, which turn up in texts that are otherwise simplified."""

START = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
LAYERS, WIDTH, HEADS, INNER, POSITIONS = 4, 256, 4, 1024, 512


def main() -> None:
    encoder, decoder = (Path(sys.argv[1]), Path(sys.argv[2])) if len(sys.argv) > 2 else (FOLDER, DECODER)
    write_files(encoder)
    write_decoder(decoder)
    print(f"{len(vocabulary())} tokens written to {encoder} and {decoder}")


def write_files(folder: Path) -> None:
    """Writes config.json, vocab.txt, tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    options = {"in_own_folder": folder == FOLDER}
    write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in tokens), **options)
    write_json(folder / "config.json", model_config(len(tokens)), **options)
    write_json(folder / "tokenizer_config.json", tokenizer_config(), **options)
    write_json(folder / "tokenizer.json", tokenizer(tokens), **options)


def write_decoder(folder: Path) -> None:
    """Writes config.json, tokenizer.json and tokenizer_config.json of a decoder over the same vocabulary.

    A text begins with its first token and ends with one [SEP], whose state has read it all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    options = {"in_own_folder": folder == DECODER}
    files = tokenizer(tokens)
    around = files["post_processor"]
    around |= {name: [part for part in around[name] if part != START] for name in ("single", "pair")}
    around["special_tokens"].pop("[CLS]")
    settings = tokenizer_config() | {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "[SEP]"}
    write_json(folder / "config.json", decoder_config(len(tokens)), **options)
    write_json(folder / "tokenizer_config.json", settings, **options)
    write_json(folder / "tokenizer.json", files, **options)


def vocabulary() -> list[str]:
    """All tokens, each once; the position is the token's number."""
    ascii_signs = [sign for sign in map(chr, range(33, 127)) if not sign.isupper()]
    # As the tokenizer sees them, which lower-cases and decomposes: Ⅳ becomes ⅳ.
    signs = unicodedata.normalize("NFD", (SIGNS + ENUMERATORS).lower())
    joined = list(ALPHANUMERIC + GREEK + FULL_WIDTH + signs)
    tokens = [*SPECIAL, *ascii_signs, *joined, *(f"##{letter}" for letter in joined)]
    tokens += [*PUNCTUATION, *gb2312_hanzi(), *LATER_HANZI, *TRADITIONAL]
    return list(dict.fromkeys(tokens))


def gb2312_hanzi() -> list[str]:
    """The 6,763 hanzi of GB 2312, level 1 (rows 16–55) by sound and level 2 (56–87) by radical."""
    cells = (bytes((0xA0 + row, 0xA0 + cell)) for row in range(16, 88) for cell in range(1, 95))
    decoded = (cell.decode("gb2312", errors="ignore") for cell in cells)
    return [hanzi for hanzi in decoded if hanzi]


def model_config(vocab_size: int) -> dict[str, Any]:
    """BERT with 4 layers of 256, about 5 million weights."""
    return {
        "architectures": ["BertModel"],
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": WIDTH,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "model_type": "bert",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": SPECIAL.index("[PAD]"),
        "type_vocab_size": 2,
        "vocab_size": vocab_size,
    }


def decoder_config(vocab_size: int) -> dict[str, Any]:
    """Qwen3 with 6 layers of 256, 6.3 million weights."""
    return {
        "architectures": ["Qwen3Model"],
        "attention_dropout": 0.0,
        "eos_token_id": SPECIAL.index("[SEP]"),
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "initializer_range": 0.02,
        "intermediate_size": 704,
        "max_position_embeddings": POSITIONS,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": 6,
        "num_key_value_heads": 2,
        "pad_token_id": SPECIAL.index("[PAD]"),
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "vocab_size": vocab_size,
    }


def tokenizer_config() -> dict[str, Any]:
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    return {
        "do_lower_case": True,
        "model_max_length": POSITIONS,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "tokenizer_class": "BertTokenizer",
        **names,
    }


def tokenizer(tokens: list[str]) -> dict[str, Any]:
    """tokenizer.json. Written out here because the libraries' own writers change with their versions."""
    numbers = {token: number for number, token in enumerate(tokens)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    start, end, end_of_second = (
        {"SpecialToken": {"id": token, "type_id": segment}}
        for token, segment in (("[CLS]", 0), ("[SEP]", 0), ("[SEP]", 1))
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": numbers[token], "content": token, **flags} for token in SPECIAL],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, first, end],
            "pair": [start, first, end, second, end_of_second],
            "special_tokens": {
                token: {"id": token, "ids": [numbers[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": numbers,
        },
    }


if __name__ == "__main__":
    sys.exit(run_program(main))
