"""Sentence embeddings for Chinese and English: encoders, losses, data, metrics.

Names are loaded on first use, and torch with them.
"""

import logging
from typing import Any

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


def __getattr__(name: str) -> Any:
    # Imported here, because `import juzhen` is not to wait for what reads rooms.toml.
    from juzhen.core.aliases import RENAMED_NAMES
    from juzhen.core.lazy_names import lazily, offered, offers

    if name == "__all__":
        return sorted([*HOMES, *offers("names")])
    if name in RENAMED_NAMES:
        import warnings

        new = RENAMED_NAMES[name]
        warnings.warn(
            f"juzhen.{name} is juzhen.{new} since 0.3. Use that name.", DeprecationWarning, stacklevel=2
        )
        name = new
    return offered("names", name) if name in offers("names") else lazily(__name__, HOMES)(name)


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))


# transformers loads torchao if it is installed, which then logs about unused kernels in every process.
for _name in ("torchao", "torch.utils._pytree"):
    if not (_logger := logging.getLogger(_name)).level:
        _logger.setLevel(logging.ERROR)
