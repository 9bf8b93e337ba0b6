"""What other libraries raise for broken files, in one line of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from schema.errors import UserError
from schema.texts import short

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
        reason = short(" ".join(str(error).split()), 300)
        raise UserError(f"{message} ({type(error).__name__}: {reason})") from error
