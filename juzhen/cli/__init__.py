"""The verbs of the command line: functions that parse, call the library and print; they can be called from Python, too.

from juzhen.cli.runs import table
table("runs", split="both")

A new verb is a function of that name, whose parameters say what typer reads, and a line of `juzhen/cli/verbs.py`. Its
file is loaded for help and completion, so what takes time to load is imported inside the function.
"""
