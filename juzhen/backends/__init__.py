"""Ways to compute embeddings without gradients, chosen by name: torch, torch_bf16, onnx, onnx_int8."""

from juzhen.backends.backend import Backend, open_backend, require_packages

__all__ = ["Backend", "open_backend", "require_packages"]
