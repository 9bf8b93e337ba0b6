"""OpenVINO on the CPU as a back end: the graph of ONNX, converted."""

import tempfile
from collections.abc import Sequence
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


def convert(plain: Path, path: Path, *, inputs: Sequence[dict[str, np.ndarray]] | None) -> None:
    """Writes the ONNX graph at `plain` as OpenVINO's, with its weights in a .bin beside it.

    inputs  by which the ranges of 8-bit products are chosen; None: all stays in float32
    """
    model = openvino.convert_model(plain)
    if inputs is not None:
        import logging

        import nncf  # a package of its own

        nncf.set_log_level(logging.ERROR)
        model = nncf.quantize(
            model,
            nncf.Dataset(list(inputs)),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(inputs),
        )
    openvino.save_model(model, path, compress_to_fp16=False)
