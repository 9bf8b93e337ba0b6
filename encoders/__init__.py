"""From sentences to embeddings: backbone, masked pooling, saved folders."""

from encoders.backbone import load_backbone
from encoders.bundle import load_encoder, save_encoder
from encoders.sentence_encoder import SentenceEncoder
from encoders.transformer import compile_layers

__all__ = ["SentenceEncoder", "compile_layers", "load_backbone", "load_encoder", "save_encoder"]
