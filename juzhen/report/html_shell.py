"""The frame of every page: one HTML file that loads nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from juzhen.report.table import Words

PARTS = files(__package__) / "page"
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")

POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
"""No request leaves the page. Only its own scripts run, and they cannot turn text into markup."""


def render(
    template: str,
    *,
    scripts: Sequence[str] = (),
    rules: str = "",
    words: Words | None = None,
    **values: Any,
) -> str:
    """Fill a template of PARTS. All texts are escaped.

    Args:
        template: Name of the template.
        values: Values for the template.
        scripts: Script files that form one program, in order.
        rules: Style rules of this page.
        words: Texts in two languages, which a template includes with `say`.

    Returns:
        The page or picture.
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
    digests = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    return environment.get_template(template).render(
        policy=POLICY.format(" ".join(f"'sha256-{digest}'" for digest in digests)),
        style=Markup(f"{part('page.css')}\n{rules}"),
        scripts=[Markup(program) for program in programs],
        words=words,
        say=words.say if words else str,
        licences=part("vendor/LICENSES.txt"),
        **values,
    )


@cache
def part(name: str) -> str:
    """Read a file of the page's parts, once.

    Args:
        name: Path below the folder of the parts.

    Returns:
        Its text.
    """
    return (PARTS / name).read_text(encoding="utf-8")


# Colours of the page's matrix, as rules of a style sheet: the picture is there before any script runs.


STEPS = 49
"""Odd, so that a gain of 0 has the colour in the middle."""

SCORES = ["ffffd9", "edf8b1", "c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "253494", "081d58"]
"""YlGnBu of Brewer (colorbrewer2.org), for every kind of colour vision and in grey. A dark page starts at its end."""

GAINS = {
    "light": ["9c3a22", "cf6a48", "f0a98c", "ffffff", "9cc3e2", "4f8fc6", "1d5690"],
    "dark": ["ff9d78", "c4613e", "6e3524", "262b31", "23496b", "3f83bd", "8cc4f5"],
}
"""Colours below and above 0. The middle has the colour of the page."""

TRIMMED = 0.04
"""Unused share at either end of SCORES, where the colour would equal the page."""


def palettes() -> dict[str, dict[str, list[str]]]:
    """Return `s` for scores and `g` for gains → light and dark → colours of the steps.

    Returns:
        Colours as #rrggbb, from the lowest step to the highest.
    """
    shares = [TRIMMED + (1 - 2 * TRIMMED) * step / (STEPS - 1) for step in range(STEPS)]
    evenly = [step / (STEPS - 1) for step in range(STEPS)]
    return {
        "s": {
            "light": [_colour(SCORES, share) for share in shares],
            "dark": [_colour(SCORES[::-1], share) for share in shares],
        },
        "g": {theme: [_colour(anchors, share) for share in evenly] for theme, anchors in GAINS.items()},
    }


def rules() -> str:
    """Return the style of `data-heat="s0"` and so on: background and text colour of each step.

    Returns:
        CSS, one rule for each step.
    """
    lines = []
    for name, themes in palettes().items():
        for step, (light, dark) in enumerate(zip(themes["light"], themes["dark"], strict=True)):
            ground, ink = f"light-dark({light}, {dark})", f"light-dark({ink_on(light)}, {ink_on(dark)})"
            lines.append(f'[data-heat="{name}{step}"] {{ background-color: {ground}; color: {ink}; }}')
    return "\n".join(lines)


def step_of(share: float) -> int:
    """Return the step of a colour.

    Args:
        share: Share from 0 to 1. Values outside are moved to the nearer end.

    Returns:
        From 0 to STEPS - 1.
    """
    return round(max(0.0, min(1.0, share)) * (STEPS - 1))


def ink_on(colour: str) -> str:
    """Return black or white, whichever has more contrast (WCAG 2.2): at least 4.5 on every colour.

    Args:
        colour: Background as `#rrggbb`.

    Returns:
        `#000000` or `#ffffff`.
    """
    parts = [value / 255 for value in _parts(colour[1:])]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"


def _colour(anchors: Sequence[str], share: float) -> str:
    place = share * (len(anchors) - 1)
    left = min(int(place), len(anchors) - 2)
    both = zip(_parts(anchors[left]), _parts(anchors[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in both)


def _parts(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (0, 2, 4)]
