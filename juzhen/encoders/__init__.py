"""From sentences to embeddings and scores: backbone, masked pooling, saved folders.

What is named here is loaded, and torch with it, when it is first asked for: what only looks at files needs neither.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.encoders.backbone import load_backbone
    from juzhen.encoders.bundle import save_encoder
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder, load_encoder
    from juzhen.encoders.transformer import checkpoint_layers, compile_layers

__all__ = [
    "CrossEncoder",
    "PromptEncoder",
    "SentenceEncoder",
    "checkpoint_layers",
    "compile_layers",
    "load_backbone",
    "load_encoder",
    "save_encoder",
]

HOMES = {
    "CrossEncoder": "cross_encoder",
    "PromptEncoder": "sentence_encoder",
    "SentenceEncoder": "sentence_encoder",
    "checkpoint_layers": "transformer",
    "compile_layers": "transformer",
    "load_backbone": "backbone",
    "load_encoder": "sentence_encoder",
    "save_encoder": "bundle",
}
"""Name → the module of this package that defines it."""

__getattr__ = lazily(__name__, HOMES)
