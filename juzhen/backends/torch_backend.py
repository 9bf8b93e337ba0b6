"""Opens a backend by name, and the torch backends."""

import sys
from contextlib import nullcontext
from functools import cache, cached_property

import numpy as np
import torch
from jaxtyping import Float

from juzhen.backends.names import BackendName, backend_name
from juzhen.core import errors
from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.core.lazy_names import offered
from juzhen.core.machine import lacks_bf16, slow_bf16_warning
from juzhen.encoders.base_weights import merged
from juzhen.encoders.chunks import Backend
from juzhen.encoders.pooled_encoder import PooledEncoder


class TorchBackend:
    """Runs on the device of the weights. torch_bf16 rounds products to bfloat16. Pooling stays float32.

    Autocast instead of a bfloat16 copy of the weights: equally fast within 8 %, half the error (MiniLM on a CPU with
    avx512_bf16: largest difference of a unit embedding 0.0018 against 0.0028), and no second copy in memory.

    Args:
        encoder: The encoder.
        name: torch or torch_bf16.
    """

    def __init__(self, encoder: PooledEncoder, name: BackendName) -> None:
        self.name = name
        self._encoder = encoder

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Compute embeddings of packed sentences on the device of the weights.

        Args:
            tokens: Packed sentences.

        Returns:
            float32 array in the order in which the sentences were given.
        """
        rounded = self.name is BackendName.TORCH_BF16
        device = self._encoder.device.type
        with torch.autocast(device, dtype=torch.bfloat16) if rounded else nullcontext():
            return self._encoder.infer(tokens)


ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def open_backend(encoder: PooledEncoder, name: str) -> Backend:
    """Open a backend for the current weights of an encoder.

    Args:
        encoder: The encoder.
        name: torch, torch_bf16, onnx, onnx_int8 or openvino.

    Returns:
        The backend. The torch backends follow later changes of the weights. Graphs are copies, which take seconds to
        export.

    Raises:
        UserError: The name is unknown, a package is missing, or the encoder cannot be exported.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> open_backend(SentenceEncoder.load("builtin/mini_zh"), "torch").name.value
        'torch'
    """
    name = backend_name(name, key="backend")
    require_packages(name)
    if name.is_graph:
        if encoder.templates is not None:
            raise UserError(
                f"backend {name}: an encoder with templates is not exported. Use torch or torch_bf16"
            )
        encoder = merged(encoder)
        opened: Backend = offered("back_ends", name)(encoder, name)  # whose packages may be missing
        return opened
    if name is BackendName.TORCH_BF16 and encoder.device.type == "cpu" and lacks_bf16():
        _say_once(slow_bf16_warning("backend torch_bf16", "torch"))
    return TorchBackend(encoder, name)


class Deferred:
    """Backend that opens at the first call, since a cache may know all texts. Errors as in `open_backend`.

    Args:
        encoder: The encoder.
        name: Name of the backend.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> encoder = SentenceEncoder.load("builtin/mini_zh")
        >>> Deferred(encoder, "torch").encode(encoder.collate(encoder.tokenize(["今天天气很好"]))).shape
        (1, 256)
    """

    def __init__(self, encoder: PooledEncoder, name: str) -> None:
        self.name = backend_name(name, key="backend")
        self._encoder = encoder

    @cached_property
    def _opened(self) -> Backend:
        return open_backend(self._encoder, self.name)

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of packed sentences.

        Args:
            tokens: Packed sentences.

        Returns:
            float32 array (sentences, dim).
        """
        return self._opened.encode(tokens)


@cache
def _say_once(warning: str) -> None:
    print(f"warning: {warning}", file=sys.stderr)


def require_packages(name: BackendName) -> None:
    """Check that the packages of a backend are installed.

    Args:
        name: The backend.

    Raises:
        UserError: A package is missing.

    Example:
        >>> require_packages(BackendName.TORCH)  # needs none
    """
    if not name.is_graph:
        return
    is_openvino = name is BackendName.OPENVINO
    needed = (*ONNX_PACKAGES, "openvino") if is_openvino else ONNX_PACKAGES
    errors.require_packages(f"backend {name}", *needed, extra="openvino" if is_openvino else "onnx")
