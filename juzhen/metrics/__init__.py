"""Numbers from a model's scores: correlations, threshold metrics, and the lexical baseline. Plain numpy."""
