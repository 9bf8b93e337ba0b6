"""Formats of an export, their files and bounds. Importing this needs no torch."""

from enum import StrEnum

from juzhen.core.errors import require_packages

SETTINGS = "export.json"
"""What a program has to know beside the graph: kind, prompt, outputs."""
PARITY = "parity.json"

MOST_LOSS = 0.3
"""Points of Spearman's correlation (× 100) that 8 bits may cost on any set."""


class Format(StrEnum):
    """Export formats."""

    SENTENCE_TRANSFORMERS = "sentence-transformers"  # a folder that it, and juzhen, load
    ONNX = "onnx"  # model.onnx in float32
    ONNX_INT8 = "onnx-int8"  # model.onnx, products in 8 bits
    OPENVINO = "openvino"  # openvino_model.xml in float32
    OPENVINO_INT8 = "openvino-int8"  # openvino_model.xml, weights in 8 bits
    STATIC = "static"  # a table of tokens, as model2vec has it

    @property
    def is_quantised(self) -> bool:
        return self.endswith("int8")

    @property
    def graph(self) -> str | None:
        """Return the graph file, or None."""
        if self in (Format.ONNX, Format.ONNX_INT8):
            return "model.onnx"
        return "openvino_model.xml" if self in (Format.OPENVINO, Format.OPENVINO_INT8) else None

    @property
    def extra(self) -> str | None:
        """The extra of the package that it needs."""
        return None if self.graph is None else self.removesuffix("-int8")

    def require_packages(self) -> None:
        """Check that the packages for this format are installed.

        Raises:
            UserError: One is missing. The message has the command that installs it.
        """
        needed = ["onnx", "onnxscript", "onnxruntime"] if self.graph else []
        needed += ["openvino"] if self.extra == "openvino" else []
        needed += ["nncf"] if self is Format.OPENVINO_INT8 else []
        require_packages(f"format={self}", *needed, extra=self.extra or "")
