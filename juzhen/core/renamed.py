"""Keys that have changed their spelling. Configurations in the old one are refused, results in it are read."""

RENAMED = {
    "optimiser": "optimizer",
    "normalise": "normalize",
    "initialise": "initialize",
    "licence": "license",
}
"""Key as it was → as it is."""


def renamed(key: str) -> str:
    """A dotted key in the spelling of today.

    >>> renamed("optimiser.lr")
    'optimizer.lr'
    """
    return ".".join(RENAMED.get(word, word) for word in key.split("."))
