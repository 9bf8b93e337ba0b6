"""Evaluation rows that training has seen: found in pairs and in running text, without an N² comparison."""

from datamodules.leaks.filter import LeakFilter, leaky_rows

__all__ = ["LeakFilter", "leaky_rows"]
