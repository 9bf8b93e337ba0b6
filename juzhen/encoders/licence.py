"""The licence of weights, which whatever is trained from them inherits: the one that their card names."""

import re
from pathlib import Path

from juzhen.core.safe_open import read_bytes

CARD = "README.md"
LINKS = {"cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/"}
"""Licences that a card explains."""

_HEAD = re.compile(r"\A---\n(.*?)\n---$", flags=re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license: *([a-zA-Z0-9][\w.-]*) *$", flags=re.MULTILINE)


def licence_of(folder: Path) -> str | None:
    """The name that the head of the card in a folder gives, as the hub spells it; None where there is none."""
    try:
        text = read_bytes(folder / CARD).decode("utf-8", errors="replace")
    except OSError:
        return None
    head = _HEAD.search(text.replace("\r\n", "\n"))
    licence = _LICENCE.search(head[1]) if head else None
    return licence[1] if licence else None


def licence_note(licence: str | None) -> str:
    """What a card says of weights that were trained from others."""
    if licence is None:
        return ""
    name = f"[{licence}]({LINKS[licence]})" if licence in LINKS else licence
    return f"\nThe weights that training began with are under {name}, and so are these.\n"
