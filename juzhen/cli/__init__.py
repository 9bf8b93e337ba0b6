"""The verbs of the console script, one file each."""
