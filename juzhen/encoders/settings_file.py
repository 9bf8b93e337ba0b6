"""Files of an encoder: what is asked of one is there, or there is one clear line, whoever found it out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core import opened
from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.texts import short

SPOKEN = {
    str: "a text",
    bool: "true or false",
    int: "a whole number above 0",
    list: "a list",
    dict: "an object {…}",
    type(None): "null",
}
REQUIRED = object()

PANIC = "PanicException"
"""What the Rust side of tokenizers and safetensors raises where it did not expect a file to be so; no Exception."""


@dataclass(frozen=True)
class Settings:
    """The object that a JSON file holds, or one that it has inside."""

    path: Path
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Settings":
        """Raises UserError when the file is missing, is no JSON, or holds no object."""
        return cls.of(path, read_json(path))

    @classmethod
    def of(cls, path: Path, value: Any) -> "Settings":
        if not isinstance(value, dict):
            raise UserError(f"{path}: holds {short(repr(value))}, expected an object {{…}} with settings")
        return cls(path, value)

    def get(self, key: str, *types: type, default: Any = REQUIRED) -> Any:
        """The value of a key. Raises UserError where it is of none of the types, or missing without a default.

        A whole number must be 1 or more: all that are asked for are sizes.
        """
        if key not in self.values and default is not REQUIRED:
            return default
        if key not in self.values:
            raise UserError(
                f"{self.path}: {key} is missing; copy the file again from where the encoder came from"
            )
        value = self.values[key]
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if not fits or (isinstance(value, int) and not isinstance(value, bool) and value < 1):
            expected = " or ".join(SPOKEN[one] for one in types)
            raise UserError(f"{self.path}: {key} is {short(repr(value))}, expected {expected}")
        return value


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UserError when it is missing or is none."""
    try:
        return opened.read_json(path)
    except FileNotFoundError:
        raise UserError(f"{path}: missing, though a file beside it asks for it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({short(str(error), 120)})") from error


@contextmanager
def told_simply(message: str) -> Iterator[None]:
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
