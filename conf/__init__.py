"""What varies (yaml), the typed shape of it, and the way from a name in it to a class. Here are the resolvers of YAML.

Needs no torch. In a file of conf/loss, `temperature: ${for_scores:{cosine:0.05,logit:1}}` is 0.05 wherever that loss is
chosen for a bi-encoder, and 1 for a cross-encoder. A number on the command line or in another file replaces it. Logits
and dot products are any numbers.

Configurations are stored in results, logs and at W&B, and may come from anybody. So `${oc.env:…}` reads only
a short list of variables."""

import os
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf

from juzhen.core.errors import UserError
from juzhen.models import settings_of

COSINE, LOGIT, SPREAD = "cosine", "logit", "spread"
"""Units of a score: from −1 to 1 · of any size · standard deviations of the scores in a batch."""


def unit_of_scores(model: str) -> str:
    """Return the range of a model's scores, COSINE or LOGIT, by the dotted path of its class.

    A model whose settings have cosines under `provides` scores by cosines. A path without a class counts as
    COSINE. The check of targets refuses it in better words.

    Args:
        model: Dotted path, such as lightning_modules.biencoder.BiEncoder.

    Returns:
        COSINE or LOGIT.
    """
    return COSINE if "cosines" in settings_of({"_target_": model}).provides else LOGIT


def for_scores(numbers: DictConfig, *, _root_: DictConfig, _parent_: Container) -> Any:
    """Choose the number that suits the scores of a job's model.

    Args:
        numbers: Unit → number.
        _root_: Configuration of the job. OmegaConf passes it.
        _parent_: Node of the loss. If its `temperature_unit` is a spread, the number for SPREAD is taken for any
            model.

    Returns:
        One of `numbers`.

    Raises:
        UserError: The job has no model.
    """
    if isinstance(_parent_, DictConfig) and _parent_.get("temperature_unit", "score") != "score":
        return numbers[SPREAD]
    if not OmegaConf.select(_root_, "model._target_"):
        raise UserError("no model is chosen whose scores this number could suit. Type model=biencoder")
    return numbers[unit_of_scores(_root_.model["_target_"])]


def register() -> None:
    """Makes `${for_scores:…}` known to OmegaConf. May be called again."""
    OmegaConf.register_new_resolver("for_scores", for_scores, replace=True)


READABLE = ("JUZHEN_DATA", "JUZHEN_CACHE", "HOME", "TMPDIR", "SCRATCH")


def register_environment() -> None:
    """Makes `${oc.env:…}` give the variables of READABLE and refuse all others. May be called again."""

    def read(name: str, *default: str | None) -> str | None:
        if name not in READABLE:
            raise ValueError(
                f"a configuration may not read the environment variable {name}, since it is stored with each result. "
                f"It may read {', '.join(READABLE)}"
            )
        if name not in os.environ and not default:
            raise ValueError(f"the environment variable {name} is not set")
        return os.environ.get(name, *default)

    OmegaConf.register_new_resolver("oc.env", read, replace=True)


register_environment()  # whoever reads a configuration has imported this
