"""Speed and memory beside sentence-transformers: the same work on both sides, in turn; run with `make bench`."""
