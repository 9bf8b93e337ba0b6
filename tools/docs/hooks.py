"""What MkDocs does besides: write the generated pages before it looks for pages, turn equations into MathML, refuse
what would be asked of another host. Griffe, which reads the sources for mkdocstrings, turns older docstrings into
Google style.
"""

import html
import logging
import re
import tomllib
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

from juzhen.core.paths import ROOT
from tools.docs.keys import as_markdown
from tools.docs.site import navigation, pages, write

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

ELSEWHERE = re.compile(r'<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')
log = logging.getLogger("mkdocs.hooks")


def repository(project: Path = ROOT / "pyproject.toml") -> str | None:
    """The address that `[project.urls]` has for the repository; None while nobody has filled it in."""
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("urls", {})
    return urls.get("Repository") or None


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    if (address := repository()) is not None:
        config.repo_url, config.repo_name = address, address.rstrip("/").rpartition("/")[2]
    written = pages()
    write(written)
    filled = navigation(written)
    for entry in config.nav or []:
        for name in entry.keys() & filled.keys() if isinstance(entry, dict) else ():
            entry[name] = filled[name]
    return config


def on_page_content(content: str, **_: Any) -> str:
    return EQUATION.sub(_as_mathml, content)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    for element in ELSEWHERE.findall(output):
        log.warning("%s asks another host for a part of the page: %s", page.file.src_uri, element)
    return output


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """A list of addresses is for a site that has one."""
    return "" if template_name.startswith("sitemap") and not config.site_url else output_content


class ColumnsAsSections(Extension):
    """Rewrites docstrings with parameters in two columns."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            members = obj.members if obj.is_class else [each.name for each in getattr(obj, "parameters", ())]
            section = "Attributes" if obj.is_class else "Args"
            text = as_markdown(obj.docstring.value, [*members], section=section)
            obj.docstring.value = text.replace("\nExample:\n", "\nExamples:\n")  # the name that Griffe reads


def _as_mathml(match: re.Match[str]) -> str:
    tag, bracket, latex = match.groups()
    display = "inline" if bracket == "(" else "block"
    return f'<{tag} class="equation">{convert(html.unescape(latex), display=display)}</{tag}>'
