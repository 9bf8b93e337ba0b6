"""What computes embeddings when nothing is learnt: torch, or ONNX Runtime."""

from juzhen.backends.opening import Deferred, open_backend, require_packages

__all__ = ["Deferred", "open_backend", "require_packages"]
