"""The ground that every other room stands on: kinds of examples, results, errors, places. It imports none of them.

Only `juzhen.core.batch` and `juzhen.core.batch` need torch.
"""
