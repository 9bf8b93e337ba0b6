"""The data sets that juzhen ships: written by its own grammar from its own lexicon, nothing downloaded.

`python -m tools.synthetic` writes `builtin/data` again, byte for byte.
"""
