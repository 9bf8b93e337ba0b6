"""Kinds of encoders: what each is to training, evaluation and verbs (`family`), by name (`registry`)."""
