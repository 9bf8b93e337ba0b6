"""Sentence embeddings for Chinese and English: encoders, losses, data, measures.

What is named here is loaded, and torch with it, when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder

__all__ = ["CrossEncoder", "PromptEncoder", "SentenceEncoder"]

HOMES = {
    "CrossEncoder": "juzhen.encoders.cross_encoder",
    "PromptEncoder": "juzhen.encoders.sentence_encoder",
    "SentenceEncoder": "juzhen.encoders.sentence_encoder",
}
"""Name → the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
