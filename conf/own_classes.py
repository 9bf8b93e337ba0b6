"""The only way from a name in a file to code that runs: classes of models and losses that are juzhen's own.

Results, run folders, data sets and recipes may come from anybody. Whatever they name as a `_target_` is looked up here,
and nothing that is not a loss of `losses/` or a model of `lightning_modules/` is ever imported.
"""

import re
from importlib import import_module

from juzhen.core.errors import UserError

BASES = {"losses": "juzhen.losses.loss.Loss", "lightning_modules": "lightning_modules.base.SentenceModule"}
"""Package whose classes may be named → what these are subclasses of."""


def is_own(target: object) -> bool:
    """Whether it is written like a class of those packages: `juzhen.losses.cosent.CoSENT`. Imports nothing."""
    pattern = rf"({'|'.join(BASES)})\.[a-z]\w*\.[A-Z]\w*"
    return isinstance(target, str) and re.fullmatch(pattern, target, re.ASCII) is not None


def refusal(target: object) -> str:
    """Why a target is not looked up, in words."""
    return (
        f"{target}: no class of juzhen's. A file may name the models of lightning_modules/ and the losses of losses/, "
        "and no other code is run for it"
    )


def own_class(target: object) -> type:
    """The model or loss of that name. Raises UserError for any other name; only modules of the project are imported."""
    if not is_own(target):
        raise UserError(refusal(target))
    module, _, name = target.rpartition(".")
    base = _named(*BASES[module.split(".")[0]].rsplit(".", 1))
    try:
        found = _named(module, name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(refusal(target)) from None
    if not (isinstance(found, type) and issubclass(found, base) and found is not base):
        raise UserError(refusal(target))
    return found


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name, None)
