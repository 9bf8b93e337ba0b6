"""The only way from a name in a file to code that runs: classes of models, losses and callbacks that are juzhen's own.

Results, run folders, data sets and recipes may come from anybody. Whatever they name as a `_target_` is looked up here,
and nothing but losses of `juzhen/losses/`, models of `lightning_modules/` and callbacks of `callbacks/` is
imported.
"""

import re
from importlib import import_module

from juzhen.core.errors import UserError

BASES = {
    "juzhen.losses": "juzhen.losses.loss.Loss",
    "lightning_modules": "lightning_modules.base.SentenceModule",
    "callbacks": "pytorch_lightning.Callback",
}
"""Package whose classes may be named → what these are subclasses of."""


def is_own(target: object) -> bool:
    """Whether it is written like a class of those packages: `juzhen.losses.order.CoSENT`. Imports nothing."""
    pattern = rf"({'|'.join(map(re.escape, BASES))})\.[a-z]\w*\.[A-Z]\w*"
    return isinstance(target, str) and re.fullmatch(pattern, target, re.ASCII) is not None


def refusal(target: object) -> str:
    """Why a target is not looked up, in words."""
    return (
        f"{target}: no class of juzhen's. A file may name the models of lightning_modules/, the losses of "
        "juzhen/losses/ and the callbacks of callbacks/, and no other code is run for it"
    )


def own_class(target: object) -> type:
    """The model, loss or callback of that name. Raises UserError for any other, of which no module is imported."""
    if not is_own(target):
        raise UserError(refusal(target))
    module, _, name = target.rpartition(".")
    base = _named(*BASES[module.rpartition(".")[0]].rsplit(".", 1))
    try:
        candidate = _named(module, name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(refusal(target)) from None
    is_its_own = isinstance(candidate, type) and candidate.__module__ == module  # not one that it imports
    if not is_its_own or not issubclass(candidate, base) or candidate is base:
        raise UserError(refusal(target))
    return candidate


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name, None)
