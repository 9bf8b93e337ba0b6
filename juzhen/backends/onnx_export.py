"""A sentence encoder written down as an ONNX graph, and the proof that the graph computes the same."""

import copy
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from juzhen.backends.padded import PaddedEncoder, scale_rows
from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.sentence_encoder import SentenceEncoder

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "embeddings"

MOST_DIFFERENCE = 1e-5
"""A graph in float32 may differ from torch by this much in any number of a unit embedding."""

LEAST_COSINE = 0.95
"""A graph with 8-bit weights must stay at least this near to torch on each sentence of the proof."""

PROOF = [
    "我",
    "今天天气很好",
    "怎么修改支付密码，原来的手机号已经不用了",
    "A dog.",
    "Two dogs run through the tall grass near a river while the sun goes down behind the hills.",
    "会议改到下周三下午三点，请各部门提前准备好本季度的报表，并在周二中午之前发给秘书处。",
    "The price of 1 kg of rice rose by 3.5 % in June; wheat, on the other hand, hardly changed at all. " * 3,
    "从前有一座山，山上有一座庙，庙里有一个老和尚在给小和尚讲故事。" * 6,
]
"""Sentences of several lengths on which graph and encoder are compared."""


def export_onnx(encoder: SentenceEncoder, path: Path, *, quantised: bool) -> Path:
    """Writes the whole encoder to `path` as a graph input_ids, attention_mask → embeddings; gives the path back.

    Both inputs are int64 (sentences, length), padded on the right, of any size. With `quantised` the weights of
    matrix products are 8-bit integers, one scale per column, and so are the states they are multiplied with.
    Raises UserError when the architecture cannot be exported, or when the graph computes something else.
    """
    # A copy: other attention, other linear layers. On the CPU, where the graph will run.
    wanted = copy.deepcopy(encoder).cpu().eval()
    tokens = wanted.collate(wanted.tokenize(PROOF))
    with torch.inference_mode():
        expected = wanted(tokens).numpy()
    if quantised:
        scale_rows(wanted)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "encoder.onnx" if quantised else path
        _export(PaddedEncoder(wanted).eval(), plain)
        _prove(plain, tokens, expected, pad=encoder.pad, model_type=encoder.backbone.config.model_type)
        if quantised:
            with _silence():
                quantize_dynamic(
                    plain,
                    path,
                    op_types_to_quantize=["MatMul"],
                    per_channel=True,
                    # Signed weights overflow on processors without VNNI, which add two products in 16 bits.
                    weight_type=QuantType.QUInt8,
                    # Products of two activations, as in attention, stay in float32.
                    extra_options={"MatMulConstBOnly": True},
                )
            _prove_quantised(path, tokens, expected, pad=encoder.pad)
    return path


def session(path: Path) -> onnxruntime.InferenceSession:
    """A graph, ready to run in the thread that calls; several threads may call at once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def padded_arrays(ids: np.ndarray, lengths: np.ndarray, *, pad: int) -> dict[str, np.ndarray]:
    """The graph's inputs for sentences of the given lengths that lie one after another in `ids`."""
    mask = np.arange(lengths.max()) < lengths[:, None]
    input_ids = np.full(mask.shape, pad, dtype=np.int64)
    input_ids[mask] = ids
    return dict(zip(INPUTS, (input_ids, mask.astype(np.int64)), strict=True))


def _export(module: PaddedEncoder, path: Path) -> None:
    # Sizes that are not 1 and not equal, or the exporter takes them for constants.
    example = torch.full((3, 4), 1, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with torch.no_grad(), _silence():
            program = torch.onnx.export(
                module,
                (example, mask),
                dynamo=True,
                dynamic_shapes=(sizes, sizes),
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                verbose=False,
            )
            program.save(path)
    except Exception as error:
        # The exporter raises whatever went wrong in the model's own code.
        reason = next(
            (line.strip() for line in str(error.__cause__ or error).splitlines() if line.strip()), ""
        )
        model_type = module.encoder.backbone.config.model_type
        raise UserError(
            f"{model_type}: this architecture cannot be exported to ONNX "
            f"({type(error.__cause__ or error).__name__}: {reason[:200]}); use the back end torch or torch_bf16"
        ) from error


def _prove(path: Path, tokens: Tokens, expected: np.ndarray, *, pad: int, model_type: str) -> None:
    computed = _computed(path, tokens, pad=pad)
    difference = float(np.abs(_unit(computed) - _unit(expected)).max())
    if not difference <= MOST_DIFFERENCE:
        raise UserError(
            f"{model_type}: exported to ONNX it computes something else (unit embeddings differ by up to "
            f"{difference:.1e}, at most {MOST_DIFFERENCE:.0e} is rounding); use the back end torch or torch_bf16"
        )


def _prove_quantised(path: Path, tokens: Tokens, expected: np.ndarray, *, pad: int) -> None:
    cosines = (_unit(_computed(path, tokens, pad=pad)) * _unit(expected)).sum(1)
    if not cosines.min() >= LEAST_COSINE:
        raise UserError(
            f"onnx_int8: these weights do not bear 8 bits (a sentence's embedding has cosine {cosines.min():.3f} "
            f"with that of float32, expected at least {LEAST_COSINE}); use the back end onnx or torch_bf16"
        )


def _computed(path: Path, tokens: Tokens, *, pad: int) -> np.ndarray:
    """Embeddings of the graph, in the order of collation: the shortest alone, the others together."""
    graph, ids, lengths = session(path), tokens.input_ids.numpy(), tokens.lengths.numpy()
    alone = lengths[0]
    parts = [(ids[:alone], lengths[:1]), (ids[alone:], lengths[1:])]
    outputs = [graph.run(None, padded_arrays(*part, pad=pad))[0] for part in parts]
    return np.concatenate(outputs)[tokens.restored.numpy()]


def _unit(embeddings: np.ndarray) -> np.ndarray:
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps the exporter's remarks on itself off the screen; what matters here is checked afterwards."""
    names = ("torch.onnx", "torch.onnx._internal.exporter._registration", "onnxscript", "onnx_ir", "")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
