"""Texts and their vectors on disk, searched by vectors, BM25, or both: `Index.open(folder, encoder).search(…)`."""

from juzhen.index.index import Index, IndexHit
from juzhen.index.writing import (
    Encoding,
    PassageSettings,
    Rows,
    add,
    build,
    index_in_memory,
    read_rows,
    remove,
)

__all__ = [
    "Encoding",
    "Index",
    "IndexHit",
    "PassageSettings",
    "Rows",
    "add",
    "build",
    "index_in_memory",
    "read_rows",
    "remove",
]
