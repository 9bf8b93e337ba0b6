"""Sentence embeddings for Chinese and English: encoders, losses, data, metrics.

Names are loaded on first use, and torch with them.
"""

import logging
from typing import Any

from juzhen.core.aliases import RENAMED_NAMES as _RENAMED
from juzhen.core.lazy_names import lazily, offered, offers

HOMES = {
    "AdapterConfig": "encoders.backbone_config",
    "CrossEncoder": "encoders.cross_encoder",
    "PromptEncoder": "encoders.sentence_encoder",
    "SentenceEncoder": "encoders.sentence_encoder",
    "evaluate": "evaluation.run",
    "load_ranking": "data.loading",
    "quantize": "encoders.search",
}
"""Name of the inner ring → the module that defines it."""

__all__ = sorted([*HOMES, *offers("names")])

_load = lazily(__name__, HOMES)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        import warnings

        new = _RENAMED[name]
        warnings.warn(
            f"juzhen.{name} is juzhen.{new} since 0.3. Use that name.", DeprecationWarning, stacklevel=2
        )
        name = new
    return offered("names", name) if name in offers("names") else _load(name)


# transformers loads torchao if it is installed, which then logs about unused kernels in every process.
for _name in ("torchao", "torch.utils._pytree"):
    if not (_logger := logging.getLogger(_name)).level:
        _logger.setLevel(logging.ERROR)


def __dir__() -> list[str]:
    return __all__
