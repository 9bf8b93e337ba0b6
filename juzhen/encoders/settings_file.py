"""Settings in the files of an encoder, and whatever is wrong with a file as one line that names it."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core import safe_open
from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError, foreign_reason
from juzhen.core.text import short

if TYPE_CHECKING:
    from torch import Tensor

PANIC = "PanicException"
"""What the Rust side of tokenizers and safetensors raises where it did not expect a file to be so; no Exception."""


def read_settings(path: Path) -> dict[str, Any]:
    """Read the object that a JSON file holds.

    Raises:
        UserError: The file is missing, is no JSON or holds no object, or a number in it is NaN or infinite.
    """
    with naming(str(path)):
        settings = safe_open.read_json(path)
        if not isinstance(settings, dict):
            raise ValueError(f"its content is {short(repr(settings))}, expected an object {{…}}")
    for key, number in _numbers(settings):
        if not math.isfinite(number):
            raise UserError(
                f"{path}: {key}={number}: expected a finite number. Copy the file again, or mend it."
            )
    return settings


def _numbers(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Keys that have a number. Bounds in lists are not among them: Mamba's time_step_limit ends at infinity."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{before}{key}.")
        elif isinstance(value, float):
            yield f"{before}{key}", value


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Read the tensors of a safetensors file.

    Raises:
        UserError: A tensor holds NaN or infinity. safetensors raises for a file that is none.
    """
    from safetensors.torch import load_file

    tensors = load_file(path)
    require_finite_weights(tensors.items(), path)
    return tensors


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
