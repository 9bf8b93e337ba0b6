"""By what the saved weights of a run are known again."""

import hashlib
from pathlib import Path

from juzhen.core.opened import open_input

WEIGHT_FILES = ("*.safetensors", "*.bin")


def weights_digest(folder: str | Path) -> str:
    """16 hex digits over the files of weights below an encoder's folder; "" where there are none."""
    folder = Path(folder)
    paths = sorted(path for pattern in WEIGHT_FILES for path in folder.rglob(pattern))
    digest = hashlib.sha256()
    for path in paths:
        with open_input(path) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:16] if paths else ""
