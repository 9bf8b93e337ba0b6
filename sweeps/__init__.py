"""Read the results of many runs: collect → matrix → table, with published figures. No torch."""
