"""From sentences to embeddings: backbone, masked pooling, saved folders.

What is named here is loaded, and torch with it, when it is first asked for: what only looks at files needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from juzhen.encoders.backbone import load_backbone
    from juzhen.encoders.bundle import load_encoder, save_encoder
    from juzhen.encoders.sentence_encoder import SentenceEncoder
    from juzhen.encoders.transformer import compile_layers

__all__ = ["SentenceEncoder", "compile_layers", "load_backbone", "load_encoder", "save_encoder"]

HOMES = {
    "SentenceEncoder": "sentence_encoder",
    "compile_layers": "transformer",
    "load_backbone": "backbone",
    "load_encoder": "bundle",
    "save_encoder": "bundle",
}
"""Name → the module of this package that defines it."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
