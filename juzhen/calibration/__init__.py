"""Probabilities from scores, comparison of runs, and scores of new pairs. Nothing is trained."""
