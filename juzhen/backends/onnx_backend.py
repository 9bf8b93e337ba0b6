"""ONNX Runtime on the CPU as a back end: the encoder as a graph, in float32 or with 8-bit weights."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from juzhen.backends.names import BackendName
from juzhen.backends.onnx_export import export_onnx, padded_arrays, session
from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.pooled_encoder import PooledEncoder

CALL_TOKENS = 512
"""Tokens per call of the graph, whose states then stay in a core's cache: 2048 were 18 to 25 % slower."""


class OnnxBackend:
    """Runs a copy of the encoder on the CPU, wherever the encoder itself is.

    Each thread runs whole calls on its own. Threads that share one call wait for each other at every layer: alone
    on a machine that costs a little, beside other work a lot (four times, measured).
    """

    def __init__(self, encoder: PooledEncoder, name: BackendName) -> None:
        self.name = name
        self._pad = encoder.pad
        self._dim = encoder.dim
        self._unpooled = encoder.unpooled
        with tempfile.TemporaryDirectory() as folder:
            path = export_onnx(
                encoder, Path(folder) / "encoder.onnx", quantised=name is BackendName.ONNX_INT8
            )
            self._session = session(path)

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        if not isinstance(tokens.unpooled, int):
            raise UserError(
                f"backend {self.name}: queries and documents have prompts of different lengths here, which are not "
                "pooled; type evaluation.backend=torch, or make batches of the one and of the other"
            )
        if tokens.unpooled != self._unpooled:
            raise UserError(
                f"backend {self.name}: was opened for a prompt of {self._unpooled} tokens that are not pooled, not of "
                f'{tokens.unpooled}; open it for the other one: open_backend(encoder.with_prompt(…), "{self.name}")'
            )
        embeddings = np.empty((len(tokens), self._dim), dtype=np.float32)

        def run(call: tuple[slice, dict[str, np.ndarray]]) -> None:
            rows, arrays = call
            embeddings[rows] = self._session.run(None, arrays)[0]

        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(run, self._calls(tokens)))
        return embeddings[tokens.inverse_permutation.cpu().numpy()]

    def _calls(self, tokens: Tokens) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
        """Packed sentences in runs of like length, the longest first, each with the arrays of its call."""
        ids, lengths = tokens.input_ids.cpu().numpy(), tokens.lengths.cpu().numpy()
        ends = np.cumsum(lengths)
        stop = len(lengths)
        while stop:
            start = max(stop - max(CALL_TOKENS // lengths[stop - 1], 1), 0)
            first = ends[start] - lengths[start]
            arrays = padded_arrays(ids[first : ends[stop - 1]], lengths[start:stop], pad=self._pad)
            yield slice(start, stop), arrays
            stop = start
