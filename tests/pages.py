"""The pages of the documentation that people write, and the commands, programs and files that they show."""

import re
import shlex
from dataclasses import dataclass
from functools import cache
from textwrap import dedent

from forks import ROOT

EDITIONS = ("README.md", "README.zh.md")
WRITTEN_BY_PROGRAMS = ("docs/losses.md", "docs/published.md", "docs/reference/", "docs/results/")
WORKED_CHANGES = "docs/project/changes.md"
"""Its blocks are files and parts of files: tests/test_docs.py puts them where they belong."""

TRANSLATED = (
    "docs/index",
    "docs/glossary",
    "docs/faq",
    "docs/start/",
    "docs/tutorials/",
    "docs/guides/",
    "docs/concepts/characters",
    "docs/concepts/leaks",
    "docs/concepts/losses",
    "docs/concepts/pooling",
    "docs/concepts/reproducibility",
    "docs/concepts/statistics",
    "docs/from/",
)
"""What is there in Chinese too."""

FENCE = re.compile(
    r"^(?:<!-- needs: (?P<needs>\w+) -->\n+)?(?P<indent> *)```(?P<language>\w*)"
    r"(?: title=[\"](?P<title>[^\"\n]*)[\"]|[^\n]*)\n(?P<body>.*?)^(?P=indent)```$",
    flags=re.MULTILINE | re.DOTALL,
)
HEADING = re.compile(r"^#+ (.*)", flags=re.MULTILINE)
APPENDED_FENCE = re.compile(
    r"At the end of `([^`\n]+)`:\n\n```\w+\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)
NAMED_FENCE = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `needs`, a package without which it cannot run, stands in a comment above it.

    title    what is written above it on the site
    heading  the heading of its section
    """

    language: str
    body: str
    needs: str | None = None
    title: str = ""
    heading: str = ""


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def site_pages():
    """The pages of the site that are no program's, English and Chinese, by their paths in the project."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
    return [name for name in found if not name.startswith(WRITTEN_BY_PROGRAMS)]


def translated_pages():
    return [one for one in site_pages() if one.startswith(TRANSLATED) and not one.endswith(".zh.md")]


def chinese(name):
    return name.removesuffix(".md") + ".zh.md"


@cache
def blocks(name):
    shown, end, heading = [], 0, ""
    for fence in FENCE.finditer(page(name)):
        heading = (HEADING.findall(page(name)[end : fence.start()]) or [heading])[-1]
        end = fence.end()
        body = dedent(fence["body"])
        shown.append(Block(fence["language"], body, fence["needs"], fence["title"] or "", heading))
    return shown


def quoted(name, start):
    """The one text of a page that begins so."""
    (block,) = [one for one in blocks(name) if one.language == "text" and one.body.startswith(start)]
    return block.body


def shapes(text):
    """The first words of each line, numbers and names of files and sets alike."""
    lines = (
        re.sub(r"[\w./-]*[/_.][\w./-]*\w|\d[\d.,]*", "0", line).split()[:4] for line in text.splitlines()
    )
    return [" ".join(words) for words in lines if words]


def heads(text):
    """The headings of each table in Markdown."""
    return re.findall(r"^(\|.*\|)\n\| -", text, flags=re.MULTILINE)


def commands(name):
    """The commands of a page's bash blocks, one per line, without the comments beside them."""
    text = "".join(one.body for one in blocks(name) if one.language == "bash").replace("\\\n", " ")
    lines = [" ".join(re.split(r"(?:^|\s\s)#", line)[0].split()) for line in text.splitlines()]
    return [line for line in lines if line]


def programs(name):
    """(program, its arguments) of each command, without what is set before it and what becomes of its output."""
    found = []
    for line in commands(name):
        if "<" in line:
            continue  # it names what is a reader's own
        for words in _simple(shlex.split(line, comments=True)):
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words = words[1:]
            if words:
                found.append((words[0].removeprefix(".venv/bin/").replace("python3", "python"), words[1:]))
    return found


def _simple(words):
    """The commands between `&&`, each up to the first pipe or redirection."""
    parts = [[]]
    for word in words:
        if word == "&&":
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        ends = [number for number, word in enumerate(part) if re.fullmatch(r"\||\d?>>?&?\d?|;", word)]
        yield part[: ends[0]] if ends else part


def appended(name):
    """Path → text that a page shows to be put at the end of a file."""
    return dict(APPENDED_FENCE.findall(page(name)))


def shown_files(name):
    """Path → text of the files that a page shows whole."""
    return dict(NAMED_FENCE.findall(page(name)))
