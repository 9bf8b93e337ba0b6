"""Plugins of `train.py -m`. Hydra finds classes in this package. Nothing here loads torch."""
