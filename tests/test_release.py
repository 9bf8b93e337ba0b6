"""What a release is made of: a workflow without secrets, a citation, a licence for code and for weights."""

import tomllib

import yaml
from forks import ROOT
from pages import EDITIONS, page

from juzhen.encoders.save import licence_of


def test_the_workflow_publishes_by_trust_and_holds_no_secret():
    text = page(".github/workflows/release.yml")
    workflow = yaml.safe_load(text)
    assert "secrets." not in text
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert workflow["jobs"]["publish"]["needs"] == "build"
    assert "twine check --strict" in text


def test_the_citation_has_what_its_schema_asks_for():
    citation = yaml.safe_load(page("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    project = tomllib.loads(page("pyproject.toml"))["project"]
    assert citation["license"] == project["license"]


def test_readme_names_the_licence_of_the_built_in_weights():
    assert licence_of(ROOT / "juzhen" / "builtin" / "mini_zh@2") == "cc-by-sa-4.0"
    assert all("CC BY-SA 4.0" in page(name) for name in EDITIONS)
