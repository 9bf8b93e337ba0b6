"""Modules whose settings can be changed once they are there: with effect on the next text and on what is saved."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from juzhen.core.errors import UserError, nearest
from juzhen.core.texts import short


class _Finished(type):
    """Marks what a constructor has made as finished."""

    def __call__(cls, *words: Any, **options: Any) -> Any:
        made = super().__call__(*words, **options)
        made.__dict__["_is_finished"] = True
        return made


class Settable(nn.Module, metaclass=_Finished):
    """Once it is made, an attribute `x` can be set where there is a method `_checked_x`: it gives what is kept.

    All others are refused, so that nothing is taken that has no effect. A method may be replaced by a function, and a
    module by a module.

    hints  attribute → what to do instead of setting it
    """

    hints: ClassVar[Mapping[str, str]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_is_finished") and not name.startswith("_") and name != "training":
            check, standing = (getattr(type(self), key, None) for key in (f"_checked_{name}", name))
            if check is not None:
                value = check(self, value)
            elif not (callable(standing) and callable(value)) and not (
                name in self._modules and isinstance(value, nn.Module)
            ):
                raise UserError(
                    f"{type(self).__name__}.{name} = {short(repr(value), 40)}: {self._why_not(name)}"
                )
        super().__setattr__(name, value)

    def _why_not(self, name: str) -> str:
        can_be = sorted(
            one.removeprefix("_checked_") for one in dir(type(self)) if one.startswith("_checked_")
        )
        if name in self.hints:
            return self.hints[name]
        if hasattr(self, name):
            return f"this follows from what was loaded; what can be set: {', '.join(can_be)}"
        return f"there is no such attribute; {nearest(name, can_be)}"


def check_flag(name: str, value: Any) -> bool:
    """The value itself. Raises UserError for what is neither True nor False."""
    if not isinstance(value, bool):
        raise UserError(f"{name}={short(repr(value), 40)}: expected True or False")
    return value


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """The value itself. Raises UserError for what is no whole number in these bounds."""
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise UserError(f"{name}={short(repr(value), 40)}: expected a whole number, {bounds}")
    return value
