"""Pieces of Markdown: tables, names, links."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; a bar in a cell does not end it."""
    parts = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in parts) + "\n"


def code(text: object) -> str:
    """As it is written in a file or on a command line; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def plain(text: str) -> str:
    """Text that is no Markdown, as it reads; what stands in backquotes stays code."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "&<*$":
            parts[number] = parts[number].replace(sign, f"&#{ord(sign)};")
    return "`".join(parts)


def as_yaml(value: object) -> str:
    """A value as a configuration spells it, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
