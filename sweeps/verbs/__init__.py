"""Verbs of `juzhen` that need the suite. Loading one takes no time: what it needs is loaded when it runs."""
