"""Which data to train on for a target, answered by small trainings, with an interval for each statement."""
