"""Links between pages of the manual lead to pages and headings that exist, and every page is in the navigation."""

import os
import re

import pytest
from forks import ROOT
from pages import WRITTEN_BY_PROGRAMS, chinese, page, site_pages

LINK = re.compile(r"\]\(([^)#\s:]*)(?:#([^)\s]+))?\)")
FENCES = re.compile(r"^ *```.*?^ *```$", flags=re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*?)(?: \{ #([\w.-]+) \})?$", flags=re.MULTILINE)
BUILT = ("docs/reference/", "docs/results/")
"""Written while the site is built: tests/test_pages.py and the strict build look at links to them."""


def anchors(name):
    """Ids of the headings of a page, as the site makes them."""
    found = set()
    for text, given in HEADING.findall(FENCES.sub("", page(name))):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)|\[", "", text)).strip().lower()
        found.add(given or slug.replace(" ", "-"))
    return found


def broken(name):
    for path, anchor in LINK.findall(FENCES.sub("", page(name))):
        target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if target.startswith(BUILT) or not target.endswith(".md"):
            continue
        if name.endswith(".zh.md") and path and (ROOT / chinese(target)).is_file():
            target = chinese(target)
        if not (ROOT / target).is_file() or (anchor and anchor not in anchors(target)):
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("name", site_pages())
def test_links_lead_to_pages_and_headings_that_exist(name):
    assert list(broken(name)) == []


def test_the_navigation_has_every_page_and_no_other():
    navigation = page("mkdocs.yml").partition("\nnav:\n")[2]
    named = {f"docs/{one}" for one in re.findall(r"[\w/]+\.md", navigation)}
    written = {name for name in site_pages() if not name.endswith(".zh.md")}
    assert named - set(WRITTEN_BY_PROGRAMS) == written


def test_sections_of_the_navigation_have_chinese_names():
    text = page("mkdocs.yml")
    navigation = text.partition("\nnav:\n")[2]
    sections = re.findall(r'^ *- "?([^:"\n]+)"?:', navigation, flags=re.MULTILINE)
    translated = re.findall(r'^ {12}"?([^:"\n]+)"?:', text, flags=re.MULTILINE)
    assert set(sections) <= set(translated)
