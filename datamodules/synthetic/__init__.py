"""The data sets that juzhen ships: written by its own grammar from its own lexicon, nothing downloaded.

`python -m datamodules.synthetic` writes `builtin/data` again, byte for byte.
"""

from datamodules.synthetic.build import generate, write

__all__ = ["generate", "write"]
