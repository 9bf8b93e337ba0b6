"""Where a mistake was written: the argument, or the file and line that an argument chose."""

import re
from collections.abc import Sequence
from pathlib import Path


def chosen_files(folder: Path, lines: Sequence[str]) -> list[Path]:
    """Files of the configuration tree that the overrides choose, in order."""
    files: list[Path] = []
    for line in lines:
        group, equals, value = line.lstrip("+").partition("=")
        if equals:
            group = group.partition("@")[0]
            options = [option.strip() for option in value.strip("[]").split(",")]
            files += [file for option in options if (file := folder / group / f"{option}.yaml").is_file()]
    return files


def place_of(key: str, message: str, lines: Sequence[str], folder: Path) -> str:
    """` (given as +trainer.epoch=3)` or ` (conf/experiment/x.yaml, line 3)`; empty if the message says it."""
    if not key:
        return ""
    for line in lines:
        name = line.lstrip("+~").partition("=")[0]
        if name == key or name.startswith((f"{key}.", f"{key}@")):
            return "" if line in message else f" (given as {line})"
    word = key.rpartition(".")[2].partition("[")[0]
    for file in chosen_files(folder, lines):
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text.partition("#")[0]):
                return f" ({file.relative_to(folder.parent)}, line {number})"
    return ""
