"""Leaks: evaluation rows that are in training data.

They are found in pairs and in running text without N² comparisons.
"""

from juzhen.data.leaks.matching import LeakFilter, Seen, SeenRows

__all__ = ["LeakFilter", "Seen", "SeenRows"]
