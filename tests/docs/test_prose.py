"""Habits that make a text hard to read are rare: each kind of text has bounds per 1,000 words."""

import ast
import re
from functools import cache

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


SOURCES = (
    "juzhen",
    "launch",
    "callbacks",
    "lightning_modules",
    "datamodules",
    "sweeps",
    "hydra_plugins",
    "conf",
    "train.py",
)
OF_PROGRAMS = ("docs/losses.md", "docs/published.md", "docs/reference/", "docs/results/", "docs/log/")
"""Pages that programs write or that hold what was tried, with its date."""


def pages(glob, *without):
    """Running text of pages in Markdown."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(glob))
    names = [one for one in found if not one.startswith(without)]
    return [part for name in names for part in paragraphs((ROOT / name).read_text("utf-8"))]


def manual():
    return pages("docs/**/*.md", *OF_PROGRAMS, *translations())


def translations():
    return tuple(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.zh.md"))


def chinese_manual():
    return pages("docs/**/*.zh.md", *OF_PROGRAMS)


@cache
def modules():
    files = [
        path for one in SOURCES for path in ((ROOT / one).rglob("*.py") if "." not in one else [ROOT / one])
    ]
    return [ast.parse(path.read_text("utf-8")) for path in sorted(files)]


def nodes(*types):
    return [node for module in modules() for node in ast.walk(module) if isinstance(node, types)]


def docstrings():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in nodes(*kinds)]
    parts = [part for text in texts for part in re.split(r"\n\s*\n", text) if ">>>" not in part]
    return [re.sub(r"`[^`]*`", "x", " ".join(part.split())) for part in parts if part]


def literal(node):
    """The text of a literal, with x for each value in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    if isinstance(node, ast.BinOp):
        return literal(node.left) + literal(node.right)
    return "x" if isinstance(node, ast.FormattedValue) else ""


def errors():
    calls = [node for node in nodes(ast.Call) if node.args]
    named = [(getattr(call.func, "id", getattr(call.func, "attr", "")), call.args[0]) for call in calls]
    return [literal(text) for name, text in named if name.endswith("Error") and literal(text)]


def help_texts():
    keywords = [keyword for node in nodes(ast.Call) for keyword in node.keywords if keyword.arg == "help"]
    return [literal(keyword.value) for keyword in keywords if literal(keyword.value)]


def comments_of_conf():
    lines = [
        line for path in sorted(ROOT.glob("conf/**/*.yaml")) for line in path.read_text("utf-8").splitlines()
    ]
    found = [re.search(r"(?:^|\s)#\s?(.*)$", line) for line in lines]
    return [one[1] for one in found if one and not one[1].startswith("@")]


KINDS = {
    "README": (lambda: pages("README.md"), AIMS),
    "README, Chinese": (lambda: pages("README.zh.md"), AIMS),
    "manual": (manual, AIMS),
    "manual, Chinese": (chinese_manual, AIMS),
    "ARCHITECTURE, CONTRIBUTING": (lambda: pages("ARCHITECTURE.md") + pages("CONTRIBUTING.md"), AIMS),
    "log": (lambda: pages("docs/log/*.md"), AIMS),
    "docstrings": (docstrings, AIMS),
    "errors": (errors, AIMS),
    "help": (help_texts, AIMS),
    "comments of conf": (comments_of_conf, AIMS),
}
"""Kind of text → its paragraphs, and its bounds. A bound above the aim is what is reached; it only falls."""


@pytest.mark.parametrize("kind", KINDS)
def test_habits_are_rarer_than_their_bounds(kind):
    texts, bounds = KINDS[kind]
    found = texts()
    total = sum(map(words, found))
    assert total > 100
    for (habit, pattern), bound in zip(HABITS.items(), bounds, strict=True):
        having = [part for part in found if re.search(pattern, part)]
        times = sum(len(re.findall(pattern, part)) for part in found)
        rate = 1000 * times / total
        assert rate <= bound, f"{habit}: {rate:.1f} in 1,000 words: {having[:20]}"


def other_terms():
    """Terms that the glossary does not use, by the term that it uses."""
    table = (ROOT / "docs/glossary.zh.md").read_text("utf-8").partition("## 中文译法")[2]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", table, flags=re.MULTILINE)
    return {other: term for term, others in rows[2:] for other in others.split("，")}


def test_chinese_pages_use_the_terms_of_the_glossary():
    terms = other_terms()
    assert len(terms) >= 20
    names = [one for one in translations() if one != "docs/glossary.zh.md"]
    texts = {name: (ROOT / name).read_text("utf-8") for name in (*names, "README.zh.md")}
    found = [
        f"{name}: {other}, not {term}"
        for name, text in texts.items()
        for other, term in terms.items()
        if other in text
    ]
    assert found == []


def test_both_glossaries_have_the_same_terms():
    tables = []
    for edition in ("", ".zh"):
        text = (ROOT / f"docs/glossary{edition}.md").read_text("utf-8")
        rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
        terms = [tuple(re.split(r", |，", cell) for cell in row) for row in rows[2:]]
        tables.append((text.count("\n| **"), terms))
    assert tables[0] == tables[1]
    assert tables[0][0] >= 40
