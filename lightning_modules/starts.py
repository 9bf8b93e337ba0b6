"""The weights that a model starts with: checks of `init_from`, and adapters of new models."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conf.job import JobConfig
from juzhen.core.errors import UserError, setting
from juzhen.core.lazy_names import offered
from juzhen.encoders import SentenceEncoder, load_backbone, load_encoder
from juzhen.encoders.layout import gives_answers, gives_tokens, gives_weights, read_layout
from juzhen.encoders.resolve_path import encoder_folder, scores_pairs

log = logging.getLogger(__name__)

HEADED: dict[str, tuple[Callable[[Path], bool], str]] = {
    "reranker": (gives_answers, "a language model that scores by its answer"),
    "colbert": (gives_tokens, "a ColBERT, which has a vector for each token"),
    "splade": (gives_weights, "a sparse encoder, which has a weight for each token of the vocabulary"),
    "crossencoder": (scores_pairs, "a cross-encoder with a head of its own"),
}
"""Model that alone goes on with an encoder → how the folder of one is known, and what it is."""


def require_start(init_from: str | None, model: str) -> None:
    """Check that no other model alone can continue this start. Loads no weights.

    Args:
        init_from: A run or an encoder folder. None passes.
        model: Key of the job's model in `HEADED`, or another name, such as biencoder.

    Raises:
        UserError: The folder holds a model of `HEADED` that is not `model`.
    """
    if init_from is None:
        return
    folder = encoder_folder(init_from)
    held = next((name for name, (holds, _) in HEADED.items() if holds(folder)), None)
    if held not in (None, model):
        out = f"Type model={held} to go on with it"
        if held == "crossencoder" and model != "reranker":
            alone = f"backbone=local {setting('backbone.path', str(folder))}"
            out += f", or start from its transformer alone: {alone} in place of init_from"
        raise UserError(f"init_from={init_from}: holds {HEADED[held][1]}. {out}")


def require_mergeable(job: JobConfig, model: str) -> None:
    """Check that the weights of a job's adapter can be merged. Such a model saves it merged into them.

    Args:
        job: Its `backbone.adapter` is read. A job without adapter passes.
        model: Name for the message.

    Raises:
        UserError: The adapter is on quantized weights.
    """
    if (adapter := job.backbone.adapter) is not None and adapter.base != "float32":
        raise UserError(
            f"backbone.adapter.base={adapter.base}: model={model} is saved with the adapter merged into the weights, "
            "which needs float32. Type backbone.adapter.base=float32"
        )


def start_without_adapter(job: JobConfig, start: str | Path | None) -> SentenceEncoder:
    """Load the encoder of sentences that a job starts with. `put_adapter` adds adapters later.

    Args:
        job: Its backbone is read if `start` is None.
        start: A run or an encoder folder. None: the backbone of the job.

    Returns:
        The encoder, without a new adapter.
    """
    if start is not None:
        return load_encoder(start)
    return load_backbone(replace(job.backbone, adapter=None), seed=job.seed)


def put_adapter(encoder: Any, job: JobConfig) -> Any:
    """Add a new adapter if the job has one. The saved folder will hold it merged into the weights.

    Args:
        encoder: An encoder with a `backbone`. It is changed in place.
        job: Its `backbone.adapter` and `seed` are read. Without an adapter nothing changes.

    Returns:
        `encoder` itself.
    """
    if job.backbone.adapter is not None:
        offered("adapters", "add_merged")(encoder.backbone, job.backbone.adapter, seed=job.seed)
    return encoder


def tell_of_templates(init_from: str | None) -> None:
    """Warn that a start with templates still reads sentences through them.

    Args:
        init_from: A run or an encoder folder. None: no warning.
    """
    if init_from is not None and read_layout(encoder_folder(init_from)).templates is not None:
        log.warning(
            "init_from=%s: sentences are read through the templates that it was saved with", init_from
        )
