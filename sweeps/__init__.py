"""Reading the results of many runs: collect → matrix → table, published numbers beside ours. No torch."""
