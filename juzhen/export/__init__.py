"""Encoders for other programs: folders in their formats, verified to compute the same.

Names are imported on first use, and torch with them.
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
