"""The only way from a name in a file to code that runs: classes of juzhen, and losses of packages that declare them.

Results, run folders, data sets and recipes may come from anybody. Whatever they name as a `_target_` is looked up here,
and nothing is imported but losses of `juzhen/losses/`, models of `lightning_modules/`, callbacks of `callbacks/`, and
what a package that is installed here declares as an entry point of the group `juzhen.losses`.
"""

import re
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from juzhen.core.errors import UserError

BASES = {
    "juzhen.losses": "juzhen.losses.loss.Loss",
    "lightning_modules": "lightning_modules.base.SentenceModule",
    "callbacks": "pytorch_lightning.Callback",
}
"""Package whose classes may be named → what these are subclasses of."""


LOSSES = "juzhen.losses"
"""Package of losses, and the group of entry points by which other packages declare theirs."""


def is_own(target: object) -> bool:
    """Whether it is written like a class of those packages, or declared by an installed one. Imports nothing."""
    pattern = rf"({'|'.join(map(re.escape, BASES))})\.[a-z]\w*\.[A-Z]\w*"
    return isinstance(target, str) and (
        re.fullmatch(pattern, target, re.ASCII) is not None or target in declared_losses()
    )


@cache
def declared_losses() -> set[str]:
    """Dotted names of the losses that installed packages declare."""
    return {entry.value.replace(":", ".") for entry in entry_points(group=LOSSES)}


def base_of(module: str) -> str:
    """What the classes of a module are subclasses of; of a package that declares losses, of a loss."""
    return BASES.get(module.rpartition(".")[0], BASES[LOSSES])


def refusal(target: object) -> str:
    """Why a target is not looked up, in words."""
    return (
        f"{target}: no class of juzhen's. A file may name the models of lightning_modules/, the losses of "
        "juzhen/losses/, those that an installed package declares (entry points, group juzhen.losses) and the "
        "callbacks of callbacks/, and no other code is run for it"
    )


def own_class(target: object) -> type:
    """The model, loss or callback of that name. Raises UserError for any other, of which no module is imported."""
    if not is_own(target):
        raise UserError(refusal(target))
    module, _, name = target.rpartition(".")
    base = _named(*base_of(module).rsplit(".", 1))
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
