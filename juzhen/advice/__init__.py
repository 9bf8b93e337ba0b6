"""Advice on training data for a target, by small trainings, with an interval for each statement."""
