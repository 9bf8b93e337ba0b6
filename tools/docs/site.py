"""All pages of the site that programs write, and their places in the navigation."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from juzhen.core.atomic_write import atomic_write, remove_file
from juzhen.core.paths import ROOT
from tools.docs import api, groups, keys, measured, result_format, verbs

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
    reference = {
        "index.md": _overview(),
        "keys.md": keys.page(),
        "names.js": _names(),
        "groups.md": groups.page(),
        "commands.md": verbs.page(),
        "result.md": result_format.page(),
        "changelog.md": "---\nsearch: {boost: 0.3}\n---\n" + CHANGELOG.read_text(encoding="utf-8"),
        **dict(api.pages()),
    }
    return {f"reference/{path}": text for path, text in reference.items()} | {
        f"results/{path}": text for path, text in measured.pages()
    }


def navigation(written: dict[str, str | Path]) -> dict[str, list[Any]]:
    """Section → its links, as mkdocs.yml writes them."""
    library = [path for path in written if path.startswith("reference/api/")]
    results = [path for path in written if path.startswith("results/") and path.endswith(".md")]
    sections: list[Any] = ["results/index.md"]
    for folder in measured.folders():
        below = [path for path in results if path.startswith(f"results/{folder}/")]
        below.sort(key=lambda path: not path.endswith(f"{folder}/index.md"))
        sections.append({measured.title(folder): below})
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
    headings = re.findall(r"^### `(.*?)`", keys.page(), flags=re.MULTILINE)
    return f"const NAMES = new Set({json.dumps(sorted({*keys.bare_keys(headings), *api.CALLED}))});\n"


def _overview() -> str:
    about = (
        "Written from the code when the site is built: keys, defaults, options, docstrings of this version."
    )
    paths = {name: path if "/" not in path else path.partition("/")[2] for name, path in REFERENCE.items()}
    links = [f"- [{name}]({'../' if path == REFERENCE[name] else ''}{path})" for name, path in paths.items()]
    links += [f"- [{API}: {title.lower()}](api/{name}.md)" for name, (title, _) in api.PAGES.items()]
    return (
        "# Reference\n\n" + about + "\n\n" + "\n".join([*links, f"- [{API}: losses](api/losses.md)"]) + "\n"
    )
