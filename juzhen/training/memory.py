"""Estimate the memory of a training step before it runs.

The encoder is built from config.json with few layers, of tensors with sizes but no numbers (device meta).
Every allocation is counted, and so includes packing, dropout, micro-batches, checkpointing, half precision
and adapters. The cost of a layer is the difference of two depths. Memory that libraries allocate for
themselves is not counted.
"""

import copy
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PretrainedConfig

from juzhen.core.batch import Tokens, mapped
from juzhen.core.lazy_names import offered
from juzhen.encoders import forward
from juzhen.encoders.backbone import checkpoint_layers, from_scratch, quiet
from juzhen.encoders.backbone_config import AdapterConfig
from juzhen.encoders.base_weights import parameter_bytes
from juzhen.encoders.forward import pack
from juzhen.encoders.masking import MaskedTokenHead
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.losses.regularizers import flops
from juzhen.training.optimizer import layer_of

DEPTHS = 2, 3
"""Layers of the two encoders that are looked at; an encoder with fewer is looked at as it is."""

SEEN_MICRO_BATCHES = 2
"""Of a batch in pieces the largest ones are looked at; of further ones, nothing but their embeddings stays."""

SLACK = 0.65
"""Of the activations of a step without adapter and checkpointing: what glibc's allocator holds besides on a processor,
because it cannot reuse all that is let go. Measured: 0.60 to 0.75 after some steps of four encoders
(docs/log/memory.md)."""


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a training step, on top of the process.

    Args:
        weights: All weights.
        gradients: Gradients of trained weights.
        optimizer: Optimizer states.
        activations: Largest sum of saved activations and temporary tensors.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def peak(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations

    def words(self) -> str:
        """Describe the peak and its parts.

        Returns:
            Text in GiB.
        """
        parts = ("weights", "gradients", "optimizer", "activations")
        listed = ", ".join(f"{name} {getattr(self, name) / 2**30:.2f}" for name in parts)
        return f"{self.peak / 2**30:.2f} GiB ({listed})"


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """Settings that decide the memory of a step, besides architecture and text lengths.

    Args:
        pooling: Name of the pooling.
        adapter: Adapter to train. None: all weights are trained.
        micro_batch_tokens, checkpointing, precision: As in `HardwareConfig`.
        optimizer_bytes: Bytes of optimizer states per trained number.
        on_cuda: Attention keeps no weights there.
        sparse: Include the head and vocabulary-sized vectors of the sparse family.
        sharing: Number of processes that shard weights, gradients and states (hardware.strategy=fsdp). 1: no sharding.
    """

    pooling: str = "mean"
    adapter: AdapterConfig | None = None
    micro_batch_tokens: int | None = None
    checkpointing: bool = False
    precision: str = "32-true"
    optimizer_bytes: float = 8
    on_cuda: bool = False
    sparse: str | None = None
    sharing: int = 1


def step_memory(architecture: PretrainedConfig, lengths: Sequence[int], plan: StepPlan) -> StepMemory:
    """Return the bytes of a step on texts of these lengths in tokens.

    Args:
        architecture: As `config.json` of an encoder has it. No weights are loaded.
        lengths: Number of tokens of each text of a batch, special tokens included.
        plan: Settings of the step.

    Returns:
        Bytes of a forward and backward pass with the optimizer's states, on one device.
    """
    taken = _without_slack(architecture, lengths, plan)
    if plan.on_cuda:
        return taken
    # What the allocator holds follows what comes and goes, not what is kept: it is that of the plain step.
    # Logits over a vocabulary are too large for it: these are given back at once.
    plain = replace(plan, adapter=None, checkpointing=False, sparse=None)
    held = SLACK * (taken if plan == plain else _without_slack(architecture, lengths, plain)).activations
    return replace(taken, activations=taken.activations + held)


def _without_slack(architecture: PretrainedConfig, lengths: Sequence[int], plan: StepPlan) -> StepMemory:
    count = int(getattr(architecture, "num_hidden_layers", None) or 0)
    depths = [min(depth, count) for depth in DEPTHS]
    if depths[0] == depths[1] or getattr(architecture, "num_hidden_groups", None):
        return _looked_at(architecture, lengths, plan)
    low, high = (_looked_at(with_depth(architecture, depth), lengths, plan) for depth in depths)
    further = (count - depths[1]) / (depths[1] - depths[0])
    full = {name: value + further * (value - vars(low)[name]) for name, value in vars(high).items()}
    return StepMemory(**full)


def with_depth(architecture: PretrainedConfig, depth: int) -> PretrainedConfig:
    """Return the configuration with a number of layers. Lists with an entry per layer are shortened.

    Args:
        architecture: Not changed.
        depth: Number of transformer layers to keep, from the first.

    Returns:
        A copy.
    """
    shallow = copy.deepcopy(architecture)
    for name, value in vars(architecture).items():
        if (
            isinstance(value, list)
            and len(value) == architecture.num_hidden_layers > 0
            and name.startswith("layer")
        ):
            setattr(shallow, name, value[:depth])
    shallow.num_hidden_layers = depth
    return shallow


def _looked_at(architecture: PretrainedConfig, lengths: Sequence[int], plan: StepPlan) -> StepMemory:
    budget = plan.micro_batch_tokens
    tokens = pack([np.zeros(length, dtype=np.int64) for length in lengths], max_group_tokens=budget)
    if budget is not None:
        tokens = _largest(tokens, budget)
    with torch.device("meta"), torch.random.fork_rng(devices=[]), quiet():
        encoder = random_encoder(architecture, plan)
    is_mixed = plan.precision != "32-true"
    needs_fake = is_mixed or not encoder._packs
    with _fake_processor(encoder) if needs_fake else nullcontext() as fake:
        tokens = tokens.to(torch.device("meta")) if fake is None else mapped(tokens, fake.from_tensor)
        rounded = torch.autocast("cpu", torch.bfloat16) if is_mixed else nullcontext()
        attention = _like_cuda() if plan.on_cuda else nullcontext()
        with quiet(), attention, Living(encoder) as living:
            with rounded:
                loss = _cost(encoder(tokens), plan)
            forward = living.most
            loss.backward()
            backward = living.most
    weights, learnt_bytes = parameter_bytes(
        encoder, precision=plan.adapter.base if plan.adapter else "float32"
    )
    # Gradients of the step before are let go when the forward pass is over.
    activations = max(forward, backward - learnt_bytes)
    states = learnt_bytes / 4 * plan.optimizer_bytes
    if plan.sharing == 1:
        return StepMemory(weights, learnt_bytes, states, activations)
    # Put together for a while: what lies outside of layers, a layer, and the next one, which is fetched meanwhile.
    # On a processor, the model that is shared out stays whole beside its parts.
    whole = 0 if plan.on_cuda else weights
    learnt_together, together = (_put_together(encoder, is_learnt) for is_learnt in (True, False))
    return StepMemory(
        whole + weights / plan.sharing + together,
        learnt_bytes / plan.sharing + learnt_together,
        states / plan.sharing,
        activations,
    )


def _put_together(encoder: nn.Module, is_learnt: bool) -> float:
    """Return bytes outside layers and of the two largest layers. is_learnt: trained weights only."""
    sizes: dict[int, float] = {}
    for name, values in encoder.named_parameters():
        layer = layer_of(name) or 0
        if values.requires_grad or not is_learnt:
            sizes[layer] = sizes.get(layer, 0) + values.numel() * values.element_size()
    return sizes.pop(0, 0) + sum(sorted(sizes.values())[-2:])


def _cost(vectors: Tensor, plan: StepPlan) -> Tensor:
    """Return a scalar for the backward pass. Sparse vectors: products and FLOPS as in model=splade."""
    if plan.sparse is None:
        return vectors.square().sum()
    rows = torch.arange(len(vectors), device=vectors.device)
    queries, documents = vectors[rows[::2]], vectors[rows[1::2]]
    return (queries @ documents.T).sum() + flops(queries) + flops(documents)


def _largest(tokens: Tokens, budget: int) -> Tokens:
    """Return the largest micro-batches of a batch, including padding within their groups."""
    pieces = sorted(
        tokens.micro_batches(budget),
        key=lambda piece: sum(group.num_sentences * group.length for group in piece.groups),
    )
    lengths = [length for piece in pieces[-SEEN_MICRO_BATCHES:] for length in piece.lengths.tolist()]
    return pack([np.zeros(length, dtype=np.int64) for length in lengths], max_group_tokens=budget)


@contextmanager
def _fake_processor(module: nn.Module) -> Iterator[Any]:
    """Use fake tensors of the CPU instead of the device meta, at ten times the cost.

    Tensors on meta know no autocast, and transformers inspects the masks of padded architectures.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as fake:
        _put_on_processor(module)
        yield fake


def _put_on_processor(module: nn.Module) -> None:
    made: dict[nn.Parameter, nn.Parameter] = {}  # what is tied stays so
    for part in module.modules():
        for name, values in part._parameters.items():
            if values is not None:
                if values not in made:
                    empty = torch.empty(values.shape, dtype=values.dtype)
                    made[values] = nn.Parameter(empty, requires_grad=values.requires_grad)
                part._parameters[name] = made[values]
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def random_encoder(architecture: PretrainedConfig, plan: StepPlan) -> PooledEncoder:
    """Build a planned encoder with random weights and without a tokenizer.

    Args:
        architecture: Sizes of the backbone. Not changed.
        plan: Pooling, adapter, micro-batches and checkpointing.

    Returns:
        An encoder in training mode. It reads token numbers, not texts.
    """
    backbone = from_scratch(copy.deepcopy(architecture), shown="config.json")
    backbone.name_or_path = ""  # else its head would be read from there
    if plan.adapter is not None:
        offered("adapters", "add_merged")(backbone, plan.adapter)
    reader: Any = SimpleNamespace(model_input_names=[], pad_token_id=0, is_fast=False)
    limit = getattr(architecture, "max_position_embeddings", None) or 2**20
    encoder: PooledEncoder
    if plan.sparse is not None:
        made = offered("encoders", "sparse")
        encoder = made(backbone, reader, MaskedTokenHead(backbone), strategy=plan.sparse, max_length=limit)
    else:
        encoder = PooledEncoder(
            backbone, reader, pooling=plan.pooling, normalize=False, max_length=limit, projections=[]
        )
    vars(encoder)["micro_batch_tokens"] = plan.micro_batch_tokens
    if plan.checkpointing:
        checkpoint_layers(backbone)
    return encoder.train()


class _Fused(torch.autograd.Function):
    """Memory of a fused attention kernel for the backward pass: inputs, output, a number per row."""

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        attended = value.new_empty(*query.shape[:-1], value.shape[-1])
        context.save_for_backward(
            query, key, value, attended, query.new_empty(query.shape[:-1], dtype=torch.float32)
        )
        return attended

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return tuple(torch.empty_like(values) for values in context.saved_tensors[:3])


def _fused(query: Tensor, key: Tensor, value: Tensor, *options: Any, **more: Any) -> Tensor:
    attended: Tensor = _Fused.apply(query, key, value)  # type: ignore[no-untyped-call]
    return attended


class _FusedAttention(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.scaled_dot_product_attention:
            return _fused(*args[:3])
        return function(*args, **(kwargs or {}))


@contextmanager
def _like_cuda() -> Iterator[None]:
    """Run attention as on a GPU, whose kernels keep no weights."""
    of_processor = forward._attended
    forward._attended = _fused
    try:
        with _FusedAttention():
            yield
    finally:
        forward._attended = of_processor


class Living(TorchDispatchMode):
    """Counts the bytes of live tensors, without weights. `most` is the peak.

    Args:
        encoder: Encoder with these weights.
    """

    def __init__(self, encoder: PooledEncoder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._sizes: dict[int, int] = {
            _key(values): 0 for values in (*encoder.parameters(), *encoder.buffers())
        }

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for values in tree_leaves(result):
            if isinstance(values, Tensor) and _key(values) not in self._sizes:
                self._begins(values)
        return result

    def _begins(self, values: Tensor) -> None:
        storage = values.untyped_storage()
        self._sizes[_key(values)] = storage.nbytes()
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._ends, _key(values))

    def _ends(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


def _key(values: Tensor) -> int:
    return values.untyped_storage()._cdata


def largest_micro_batch(
    architecture: PretrainedConfig, lengths: Sequence[int], plan: StepPlan, *, free: float
) -> tuple[int | None, StepMemory]:
    """Return the largest micro-batch whose step fits into the free memory.

    Powers of two down to the longest text are tried. If none fits, the smallest is returned.

    Args:
        architecture: As `config.json` of an encoder has it.
        lengths: Number of tokens of each text of a batch.
        plan: Settings of the step. Its `micro_batch_tokens` is ignored.
        free: Free memory of the device in bytes.

    Returns:
        The micro-batch in tokens, or None if the whole batch fits, and the memory of a step with it.
    """
    full = step_memory(architecture, lengths, replace(plan, micro_batch_tokens=None))
    if full.peak <= free:
        return None, full
    sizes = [2**power for power in range(5, 31) if max(lengths) <= 2**power < sum(lengths)] or [max(lengths)]
    least, taken = 0, step_memory(architecture, lengths, replace(plan, micro_batch_tokens=sizes[0]))
    most = len(sizes)
    while most - least > 1:  # sizes[least] fits, or is the least of all
        middle = (least + most) // 2
        memory = step_memory(architecture, lengths, replace(plan, micro_batch_tokens=sizes[middle]))
        if memory.peak <= free:
            least, taken = middle, memory
        else:
            most = middle
    return sizes[least], taken


def rough_bytes(architecture: PretrainedConfig, lengths: Sequence[int]) -> float:
    """Return an upper bound of a step's bytes, from config.json alone, to decide on a full estimate.

    Args:
        architecture: As `config.json` of an encoder has it. Missing sizes count as 0.
        lengths: Number of tokens of each text of a batch.

    Returns:
        Bytes in float32, with gradients and two moments of the optimizer for every weight.
    """
    layers, width = (
        int(getattr(architecture, name, 0) or 0) for name in ("num_hidden_layers", "hidden_size")
    )
    inner = int(getattr(architecture, "intermediate_size", 0) or 4 * width)
    heads = int(getattr(architecture, "num_attention_heads", 0) or 0)
    vocabulary = int(getattr(architecture, "vocab_size", 0) or 0)
    weights = vocabulary * width + layers * (4 * width**2 + 3 * width * inner)
    per_token = layers * (20 * width + 8 * inner + 4 * heads * max(lengths))
    return 16.0 * weights + 8.0 * per_token * sum(lengths)
