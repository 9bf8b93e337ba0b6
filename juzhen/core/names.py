"""Names that files and folders may have, where a configuration chooses them."""

import os

LONGEST = 200
"""Bytes; file systems take 255, and a key or a suffix is added."""


def name_fault(name: str) -> str | None:
    """What keeps a text from being the name of a file or a folder; None where nothing does."""
    if not name.strip() or name.startswith("."):
        return "it is empty, or begins with a dot"
    if any(sign in "/\\" or not sign.isprintable() for sign in name):
        return "it holds / or \\ or a sign that cannot be seen"
    if len(os.fsencode(name)) > LONGEST:
        return f"it is longer than {LONGEST} bytes"
    return None
