"""Reports as files: complete or not there."""

import json
from pathlib import Path
from typing import Any

from juzhen.core.whole import write_text, writing_to


def write_report(report: dict[str, Any], markdown: str, folder: Path, name: str) -> list[Path]:
    """Writes <name>.json and <name>.md into the folder and gives their paths."""
    texts = {f"{name}.json": json_text(report), f"{name}.md": markdown + "\n"}
    with writing_to(f"--output {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_text(folder / file, text)
    return [folder / file for file in texts]


def json_text(report: dict[str, Any]) -> str:
    """The report with one entry of a list per line, so that a change of one cell is a change of one line."""
    lines = []
    for key, value in report.items():
        if isinstance(value, list | dict) and value:
            entries = (
                [json.dumps(one, ensure_ascii=False) for one in value]
                if isinstance(value, list)
                else [
                    f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}"
                    for name, one in value.items()
                ]
            )
            opening, closing = "[]" if isinstance(value, list) else "{}"
            body = ",\n  ".join(entries)
            lines.append(f" {json.dumps(key)}: {opening}\n  {body}\n {closing}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
