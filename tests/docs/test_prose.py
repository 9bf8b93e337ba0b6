"""Habits that make a text hard to read are rare: each kind of text has bounds per 1,000 words."""

import re

import pytest
from forks import ROOT

VERBS = (
    "is|are|was|were|has|have|had|does|do|did|can|could|may|will|would|says?|gives?|makes?|takes?|needs?|reads?|wants?"
    "|holds?|comes?|stands?|goes|learns?|costs?|scores?|follows|trains?|computes?|decides?"
)
HABITS = {
    "a clause instead of a noun": rf"\b[Ww]hat (?!(?:to|if|about)\b)(?:\w+ ){{0,4}}?(?:{VERBS})\b"
    r"|^(?:Whether|Which|By what|From which|To what|Among which|In what|Of what)\b(?!.*\?)",
    "a pronoun and a relative clause": r"\b(?:those|that|the one|ones?|all|each|nothing|none) "
    r"(?:that|which|who|whose)\b",
    "a semicolon": r"[;；]",
    "code that speaks or stands": r"\b(?:says?|said|tells?|told|stands?|stood|lies?|lay)\b",
    "a word of another language": r"\bin(?: the| its| their)? place of\b|\bbeside\b"
    r"|\b(?:goes|go|going|gone) (?:by|on|along)\b|\bat hand\b|\bof (?:its|their|your|our) own\b|\bshall\b"
    r"|\b(?:is|are|be|was) (?:none|no [a-z]+)\b"
    r"|\bas (?:it is|they are|it stands)\b|\b(?:anew|begun|thereof|whereof)\b|\band (?:its|their) (?:like|kin)\b",
}
AIMS = (1.0, 2.0, 3.0, 0.5, 1.0)
"""Per 1,000 words, in the order of HABITS."""

KINDS = {"README": (("README.md",), AIMS), "README, Chinese": (("README.zh.md",), AIMS)}
"""Kind of text → globs of its files, and its bounds."""


def paragraphs(text):
    """Running text of a page in Markdown: no code, comments, headings, tables and addresses."""
    for block in (r"```.*?```", r"<!--.*?-->"):
        text = re.sub(block, "", text, flags=re.DOTALL)
    text = re.sub(r"^[|#].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "x", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*[-*] )|\n(?=\s*\d+\. )", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def words(text):
    """English words, and Chinese characters at two for a word."""
    chinese = len(re.findall(r"[一-鿿]", text))
    return len(re.sub(r"[一-鿿]", " ", text).split()) + chinese / 2


@pytest.mark.parametrize("kind", KINDS)
def test_habits_are_rarer_than_their_bounds(kind):
    globs, bounds = KINDS[kind]
    found = [
        part for glob in globs for path in ROOT.glob(glob) for part in paragraphs(path.read_text("utf-8"))
    ]
    total = sum(map(words, found))
    assert total > 100
    for (habit, pattern), bound in zip(HABITS.items(), bounds, strict=True):
        having = [part for part in found if re.search(pattern, part)]
        times = sum(len(re.findall(pattern, part)) for part in found)
        assert 1000 * times / total <= bound, f"{habit}: {having}"
