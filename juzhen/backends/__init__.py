"""Ways to compute embeddings without gradients, chosen by name: torch, torch_bf16, onnx, onnx_int8.

What is named here is loaded, and torch with it, when it is first asked for: who checks a name needs neither.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from juzhen.backends.backend import Backend, open_backend, require_packages

__all__ = ["Backend", "open_backend", "require_packages"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from juzhen.backends import backend

    return getattr(backend, name)
