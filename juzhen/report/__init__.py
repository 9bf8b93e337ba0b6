"""The report of a folder of runs: matrix, published numbers beside ours, leaks, costs and what follows. No torch."""
