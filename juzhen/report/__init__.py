"""The report of a folder of runs: matrix, published numbers, leaks, costs and findings. Needs no torch."""
