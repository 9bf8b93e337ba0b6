"""Texts and their vectors on disk, searched by vectors, BM25, or both: `Index.open(folder, encoder).search(…)`."""

from juzhen.index.index import Index, IndexHit
from juzhen.index.rows import Rows, read_rows
from juzhen.index.writing import Encoding, add, build, index_in_memory, remove

__all__ = ["Encoding", "Index", "IndexHit", "Rows", "add", "build", "index_in_memory", "read_rows", "remove"]
