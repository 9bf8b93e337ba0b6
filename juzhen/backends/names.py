"""Names of the backends. Needs no torch."""

from enum import StrEnum

from juzhen.core.errors import require_choice

MOST_DIFFERENCE = 1e-5
"""Largest float32 difference from torch of a dimension of a unit embedding, or of a score relative to the largest."""


class BackendName(StrEnum):
    """Backend of inference. The last three need an extra and run on the CPU."""

    TORCH = "torch"  # the encoder as it is trained, in the precision of the hardware
    TORCH_BF16 = "torch_bf16"  # its products in bfloat16
    ONNX = "onnx"  # ONNX Runtime, float32
    ONNX_INT8 = "onnx_int8"  # ONNX Runtime, weights and states of matrix products in 8 bits
    OPENVINO = "openvino"  # OpenVINO, float32

    @property
    def is_graph(self) -> bool:
        """True if it computes an exported copy of the encoder."""
        return self not in (BackendName.TORCH, BackendName.TORCH_BF16)


def backend_name(name: str, *, key: str) -> BackendName:
    """Backend with a name.

    Args:
        name: A value of `BackendName`.
        key: Name of the setting in an error message.

    Returns:
        The member of the enumeration.

    Raises:
        UserError: An unknown name. The message has the nearest one.
    """
    require_choice(key, name, [*BackendName])
    return BackendName(name)
