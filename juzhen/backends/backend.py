"""What a back end is, and how one is opened by its name."""

import sys
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import numpy as np
from jaxtyping import Float

from conf.job import BackendName, backend_name
from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.core.processor import lacks_bf16, slow_bf16_warning

if TYPE_CHECKING:  # the encoder itself opens back ends
    from juzhen.encoders.sentence_encoder import SentenceEncoder

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


class Backend(Protocol):
    """Turns tokens into embeddings, without gradients and without dropout.

    name  a BackendName; part of the key under which embeddings are kept
    """

    name: BackendName

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings in float32, in the order in which the sentences were collated."""


def open_backend(name: str, encoder: "SentenceEncoder") -> Backend:
    """The back end of that name for the weights that `encoder` has now.

    The torch ones read later changes of the weights, too; those of ONNX are a copy, which takes seconds to make.
    Raises UserError for an unknown name, a missing package and an encoder that cannot be exported.
    """
    name = backend_name(name, key="backend")
    require_packages(name)
    if name.needs_onnx:
        from juzhen.encoders.prompt_encoder import PromptEncoder

        if isinstance(encoder, PromptEncoder):
            raise UserError(
                f"backend {name}: an encoder with templates is not exported; use torch or torch_bf16"
            )
        from juzhen.backends.onnx_backend import OnnxBackend

        return OnnxBackend(encoder, name)
    from juzhen.backends.torch_backend import TorchBackend

    if name is BackendName.TORCH_BF16 and next(encoder.parameters()).device.type == "cpu" and lacks_bf16():
        _say_once(slow_bf16_warning("backend torch_bf16", "torch"))
    return TorchBackend(encoder, name)


@cache
def _say_once(warning: str) -> None:
    print(f"warning: {warning}", file=sys.stderr)


def require_packages(name: BackendName) -> None:
    """Raises UserError when a package that the back end needs is not installed."""
    missing = [package for package in ONNX_PACKAGES if name.needs_onnx and find_spec(package) is None]
    if missing:
        raise UserError(
            f"backend {name}: needs {', '.join(missing)}, which this environment lacks; "
            'type: pip install -e ".[onnx]" -c constraints.txt'
        )
