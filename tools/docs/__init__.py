"""The parts of the documentation site that are written by programs: reference, results, equations."""
