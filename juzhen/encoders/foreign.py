"""What other libraries raise for broken files, in one line of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from juzhen.core.errors import UserError, foreign_reason

PANIC = "PanicException"
"""What the Rust side of tokenizers and safetensors raises where it did not expect a file to be so; no Exception."""


@contextmanager
def told_simply(message: str) -> Iterator[None]:
    """Turns whatever is raised inside into a UserError: the message, and the reason in brackets.

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
        raise UserError(f"{message}: {type(error).__name__}: {foreign_reason(error)}") from error
