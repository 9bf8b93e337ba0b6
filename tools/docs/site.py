"""All pages of the site that programs write, those of results/ among them, and their places in the navigation."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import report
from juzhen.core.atomic_write import atomic_write, remove_file
from juzhen.core.paths import BUILTIN, ROOT
from tools.docs import keys, reference

RESULTS = ROOT / "results"
RENAMED = {"README.md": "index.md"}
"""The page of a folder is its index."""

COPIED = (".svg", ".csv")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)\)")
BENCH = """\
# Speed and memory

Measured by `make bench`: juzhen and sentence-transformers in turns in one run, with equal work. S is a BERT of 4 × 256,
M of 6 × 384, B of 12 × 768."""
HEAD = "---\nsearch: {boost: 0.4}\n---\n"
ABOUT = {
    "transfer": (
        "Transfer matrix",
        "which training set helps which evaluation set, compared with published numbers",
    ),
    "decide": ("What decides", "how far small trainings and nearness choose between training sets"),
    "losses": ("Losses", "what each loss gains on one small budget, and which go wrong"),
    "retrieval": ("Retrieval", "which way of mining hard negatives helps, and what it costs"),
    "cross_encoder": ("Cross-encoders", "cross entropy and CoSENT on the same pairs"),
    "cot": ("Two-stage encoders", "compared with their baselines"),
    "distill": ("The built-in encoder", "how it was distilled, what it scores, whether its text is clean"),
    "characters": ("Scripts and characters", "what three encoders make of both scripts"),
    "encoders": ("Kinds of encoders", "whole, LoRA, a small decoder, ColBERT and SPLADE on the same pairs"),
    "merging": ("Serial, mixed, merged", "curricula, a mixture and merged models at equal cost"),
    "leaks": ("Leaks found", "evaluation rows that training sets and running text give away"),
    "growth": ("Cost of growth", "time and memory from thousands of rows to millions"),
    "bench": ("Speed measured", "training, encoding and memory compared with sentence-transformers"),
}
"""Folder of results → its title, and what it answers, in the order of the site; folders that are not here follow."""


def result_pages() -> Iterator[tuple[str, str | Path]]:
    """Path below results/ of each page with its text, and of each file that is copied with where it lies."""
    yield "index.md", _index()
    for folder in folders():
        files = sorted((RESULTS / folder).rglob("*"))
        for path in files:
            target = path.parent.relative_to(RESULTS) / RENAMED.get(path.name, path.name)
            if path.suffix == ".md":
                yield target.as_posix(), HEAD + relinked(path)
            elif path.suffix in COPIED:
                yield target.as_posix(), path
        if not (RESULTS / folder / "README.md").is_file():
            text = MADE[folder](files) if folder in MADE else f"# {title(folder)}\n\n{_listing(files)}"
            yield f"{folder}/index.md", HEAD + text


def folders() -> list[str]:
    names = [path.name for path in sorted(RESULTS.iterdir()) if path.is_dir()]
    return [name for name in ABOUT if name in names] + [name for name in names if name not in ABOUT]


def title(folder: str) -> str:
    return ABOUT[folder][0] if folder in ABOUT else folder.replace("_", " ").capitalize()


def relinked(path: Path) -> str:
    """A page's text; a link to what is not part of the site becomes its words."""

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        if re.match(r"\w+:", target):
            return match[0]
        beside = path.parent / target
        is_shown = beside.suffix in (*COPIED, ".md") and RESULTS in beside.resolve().parents
        if not beside.is_file() or not is_shown:
            return f"`{label.strip('`')}`"
        return f"{picture}[{label}]({target.replace(beside.name, RENAMED.get(beside.name, beside.name))})"

    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return LINK.sub(link, text)


def _index() -> str:
    entries = [
        f"- [{title(folder)}]({folder}/index.md): {ABOUT.get(folder, ('', 'measured here'))[1]}"
        for folder in folders()
    ]
    about = (
        "Every number of these pages was measured. `python -m tools.results unpack` writes the runs behind them to "
        "`build/results`."
    )
    return f"{HEAD}# Results\n\n{about}\n\n" + "\n".join(entries) + "\n"


def _bench(files: list[Path]) -> str:
    results = [report.read(path) for path in files if path.suffix == ".json"]
    svgs = [path for path in files if path.suffix == ".svg"]
    pictures = [f"![{path.stem}: juzhen and sentence-transformers]({path.name})" for path in svgs]
    return "\n\n".join([BENCH, report.tables(results, "en"), *pictures]) + "\n"


