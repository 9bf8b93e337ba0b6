"""Texts and their vectors on disk, searched by vectors, BM25, or both: `Index.open(folder, encoder).search(…)`."""

from juzhen.index.hits import IndexHit
from juzhen.index.index import Index
from juzhen.index.rows import Rows, read_rows
from juzhen.index.writing import Encoding, PassageSettings, add, build, index_in_memory, remove

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
