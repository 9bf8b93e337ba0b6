"""OpenVINO backend on the CPU: the converted ONNX graph."""

import io
import logging
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import torch

from juzhen.backends.names import BackendName
from juzhen.backends.onnx_backend import OnnxBackend, export_onnx
from juzhen.encoders.pooled_encoder import PooledEncoder


class OpenVinoBackend(OnnxBackend):
    """Runs a copy of the encoder on the CPU. Calls are sequential, and each uses all threads."""

    def __init__(self, encoder: PooledEncoder, name: BackendName) -> None:
        self.name = name
        self._pad, self._dim, self._unpooled = encoder.pad, encoder.dim, encoder.unpooled
        with tempfile.TemporaryDirectory() as folder:
            plain = export_onnx(encoder, Path(folder) / "encoder.onnx", quantised=False)
            self._graph = compiled(plain, threads=torch.get_num_threads())
        self._calls_at_once = 1

    def _computed(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        return self._graph(arrays)["embeddings"]


def compiled(path: Path, *, threads: int) -> Any:
    """Compile an ONNX or OpenVINO graph for float32."""
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",  # else a processor with bf16 rounds to it
    }
    return openvino.Core().compile_model(path, "CPU", options)


def convert(plain: Path, path: Path, *, quantised: bool) -> None:
    """Convert the ONNX graph at `plain` to OpenVINO, with weights in a .bin file.

    Args:
        plain: ONNX graph.
        path: Target file.
        quantised: Store weights of matrix products in 8 bits, one scale per row. OpenVINO quantizes the other factor if
            the processor supports it. Fixed ranges of states cost more: 1.4 points of csts, 3 of lcqmc
            (multilingual-e5-small, 300 rows, nncf.quantize).
    """
    model = openvino.convert_model(plain)
    if quantised:
        import nncf  # a package of its own

        nncf.set_log_level(logging.ERROR)
        with redirect_stdout(io.StringIO()):  # its bars
            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    openvino.save_model(model, path, compress_to_fp16=False)
