"""The verbs of the command line, one file each: `parser()` reads the words, `run(…)` does the work, also from Python.

from juzhen.cli import table
table.run("runs", split="both")
"""
