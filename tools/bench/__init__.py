"""Measurements against sentence-transformers on the same work, interleaved; run with `make bench`."""
