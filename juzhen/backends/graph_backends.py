"""ONNX Runtime and OpenVINO on the CPU: the encoder as a graph of padded tensors, verified to compute the same."""

import copy
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from juzhen.backends.names import MOST_DIFFERENCE, BackendName
from juzhen.core.batch import Tokens
from juzhen.core.columns import require_finite
from juzhen.core.errors import UserError
from juzhen.encoders.backbone import without_cache
from juzhen.encoders.batch_invariance import embedding_alone
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import POOLINGS, sides, unit
from juzhen.encoders.projection import similarity


class PaddedSentences:
    """`Sentences` of `juzhen.encoders.pooling` for token states padded on either side.

    Args:
        mask: 1 on tokens, 0 on padding.
        unpooled: Tokens at the start of each sentence that are not pooled. The last token always is.
    """

    def __init__(self, mask: Float[Tensor, "sentences length 1"], unpooled: int) -> None:
        length = mask.sum(1)
        self.skipped = (length - 1).clamp(min=0, max=unpooled)
        self.count = length - self.skipped
        self.places = mask.cumsum(1)
        self.mask = mask * (self.places > self.skipped.unsqueeze(1)) if unpooled else mask

    def sum(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        """Sum of the pooled states of each sentence.

        Args:
            states: Padded token states.

        Returns:
            One row per sentence, in the precision of `states`.
        """
        return (states * self.mask).sum(1)

    def max(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        """Largest pooled value of each dimension.

        Args:
            states: Padded token states.

        Returns:
            One row per sentence.
        """
        return states.masked_fill(self.mask == 0, torch.finfo(torch.float32).min).amax(1)

    def first(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        """State of the first pooled token.

        Args:
            states: Padded token states.

        Returns:
            One row per sentence.
        """
        return (states * (self.mask.cumsum(1) == 1) * self.mask).sum(1)

    def last(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        """State of the last token.

        Args:
            states: Padded token states.

        Returns:
            One row per sentence.
        """
        # By the tokens behind it, of which there are none: right on either side of the padding.
        behind = self.mask.sum(1, keepdim=True) - self.mask.cumsum(1)
        return (states * (behind == 0) * self.mask).sum(1)


class PaddedEncoder(nn.Module):
    """Padded token ids and their mask (1 = token, padding on the right) → embeddings.

    With a learnt form uᵀWv, also Wᵀû of each sentence, û its normalized embedding. The score of a pair is the product
    of Wᵀû of its first sentence with the normalized embedding of its second.

    Args:
        encoder: A copy, because its attention is replaced by an exportable one.
    """

    def __init__(self, encoder: PooledEncoder) -> None:
        super().__init__()
        encoder.backbone.set_attn_implementation("eager")
        self.encoder = encoder

    def forward(
        self,
        input_ids: Int[Tensor, "sentences length"],
        attention_mask: Int[Tensor, "sentences length"],
        token_type_ids: Int[Tensor, "sentences length"] | None = None,
    ) -> Float[Tensor, "sentences dim"] | tuple[Tensor, Tensor]:
        """Compute the embeddings of a batch.

        Args:
            input_ids: Token ids, padded on the right.
            attention_mask: 1 = token, 0 = padding.
            token_type_ids: Segment of each token. None: 0 for all, if the encoder reads segments.

        Returns:
            Embeddings, or with a learnt form the pair (embeddings, Wᵀû), both (sentences, dim).
        """
        encoder, mask = self.encoder, attention_mask.unsqueeze(-1).float()
        sentences = PaddedSentences(mask, encoder.unpooled)
        layers = self._layers(input_ids, attention_mask, token_type_ids)
        for layer in encoder.output_layers[: encoder.token_layers]:
            layers = tuple(layer(states) for states in layers)
        embeddings = POOLINGS[encoder.pooling].pool(layers, sentences)
        for projection in encoder.output_layers[encoder.token_layers :]:
            embeddings = projection(embeddings)
        embeddings = F.normalize(embeddings, dim=-1) if encoder.normalize else embeddings
        if encoder.score_head is None:
            return embeddings
        return embeddings, F.normalize(embeddings, dim=-1) @ encoder.score_head.form

    def _layers(self, input_ids: Tensor, attention_mask: Tensor, types: Tensor | None) -> tuple[Tensor, ...]:
        encoder = self.encoder
        needs_layers = POOLINGS[encoder.pooling].reads_first_layer
        if types is None and encoder.gives_segments:
            types = torch.zeros_like(input_ids)
        segments = {} if types is None else {"token_type_ids": types}
        output = encoder.backbone(
            input_ids=input_ids,
            attention_mask=attention_mask,
            output_hidden_states=needs_layers,
            **segments,
            **without_cache(encoder.backbone),
        )
        layers: tuple[Tensor, ...] = (output.last_hidden_state,)
        if needs_layers and len(output.hidden_states) > 2:
            layers = (output.hidden_states[1], *layers)
        return layers


class PaddedCrossEncoder(nn.Module):
    """Padded joint inputs of pairs → one score each, higher = closer, and logits.

    Args:
        encoder: A copy, as for `PaddedEncoder`.
    """

    def __init__(self, encoder: CrossEncoder) -> None:
        super().__init__()
        self.inner = PaddedEncoder(encoder.inner)
        self.head = encoder.head
        self.grades = encoder.grades

    def forward(
        self,
        input_ids: Int[Tensor, "pairs length"],
        attention_mask: Int[Tensor, "pairs length"],
        token_type_ids: Int[Tensor, "pairs length"] | None = None,
    ) -> tuple[Float[Tensor, "pairs"], Float[Tensor, "pairs outputs"]]:
        """Score the pairs of a batch.

        Args:
            input_ids: Token ids of the joint inputs, padded on the right.
            attention_mask: 1 = token, 0 = padding.
            token_type_ids: Segment of each token. None: 0 for all, if the encoder reads segments.

        Returns:
            Scores (pairs,), and logits (pairs, outputs).
        """
        logits = self.head(self.inner(input_ids, attention_mask, token_type_ids))
        return similarity(logits, self.grades), logits


class RowScaledLinear(nn.Module):
    """W x + b, computed as s · W (x / s) + b with s = max |x| of each token.

    The input of the product is between −1 and 1 for every token of every text, so 8 bits need no range per call.
    One large state does not make the steps of others coarse, and an embedding does not depend on the other texts
    of a call.

    Args:
        linear: Its weights and bias are taken.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias

    def forward(self, states: Float[Tensor, "*sentences inner"]) -> Float[Tensor, "*sentences outer"]:
        """Apply the layer to each token.

        Args:
            states: Token states. The last axis has the input size of the layer.

        Returns:
            States with the output size of the layer as last axis.
        """
        scale = states.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        # Written as a plain product: the quantiser turns a Gemm round and then trips over its old shape.
        products = (states / scale) @ self.weight.T * scale
        return products if self.bias is None else products + self.bias


def _scale_rows(module: nn.Module) -> None:
    """Replaces every nn.Linear inside `module` by a RowScaledLinear of the same weights."""
    for name, inner in list(module.named_children()):
        if isinstance(inner, nn.Linear):
            setattr(module, name, RowScaledLinear(inner))
        else:
            _scale_rows(inner)


CALL_TOKENS = 512
"""Tokens per call of the graph, whose states then stay in a core's cache: 2048 were 18 to 25 % slower."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs of the graph. The last one exists only for a cross-encoder with segments."""
OUTPUTS = ("embeddings", "firsts")
PAIR_OUTPUTS = ("scores", "logits")

LEAST_COSINE = 0.95
"""A graph with 8-bit weights must stay at least this near to torch on each sentence of the proof."""

STEPS, MIDDLE = 127, 128
"""8-bit steps from 0 to either end of the range −1 to 1, and the code of 0."""

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


class OnnxBackend:
    """Runs a copy of the encoder on the CPU, whatever the device of the encoder.

    Each thread runs whole calls. Threads that share a call wait for each other at every layer, which costs little on an
    idle machine and a factor of four next to other work (measured).

    Args:
        encoder: The encoder. It is copied.
        name: onnx or onnx_int8.

    Raises:
        UserError: The exported graph computes other numbers than the encoder.
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
            self._session = _session(path)
        self._calls_at_once = torch.get_num_threads()

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Compute embeddings of packed sentences on the CPU.

        Args:
            tokens: Packed sentences with the unpooled prompt for which the backend was opened.

        Returns:
            float32 array in the order in which the sentences were given.

        Raises:
            UserError: The tokens have another unpooled prompt.
        """
        if not isinstance(tokens.unpooled, int) or tokens.unpooled != self._unpooled:
            raise UserError(
                f"backend {self.name}: was opened for another unpooled prompt of {self._unpooled} tokens. "
                f'Open it for this one: open_backend(encoder.with_prompt(…), "{self.name}")'
            )
        embeddings = np.empty((len(tokens), self._dim), dtype=np.float32)

        def run(call: tuple[slice, dict[str, np.ndarray]]) -> None:
            rows, arrays = call
            embeddings[rows] = self._computed(arrays)

        with ThreadPoolExecutor(self._calls_at_once) as threads:
            list(threads.map(run, self._calls(tokens)))
        return embeddings[tokens.inverse_permutation.cpu().numpy()]

    def _computed(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        return self._session.run(OUTPUTS[:1], arrays)[0]

    def _calls(self, tokens: Tokens) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
        """Packed sentences in runs of like length, the longest first, each with the arrays of its call."""
        ids, lengths = tokens.input_ids.cpu().numpy(), tokens.lengths.cpu().numpy()
        ends = np.cumsum(lengths)
        stop = len(lengths)
        while stop:
            start = max(stop - max(CALL_TOKENS // lengths[stop - 1], 1), 0)
            first = ends[start] - lengths[start]
            arrays = _padded_arrays(ids[first : ends[stop - 1]], lengths[start:stop], pad=self._pad)
            yield slice(start, stop), arrays
            stop = start


def export_onnx(encoder: PooledEncoder | CrossEncoder, path: Path, *, quantised: bool) -> Path:
    """Export the whole encoder as a graph input_ids, attention_mask → embeddings, and return the path.

    With a learnt score head the graph has a second output, `firsts` (juzhen.backends.graph_backends.PaddedEncoder). The
    graph of a cross-encoder reads joint inputs, with token_type_ids if it has segments, and returns scores and
    logits. All inputs are int64 (sentences, length), padded on the right, of any size.

    Args:
        encoder: The encoder.
        path: Target file.
        quantised: Store weights of matrix products as 8-bit integers, one scale per column, and quantize states
            with one scale per token, so that the embedding of a text does not depend on the other texts of a call.

    Returns:
        `path`.

    Raises:
        UserError: The architecture cannot be exported, or the graph computes other numbers.
    """
    # A copy: other attention, other linear layers. On the CPU, where the graph will run.
    copied = copy.deepcopy(encoder).cpu().eval()
    tokens, expected = _pairs(copied) if isinstance(copied, CrossEncoder) else _texts(copied)
    require_finite(expected[0], PROOF)
    if quantised:
        _scale_rows(copied)
    scores_pairs = isinstance(copied, CrossEncoder)
    module = PaddedCrossEncoder(copied) if isinstance(copied, CrossEncoder) else PaddedEncoder(copied)
    outputs = (PAIR_OUTPUTS if scores_pairs else OUTPUTS)[: len(expected)]
    model_type, pad = encoder.inner.backbone.config.model_type, encoder.inner.pad
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "encoder.onnx" if quantised else path
        _export(module.eval(), plain, outputs, inputs=3 if tokens.segments is not None else 2)
        computed = _computed(plain, tokens, pad=pad)
        difference = max(_apart(*pair, scores_pairs) for pair in zip(computed, expected, strict=True))
        if not difference <= MOST_DIFFERENCE:
            raise UserError(
                f"{model_type}: exported to ONNX it computes other numbers (unit embeddings, or scores, differ by up "
                f"to {difference:.1e}, at most {MOST_DIFFERENCE:.0e} is rounding). Use backend torch or torch_bf16"
            )
        if quantised:
            _quantise(plain, path)
            pairs = zip(_computed(path, tokens, pad=pad), expected, strict=True)
            # Few scores have no direction: a cross-encoder in 8 bits is measured on a set.
            least = min((unit(first) * unit(other)).sum(1).min() for first, other in pairs)
            if not scores_pairs and not least >= LEAST_COSINE:
                raise UserError(
                    "onnx_int8: these weights lose too much in 8 bits (a sentence's embedding has cosine "
                    f"{least:.3f} with that of float32, expected at least {LEAST_COSINE}). "
                    "Use the back end onnx or torch_bf16"
                )
    return path


def _texts(encoder: PooledEncoder) -> tuple[Tokens, list[np.ndarray]]:
    """Sentences of the check, and their outputs without a graph."""
    # Transformers' own states, one text at a time: two paths of ours might be wrong alike.
    alone = torch.stack([embedding_alone(encoder, text) for text in PROOF]).numpy()
    expected = [alone] if encoder.score_head is None else [alone, sides(alone, encoder.score_head)[0]]
    return encoder.collate(encoder.tokenize(PROOF)), expected


@torch.no_grad()
def _pairs(encoder: CrossEncoder) -> tuple[Tokens, list[np.ndarray]]:
    """Pairs of them, and their scores and logits."""
    tokens = encoder.join(encoder.inner.tokenize(PROOF), encoder.inner.tokenize(PROOF[::-1]))
    logits = encoder(tokens)
    return tokens, [similarity(logits, encoder.grades).numpy()[:, None], logits.numpy()]


def _apart(first: np.ndarray, other: np.ndarray, are_scores: bool) -> float:
    """Largest difference of unit embeddings, or of scores relative to the largest score above 1."""
    if not are_scores:
        return float(np.abs(unit(first) - unit(other)).max())
    return float(np.abs(first.reshape(other.shape) - other).max() / max(1.0, np.abs(other).max()))


def _session(path: Path) -> onnxruntime.InferenceSession:
    """Session of a graph that runs in the calling thread. Several threads may call at once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _padded_arrays(
    ids: np.ndarray, lengths: np.ndarray, *, pad: int, segments: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Inputs of the graph for sentences of given lengths, concatenated in `ids`."""
    mask = np.arange(lengths.max()) < lengths[:, None]
    arrays = [np.full(mask.shape, pad, dtype=np.int64), mask.astype(np.int64)]
    arrays[0][mask] = ids
    if segments is not None:
        arrays.append(np.zeros(mask.shape, dtype=np.int64))
        arrays[2][mask] = segments
    return dict(zip(INPUTS, arrays, strict=False))


def _export(
    module: PaddedEncoder | PaddedCrossEncoder, path: Path, outputs: tuple[str, ...], *, inputs: int
) -> None:
    # Sizes that are not 1 and not equal, or the exporter takes them for constants.
    example = torch.full((3, 4), 1, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with torch.no_grad(), _silence():
            program = torch.onnx.export(
                module,
                (example, mask, torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 0]]))[:inputs],
                dynamo=True,
                dynamic_shapes=(sizes,) * inputs,
                input_names=list(INPUTS[:inputs]),
                output_names=list(outputs),
                verbose=False,
            )
    except Exception as error:
        # The exporter raises whatever went wrong in the model's own code.
        reason = next(
            (line.strip() for line in str(error.__cause__ or error).splitlines() if line.strip()), ""
        )
        encoder = module.encoder if isinstance(module, PaddedEncoder) else module.inner.encoder
        raise UserError(
            f"{encoder.backbone.config.model_type}: this architecture cannot be exported to ONNX "
            f"({type(error.__cause__ or error).__name__}: {reason[:200]}). Use the back end torch or torch_bf16"
        ) from error
    with _silence():
        cast(torch.onnx.ONNXProgram, program).save(path)


def _quantise(plain: Path, path: Path) -> None:
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
    model = onnx.load(path)
    _fix_ranges(model.graph)
    onnx.save(model, path)


def _fix_ranges(graph: onnx.GraphProto) -> None:
    """States that are multiplied in 8 bits have the range of `RowScaledLinear`, −1 to 1, and not that of a call."""
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            node.op_type = "QuantizeLinear"
            _, scale, zero = node.output
            del node.output[1:]
            node.input.extend([scale, zero])
            graph.initializer.append(
                onnx.numpy_helper.from_array(np.array(1 / STEPS, dtype=np.float32), scale)
            )
            graph.initializer.append(onnx.numpy_helper.from_array(np.array(MIDDLE, dtype=np.uint8), zero))


def _computed(path: Path, tokens: Tokens, *, pad: int) -> list[np.ndarray]:
    """Outputs of the graph in the order of collation. The shortest sentence runs alone, the others together."""
    graph, ids, lengths = _session(path), tokens.input_ids.numpy(), tokens.lengths.numpy()
    alone, order = lengths[0], tokens.inverse_permutation.numpy()
    types = None if tokens.segments is None else tokens.segments.numpy()
    results = []
    for cut, part in ((slice(0, alone), lengths[:1]), (slice(alone, None), lengths[1:])):
        segments = None if types is None else types[cut]
        results.append(graph.run(None, _padded_arrays(ids[cut], part, pad=pad, segments=segments)))
    return [np.concatenate(values)[order] for values in zip(*results, strict=True)]


@contextmanager
def _silence() -> Iterator[None]:
    """Hide messages of the exporter. The result is checked afterwards."""
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


class OpenVinoBackend(OnnxBackend):
    """Runs a copy of the encoder on the CPU. Calls are sequential, and each uses all threads.

    Args:
        encoder: The encoder. It is copied.
        name: openvino.

    Raises:
        UserError: As of `OnnxBackend`.
    """

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
    """Compile an ONNX or OpenVINO graph for float32.

    Args:
        path: File of the graph (.onnx or .xml).
        threads: CPU threads of a call.

    Returns:
        A compiled model of OpenVINO for the CPU.
    """
    import openvino  # a package of its own

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
    import openvino

    model = openvino.convert_model(plain)
    if quantised:
        import nncf  # a package of its own

        nncf.set_log_level(logging.ERROR)
        with redirect_stdout(io.StringIO()):  # its bars
            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    openvino.save_model(model, path, compress_to_fp16=False)
