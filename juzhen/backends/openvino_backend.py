"""OpenVINO on the CPU as a back end: the graph of ONNX, converted."""

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
    """Runs a copy of the encoder on the CPU; calls come one after another, each on all threads."""

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
    """A graph of ONNX or OpenVINO, ready to run in float32."""
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",  # else a processor with bf16 rounds to it
    }
    return openvino.Core().compile_model(path, "CPU", options)


def convert(plain: Path, path: Path, *, quantised: bool) -> None:
    """Writes the ONNX graph at `plain` as OpenVINO's, with its weights in a .bin beside it.

    quantised  weights of matrix products in 8 bits, one scale per row; what they are multiplied with OpenVINO puts
               into 8 bits by itself where the processor has such products. Ranges of states that are fixed beforehand
               cost more: 1.4 points of csts, 3 of lcqmc (multilingual-e5-small, 300 rows, nncf.quantize)
    """
    model = openvino.convert_model(plain)
    if quantised:
        import nncf  # a package of its own

        nncf.set_log_level(logging.ERROR)
        with redirect_stdout(io.StringIO()):  # its bars
            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    openvino.save_model(model, path, compress_to_fp16=False)
