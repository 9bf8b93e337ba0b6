"""Names of the ways to compute embeddings where nothing is learnt. Importing this needs no torch."""

from enum import StrEnum

from juzhen.core.errors import require_choice

MOST_DIFFERENCE = 1e-5
"""In float32 a number of a unit embedding, or a score as a share of the largest one, may differ from torch by this."""


class BackendName(StrEnum):
    """What computes embeddings where nothing is learnt. The last three need an extra and run on the CPU."""

    TORCH = "torch"  # the encoder as it is trained, in the precision of the hardware
    TORCH_BF16 = "torch_bf16"  # its products in bfloat16
    ONNX = "onnx"  # ONNX Runtime, float32
    ONNX_INT8 = "onnx_int8"  # ONNX Runtime, weights and states of matrix products in 8 bits
    OPENVINO = "openvino"  # OpenVINO, float32

    @property
    def is_graph(self) -> bool:
        """It computes a copy of the encoder, written down as a graph."""
        return self not in (BackendName.TORCH, BackendName.TORCH_BF16)


def backend_name(name: str, *, key: str) -> BackendName:
    """The back end of that name. Raises UserError that says where it was given (`key`) and what is nearest."""
    require_choice(key, name, [*BackendName])
    return BackendName(name)
