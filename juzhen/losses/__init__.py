"""Losses: each is a function of tensors, and a module with customary numbers.

    from juzhen.losses import CoSENT, cosent
    CoSENT()(scores, targets)                   # a scalar, in any training loop
    cosent(scores, targets, temperature=0.05)   # the same as a function

Every public class and function of this package can be imported from here. torch is loaded at the first one.
`juzhen.losses.loss.Loss` documents the inputs and declarations of a loss.
"""

import re
from pathlib import Path

from juzhen.core.lazy_names import lazily

_HOMES = {
    name: path.stem
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))
    if path.stem != "arguments"
    for name in re.findall(r"^(?:class|def) ([a-zA-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
}
"""Public name → file that defines it. The files are read as text, because importing them would load torch."""

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
