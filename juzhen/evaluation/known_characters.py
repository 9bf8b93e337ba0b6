"""Coverage of characters by an encoder: unknown ones, equal token numbers, and other forms of texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from juzhen.core.columns import as_text_list
from juzhen.core.errors import UserError
from juzhen.core.text import inverse_table, script_table
from juzhen.core.text_warnings import Unknown, collected
from juzhen.encoders.pooling import unit
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import ReadSentences, characters
from juzhen.families.registry import family_of

WIDE = str.maketrans({chr(number): chr(number + 0xFEE0) for number in range(0x21, 0x7F)} | {" ": "\u3000"})
"""ASCII characters → their full-width forms."""


@dataclass(frozen=True)
class Form:
    """Another form of texts, such as the other script.

    Attributes:
        by: Name of the conversion.
        changed: Number of texts changed by it.
        equal: Share of these texts with the same token numbers. None if no text is changed.
        score: Mean score of a text with its other form, for bi-encoders the cosine. None if no text is
            changed.
    """

    by: str
    changed: int
    equal: float | None
    score: float | None


@dataclass(frozen=True)
class CharacterGroup:
    """Characters of one sort, each read alone.

    Attributes:
        characters: Number of characters.
        unknown: Characters unknown to the encoder.
    """

    characters: int
    unknown: list[str]


@dataclass(frozen=True)
class KnownCharacters:
    """Coverage of texts, or of lists of characters, by an encoder.

    Attributes:
        unknown: Counts of the texts. None for lists of characters.
        characters: Unknown character of the texts → its count, most frequent first.
        forms: Name of another form of the texts → its effect.
        groups: Sort of characters → the unknown ones.
    """

    unknown: Unknown | None = None
    characters: Mapping[str, int] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)
    groups: Mapping[str, CharacterGroup] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """The measured parts as JSON.

        Returns:
            Counts of unknown characters, forms and groups. Parts that were not measured are missing.
        """
        parts: dict[str, Any] = {}
        if self.unknown is not None:
            parts |= self.unknown.facts() | {"characters": dict(self.characters)}
        kinds: dict[str, Mapping[str, Any]] = {"forms": self.forms, "groups": self.groups}
        for name, found in kinds.items():
            parts |= {name: {key: asdict(one) for key, one in found.items()}} if found else {}
        return parts


def known_characters(encoder: Any, texts: Sequence[str]) -> KnownCharacters:
    """Measure the coverage of texts by an encoder, and the effect of other forms of the texts.

    Args:
        encoder: Of any of `juzhen.families` that has a tokenizer.
        texts: Equal texts count once.

    Returns:
        Counts of unknown characters, the characters, and the effect of each form.

    Raises:
        UserError: A lexical baseline, or no text.
    """
    inner, texts = _inner(encoder), [*dict.fromkeys(as_text_list(texts))]
    read, numbers = ReadSentences.none(len(texts)), np.arange(len(texts))
    table = inner.tokenize(texts)
    read.put(numbers, inner, table)
    unknown = [texts[row] for row in np.flatnonzero(read.is_unknown).tolist()]
    forms = {}
    for name, (by, change) in changes().items():
        others = [change(text) for text in texts]
        rows = [row for row, text in enumerate(texts) if others[row] != text]
        if not rows:
            forms[name] = Form(by, 0, None, None)
            continue
        changed = [others[row] for row in rows]
        new = inner.tokenize(changed)
        is_equal = [np.array_equal(table[row], ids) for row, ids in zip(rows, new, strict=True)]
        score = _score(encoder, [texts[row] for row in rows], changed)
        forms[name] = Form(by, len(rows), round(float(np.mean(is_equal)), 6), round(score, 6))
    counted = read.counted(texts, numbers, inner.tokenizer)
    return KnownCharacters(counted, characters(inner.tokenizer, unknown), forms)


def known_groups(encoder: Any) -> KnownCharacters:
    """Find the characters of `groups` that an encoder knows.

    Args:
        encoder: A loaded encoder of any family with a tokenizer.

    Returns:
        Group → its size and unknown characters.

    Raises:
        UserError: A lexical baseline.
    """
    tokenizer, found = _inner(encoder).tokenizer, dict[str, CharacterGroup]()
    for name, members in groups().items():
        unknown = characters(tokenizer, members)
        found[name] = CharacterGroup(len(members), [one for one in members if one in unknown])
    return KnownCharacters(groups=found)


def groups() -> dict[str, list[str]]:
    """Sorts of characters: the two levels of GB 2312, with which GB 18030 begins, and other scripts.

    Returns:
        Name of a sort → its characters.
    """

    def hanzi(first: int, last: int) -> list[str]:
        cells = (bytes([row, cell]) for row in range(first, last + 1) for cell in range(0xA1, 0xFF))
        return [*filter(None, (cell.decode("gb2312", "ignore") for cell in cells))]

    def between(*spans: tuple[int, int]) -> list[str]:
        return [chr(number) for first, last in spans for number in range(first, last + 1)]

    return {
        "hanzi, level 1": hanzi(0xB0, 0xD7),
        "hanzi, level 2": hanzi(0xD8, 0xF7),
        "traditional": [*script_table()],
        "kana": between((0x3041, 0x3096), (0x30A1, 0x30FA)),
        "Latin": between((0x21, 0x7E), (0xA1, 0xAC), (0xAE, 0x17F)),
        "emoji": between((0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F90C, 0x1F93A), (0x1F970, 0x1F97A)),
    }


def changes() -> dict[str, tuple[str, Callable[[str], str]]]:
    """Name of another form of texts → the name of the conversion, and the function.

    The scripts are converted by OpenCC if it is installed, word by word. Otherwise the table of juzhen
    converts each character alone. It maps a simplified character to its most frequent traditional one.

    Returns:
        Name of a form → (name of the conversion, function of one text).
    """
    scripts: dict[str, tuple[str, Callable[[str], str]]]
    try:
        import opencc

        scripts = {
            name: (f"OpenCC {config}", opencc.OpenCC(config).convert)
            for name, config in (("simplified", "t2s"), ("traditional", "s2t"))
        }
    except ImportError:
        tables = {"simplified": script_table(), "traditional": inverse_table()}
        inverse = {"simplified": "", "traditional": ", the most frequent inverse"}
        scripts = {
            name: (f"table of juzhen{inverse[name]}", _translated(table)) for name, table in tables.items()
        }
    return {
        **scripts,
        "full-width": ("signs of ASCII", lambda text: text.translate(WIDE)),
        "upper case": ("str.upper", str.upper),
        "lower case": ("str.lower", str.lower),
    }


def _translated(table: Mapping[str, str]) -> Callable[[str], str]:
    signs = str.maketrans(dict(table))
    return lambda text: text.translate(signs)


def _inner(encoder: Any) -> Any:
    if not family_of(encoder).cuts:
        raise UserError(
            "encoder: a lexical baseline reads every character. Name a run, or the folder of an encoder."
        )
    return encoder.inner


def _score(encoder: Any, first: Sequence[str], second: Sequence[str]) -> float:
    """The mean cosine of embeddings. For other encoders the mean of their scores."""
    with collected():  # the caller tells what is not known
        if isinstance(encoder, SentenceEncoder):
            vectors = unit(encoder.encode([*first, *second]))
            return float(np.einsum("rd,rd->r", vectors[: len(first)], vectors[len(first) :]).mean())
        return float(np.mean(encoder.score(list(zip(first, second, strict=True)))))
