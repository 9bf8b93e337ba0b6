"""Words of class labels in users' tables: equal meaning or not, and the classes of NLI."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from juzhen.core.examples import NLI_CLASSES
from juzhen.data.headers import NUMBER

_ENTAILS = "entail(s|ment)?|蕴[含涵]"
YES = (
    "1|true|yes|y|t|same|similar|duplicate|paraphrase|equivalent|match(ed|es)?|positive|related|relevant|是|是的|对|相同|相似"
    f"|同义|真|一致|一样|匹配|等价|相关|重复|正例|正样本|√|✓|✔|✅|{_ENTAILS}"
)
NO = (
    "0|false|no|n|f|diff(erent)?|negative|否|不是|错|不同|假|负例|负样本|×|✗|✘|❌|"
    f"(不|非|不太|无|not[_ -]?|non[_ -]?|un|dis|dis-|ir|mis)({YES})"
)
NLI_WORDS = (_ENTAILS, "neutral|中[立性]", "contradict(s|ion|ory)?|矛盾")
"""Patterns of NLI labels."""
LABELS = re.compile("|".join([YES, NO, *NLI_WORDS]))

NO_LABEL = ("-", "-1", "")
"""Labels of rows on which annotators did not agree. Such rows are left out."""

MOST_LABELS = 0.99
"""Share of class labels from which on other labels are faulty rows, and not grades."""


def settled_classes(
    read: Callable[[Iterable[str]], dict[str, str] | None],
    column: Iterable[str],
    share: float = MOST_LABELS,
) -> dict[str, str] | None:
    """Read the classes of a label column in which a few labels may be faulty.

    Args:
        read: `pair_classes` or `nli_classes`.
        column: The label of each row.
        share: Share of the labels that must be classes.

    Returns:
        Label → its class. None if the column has something else.

    >>> settled_classes(pair_classes, [*"01" * 100, "2"]), settled_classes(pair_classes, [*"0120"])
    ({'0': '0', '1': '1'}, None)
    """
    counts = Counter(column)
    counts.pop("", None)
    if classes := read(counts):
        return classes
    known = [*filter(is_label, counts)]
    classes = read(known) or {}
    is_settled = sum(counts[value] for value in classes) >= share * counts.total()
    return classes if is_settled and len({*classes.values()}) > 1 else None


def pair_classes(values: Iterable[str]) -> dict[str, str] | None:
    """Return label → "1" for equal meaning, "0" otherwise. None if the labels are not two classes.

    Args:
        values: Labels, each once or repeated. Empty ones are ignored.

    Returns:
        The class of each label. Of two integers the larger one is "1".

    >>> pair_classes(["是", "否"]), pair_classes(["0.5", "1.5"])
    ({'是': '1', '否': '0'}, None)
    """
    plain = {value: plain_label(value) for value in values if value}
    if plain and all(re.fullmatch(f"{YES}|{NO}", word) for word in plain.values()):
        return {value: "1" if re.fullmatch(YES, word) else "0" for value, word in plain.items()}
    numbers = sorted({float(word) for word in plain.values() if NUMBER.fullmatch(word)})
    if len(numbers) == 2 and len(plain) == 2 and all(number.is_integer() for number in numbers):
        return {value: str(int(float(word) == numbers[1])) for value, word in plain.items()}
    return None


def nli_classes(values: Iterable[str], texts: Sequence[str] = ()) -> dict[str, str] | None:
    """Return label → its NLI class. None if a label is not an NLI class, or if all are neutral.

    A small split may lack one of the classes.

    Args:
        values: The labels.
        texts: Names of the text columns. Below premise and hypothesis, 0, 1 and 2 are classes as in SNLI.

    Returns:
        Label → "entailment", "neutral" or "contradiction", without the labels in NO_LABEL.
    """
    plain = {value: plain_label(value) for value in values if plain_label(value) not in NO_LABEL}
    classes = {
        value: NLI_CLASSES[number]
        for value, word in plain.items()
        for number, pattern in enumerate(NLI_WORDS)
        if re.fullmatch(pattern, word)
    }
    is_numbered = {*plain.values()} == {"0", "1", "2"}
    if is_numbered and any("hypothesis" in name.lower() or "假设" in name for name in texts):
        classes = {value: NLI_CLASSES[int(word)] for value, word in plain.items()}
    found = {*classes.values()}
    return classes if len(found) > 1 and len(classes) == len(plain) else None


def plain_label(label: str) -> str:
    """Normalize a label for comparison.

    Args:
        label: Label as written.

    Returns:
        Lower case without spaces around it and without ".0" at its end.
    """
    return unicodedata.normalize("NFKC", label).strip().lower().removesuffix(".0")


def is_label(value: str) -> bool:
    """True for a word of equal meaning, of different meaning, or of an NLI class.

    Args:
        value: Label as written.
    """
    return LABELS.fullmatch(plain_label(value)) is not None
