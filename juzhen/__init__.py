"""Sentence embeddings, Chinese and English: data, encoders, losses, metrics, evaluation, reports."""