def _listing(files: list[Path]) -> str:
    return "\n".join(f"- [{_heading(path)}]({path.name})" for path in files if path.suffix == ".md") + "\n"


def _distill(files: list[Path]) -> str:
    targets = {file: f"({file.parent.name}/{file.name})" for file in files}
    svgs = [file for file in files if file.suffix == ".svg"]
    pictures = [f"![Curves of the run that distilled {file.parent.name}]{targets[file]}" for file in svgs]
    audits = [f"- [{_heading(file)}]{targets[file]}" for file in files if file.suffix == ".md"]
    cards = [relinked(folder / "README.md") for folder in sorted(BUILTIN.glob("mini_zh@*"), reverse=True)]
    return "\n\n".join([*cards, *pictures, "\n".join(audits)]) + "\n"


def _heading(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


MADE = {"bench": _bench, "distill": _distill}
"""Folder without a page of its own → what makes one; of others the page lists what they hold."""


DOCS = ROOT / "docs"
CHANGELOG = ROOT / "CHANGELOG.md"
REFERENCE = {
    "Configuration keys": "reference/keys.md",
    "Configuration groups": "reference/groups.md",
    "Command line": "reference/commands.md",
    "Losses and models": "losses.md",
    "result.json": "reference/result.md",
    "Published numbers": "published.md",
    "Changelog": "reference/changelog.md",
}
API = "Python API"


@cache  # each language is built by itself
def pages() -> dict[str, str | Path]:
    """Path below docs/ of each page → its text, or the file that it is a copy of."""
    written: dict[str, str | Path] = {
        "index.md": _overview(),
        "keys.md": keys.keys_page(),
        "names.js": _names(),
        "groups.md": keys.groups_page(),
        "commands.md": reference.commands_page(),
        "result.md": reference.result_page(),
        "changelog.md": "---\nsearch: {boost: 0.3}\n---\n" + CHANGELOG.read_text(encoding="utf-8"),
        **dict(reference.api_pages()),
    }
    return {f"reference/{path}": text for path, text in written.items()} | {
        f"results/{path}": text for path, text in result_pages()
    }


def navigation(written: dict[str, str | Path]) -> dict[str, list[Any]]:
    """Section → its links, as mkdocs.yml writes them."""
    library = [path for path in written if path.startswith("reference/api/")]
    results = [path for path in written if path.startswith("results/") and path.endswith(".md")]
    sections: list[Any] = ["results/index.md"]
    for folder in folders():
        below = [path for path in results if path.startswith(f"results/{folder}/")]
        below.sort(key=lambda path: not path.endswith(f"{folder}/index.md"))
        sections.append({title(folder): below})
    return {
        "Reference": [
            "reference/index.md",
            *({name: path} for name, path in REFERENCE.items()),
            {API: library},
        ],
        "Results": sections,
    }


def write(written: dict[str, str | Path]) -> None:
    """Puts the pages below docs/ and takes away those that are gone; a file that is as it was is not touched."""
    for folder in ("reference", "results"):
        for path in (DOCS / folder).rglob("*"):
            if path.is_file() and path.relative_to(DOCS).as_posix() not in written:
                remove_file(path)
    for name, text in written.items():
        path = DOCS / name
        content = text.read_bytes() if isinstance(text, Path) else text.encode("utf-8")
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, "wb") as file:
                file.write(content)


def _names() -> str:
    """Names that the search takes for themselves alone: keys of the configuration, and functions of encoders."""
    headings = re.findall(r"^### `(.*?)`", keys.keys_page(), flags=re.MULTILINE)
    return f"const NAMES = new Set({json.dumps(sorted({*keys.bare_keys(headings), *reference.CALLED}))});\n"


def _overview() -> str:
    about = (
        "Written from the code when the site is built: keys, defaults, options, docstrings of this version."
    )
    paths = {name: path if "/" not in path else path.partition("/")[2] for name, path in REFERENCE.items()}
    links = [f"- [{name}]({'../' if path == REFERENCE[name] else ''}{path})" for name, path in paths.items()]
    links += [f"- [{API}: {title.lower()}](api/{name}.md)" for name, (title, _) in reference.PAGES.items()]
    return (
        "# Reference\n\n" + about + "\n\n" + "\n".join([*links, f"- [{API}: losses](api/losses.md)"]) + "\n"
    )
