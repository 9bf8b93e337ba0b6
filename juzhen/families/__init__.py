"""Families of encoders: interface to training, evaluation and subcommands (`family`), names (`registry`)."""
