"""From sentences to embeddings: backbone, masked pooling, saved folders."""

from encoders.backbone import load_backbone
from encoders.bundle import load_encoder, save_encoder
from encoders.sentence_encoder import SentenceEncoder

__all__ = ["SentenceEncoder", "load_backbone", "load_encoder", "save_encoder"]
