"""Settings in the files of an encoder, and whatever is wrong with a file as one line that names it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from juzhen.core import opened
from juzhen.core.errors import UserError, foreign_reason

PANIC = "PanicException"
"""What the Rust side of tokenizers and safetensors raises where it did not expect a file to be so; no Exception."""


def read_settings(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds. Raises UserError when the file is missing, is no JSON, or holds none."""
    with naming(str(path)):
        return dict(opened.read_json(path))


@contextmanager
def naming(message: str) -> Iterator[None]:
    """Turns whatever is raised inside into a UserError: the message, and the reason behind it.

    transformers, tokenizers and safetensors raise a dozen unrelated types for files that are damaged or do not belong
    together: KeyError, ZeroDivisionError, and panics.
    """
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        if sys.flags.optimize > 1:
            message += (
                ": PYTHONOPTIMIZE=2 takes away docstrings, which transformers reads; unset it, or set it to 1"
            )
        raise UserError(f"{message}: {type(error).__name__}: {foreign_reason(error)}") from error
