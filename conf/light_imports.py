"""Imports Lightning and transformers without what they import for features that no job uses."""

import re
from contextlib import suppress
from unittest.mock import patch

UNUSED = {"matplotlib", "scipy", "transformers"}
"""Packages that torchmetrics imports for its plots and its metrics of sound and text."""


def load_lightning() -> None:
    """Import torchmetrics without `UNUSED`, and transformers without torchao and scipy.

    Lightning imports the first and every encoder the second, before the first step. transformers needs torchao to
    save weights that it has quantized, and scipy for losses of object detection. After this, both see all packages
    again, as everybody else does all the time. docs/log/training_speed.md has the time that it saves. A release of
    these packages that asks in another way imports all that it wants.
    """
    from lightning_utilities.core import imports

    find, check = imports.package_available, getattr(imports.RequirementCache, "_check_requirement", None)
    if check is None:
        return

    def check_used(cache: imports.RequirementCache) -> None:
        check(cache)
        if re.split("[<>=]", cache.requirement or "")[0] in UNUSED:
            cache.available, cache.message = False, f"{cache.requirement} is left out of training"

    with (
        patch.object(imports, "package_available", lambda name: name not in UNUSED and find(name)),
        patch.object(imports.RequirementCache, "_check_requirement", check_used),
    ):
        import torchmetrics  # noqa: F401

    from transformers import utils

    leave_out = patch.multiple(
        utils, is_torchao_available=lambda *_: False, is_scipy_available=lambda *_: False
    )
    with suppress(AttributeError, ImportError), leave_out:
        import transformers.loss.loss_utils
        import transformers.quantizers.quantizer_torchao  # noqa: F401
