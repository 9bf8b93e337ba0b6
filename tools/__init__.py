"""What makes and measures the project: benchmarks, generators of the built-in data, tables of the documentation."""
