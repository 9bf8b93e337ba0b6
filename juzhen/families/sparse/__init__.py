"""Sparse encoders: a weight for each token of the vocabulary (SPLADE)."""
