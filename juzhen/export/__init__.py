"""Encoders for other programs: folders in their formats, with a proof that they compute the same.

What is named here is loaded, and torch with it, when it is first asked for.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.export.backend_comparison import compare_backends
    from juzhen.export.folder import export_encoder
    from juzhen.export.loaders import open_export
    from juzhen.export.verification import ExportReport, prove

__all__ = ["ExportReport", "compare_backends", "export_encoder", "open_export", "prove"]

__getattr__ = lazily(
    __name__,
    {
        "ExportReport": "verification",
        "compare_backends": "backend_comparison",
        "export_encoder": "folder",
        "open_export": "loaders",
        "prove": "verification",
    },
)
