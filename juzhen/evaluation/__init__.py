"""From an encoder and sets to columns of numbers."""
