"""Backends that compute embeddings without gradients: torch, torch_bf16, onnx, onnx_int8, openvino.

Names are loaded on first use, and torch with them, so that checking a name needs neither.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.backends.torch_backend import Deferred, open_backend, require_packages

__all__ = ["Deferred", "open_backend", "require_packages"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "torch_backend"))
