"""Encoders for other programs: folders in their formats, with a proof that they compute the same.

What is named here is loaded, and torch with it, when it is first asked for.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.export.folder import export_encoder
    from juzhen.export.opened import open_export
    from juzhen.export.parity import compare_ways
    from juzhen.export.proof import Proof, prove

__all__ = ["Proof", "compare_ways", "export_encoder", "open_export", "prove"]

__getattr__ = lazily(
    __name__,
    {
        "Proof": "proof",
        "compare_ways": "parity",
        "export_encoder": "folder",
        "open_export": "opened",
        "prove": "proof",
    },
)
