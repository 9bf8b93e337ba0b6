"""What can be set on an encoder that is there: it works from the next text on and is saved, or it is refused."""

from typing import Any, ClassVar

from torch import nn
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError, nearest
from juzhen.core.text import short


class Settable(nn.Module):
    """Once `_is_finished` is set, the attributes named in `settable` can be set alone, as `check_setting` allows.

    A method may be replaced by a function, and a module by a module.
    """

    settable: ClassVar[tuple[str, ...]] = ()
    _is_finished: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_finished and not name.startswith("_") and name != "training":
            replaces = (callable(getattr(type(self), name, None)) and callable(value)) or (
                name in self._modules and isinstance(value, nn.Module)
            )
            if name in self.settable:
                self.check_setting(name, value)
            elif not replaces:
                raise UserError(
                    f"{type(self).__name__}.{name} = {short(repr(value), 40)}: {self._why_not(name)}"
                )
        super().__setattr__(name, value)

    def check_setting(self, name: str, value: Any) -> None:
        """Raises UserError for a value that would not mean what it says."""

    def _why_not(self, name: str) -> str:
        inner = getattr(self, "inner", None)
        if name in getattr(inner, "settable", ()):
            return f"it is encoder.inner.{name}"
        if hasattr(self, name):
            return f"this follows from what was loaded; what can be set: {', '.join(self.settable)}"
        return f"there is no such attribute; {nearest(name, self.settable)}"


def check_flag(name: str, value: Any) -> None:
    """Raises UserError for what is neither True nor False."""
    if not isinstance(value, bool):
        raise UserError(f"{name}={short(repr(value), 40)}: expected True or False")


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Raises UserError for what is no whole number in these bounds."""
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise UserError(f"{name}={short(repr(value), 40)}: expected a whole number, {bounds}")


def check_tokenizer(value: Any, present: PreTrainedTokenizerBase) -> None:
    """Raises UserError for what has another vocabulary than the tokenizer that is there."""
    if not isinstance(value, PreTrainedTokenizerBase) or value.get_vocab() != present.get_vocab():
        raise UserError(
            "tokenizer: the weights belong to the vocabulary that they were loaded with; load another encoder"
        )
