"""Evaluation rows that training has seen: found in pairs and in running text, without an N² comparison."""

from juzhen.data.leaks.filter import LeakFilter, Seen, SeenRows

__all__ = ["LeakFilter", "Seen", "SeenRows"]
