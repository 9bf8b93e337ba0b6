"""From sentences to embeddings and scores: backbone, masked pooling, saved folders.

Names are loaded on first use, and torch with them, so that reading files needs neither.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.encoders.backbone import checkpoint_layers, compile_layers
    from juzhen.encoders.cross_encoder import CrossEncoder
    from juzhen.encoders.save import save_encoder
    from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder, load_backbone, load_encoder

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
    "checkpoint_layers": "backbone",
    "compile_layers": "backbone",
    "load_backbone": "sentence_encoder",
    "load_encoder": "sentence_encoder",
    "save_encoder": "save",
}
"""Name → the module of this package that defines it."""

__getattr__ = lazily(__name__, HOMES)
