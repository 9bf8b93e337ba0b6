"""The verbs of the command line, one file each: `parser()` reads the words, `run(…)` does the work, also from Python.

from juzhen.cli import table
table.run("runs", split="both")

A new verb is such a file and a line of `juzhen/cli/verbs.py`. Its parser is loaded for help and completion, so what
takes time to load is imported in `run`. With `OWN_CACHES` a verb says itself where libraries keep their caches.
"""
