"""The three nouns that travel (Example → Batch → Result), the configuration and the contract between them.

Every other package may import this one; it imports none of them. Only `schema.batch` needs torch, and it is
therefore not re-exported here: the command line must answer before torch is loaded.
"""

from schema.examples import NLI_GRADES, TEXT_COLUMNS, Examples, Kind

__all__ = ["NLI_GRADES", "TEXT_COLUMNS", "Examples", "Kind"]
