"""Subcommands of `juzhen`: functions that parse, call the library and print. They can be called from Python, too.

from juzhen.cli.runs import table
table("runs", split="both")

A new verb is a function of that name, whose parameters typer reads, and a line of `juzhen/cli/verbs.py`. Help and
completion load its file, so slow imports belong inside the function.
"""
