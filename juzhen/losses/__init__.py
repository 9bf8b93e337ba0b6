"""What is minimised: a file per family of losses, each a function of tensors and a module with customary numbers.

    from juzhen.losses import CoSENT, cosent
    CoSENT()(scores, targets)                   # a scalar, in any training loop
    cosent(scores, targets, temperature=0.05)   # the same as a function

Every public class and function of the files of this folder can be imported from here; torch is loaded when one is
asked for. `juzhen.losses.loss` says what a loss is handed and what it declares.
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
"""Public name → the file that defines it, which has another name. Read as text: importing would load torch."""

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
