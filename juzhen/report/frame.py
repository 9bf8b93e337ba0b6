"""The frame of every page: one HTML file that needs no other and asks for none."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from juzhen.report.translation import Words

PARTS = files(__package__) / "page"
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")

POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
"""No request leaves the page; only its own scripts run, and these make no markup of a text."""


def render(
    template: str,
    *,
    scripts: Sequence[str] = (),
    rules: str = "",
    words: Words | None = None,
    **values: Any,
) -> str:
    """The page, or the picture, that a template of PARTS makes of `values`, all of whose texts are escaped.

    scripts  files that are one program, in this order
    rules    of the style sheet, besides those of every page
    words    what the page has in two languages; a template gives it a text by `say`
    """
    environment = Environment(
        loader=FunctionLoader(part),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # `<` never stands in the JSON, so that no text of it ends the element.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "separators": (",", ":"), "allow_nan": False,
    }  # fmt: skip
    programs = [*map(part, LIBRARIES), "\n".join(map(part, scripts))]
    return environment.get_template(template).render(
        policy=POLICY.format(" ".join(f"'sha256-{_digest(program)}'" for program in programs)),
        style=Markup(f"{part('page.css')}\n{rules}"),
        scripts=[Markup(program) for program in programs],
        words=words,
        say=words.say if words else str,
        licences=part("vendor/LICENSES.txt"),
        **values,
    )


@cache
def part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
