"""Packed forward pass: linear layers see real tokens only, and attention stays inside a sentence.

A batch of question pairs padded to its longest sentence is about half padding. Here sentences are concatenated, and
only attention groups sentences of similar length. The outputs equal those of the padded forward, except for the random
numbers of dropout, which are cheaper on a CPU.

torch draws one number per element, one after another, which was a sixth of a training step of a small encoder. Here
one 64-bit draw of the same generator decides for four elements. Seeds, checkpoints and gradient checkpointing work as
usual.

Kernels of a GPU are the ones behind torch's nested tensors, called directly. A nested tensor costs the processor 150
times the call, per layer (docs/log/training_speed.md), and torch.nn.attention.varlen has no dropout. Dao 2024,
https://arxiv.org/abs/2307.08691, Rabe and Staats 2021, https://arxiv.org/abs/2112.05682.

Micro-batches compute the gradients of a whole batch with the activations of one part in memory. This is gradient
caching (Gao et al. 2021, https://arxiv.org/abs/2101.06983) for any loss: each micro-batch keeps its tokens and outputs,
and is computed again, with the same dropout, when its gradients are needed.
"""

import ctypes
import inspect
import resource
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from juzhen.core.batch import Group, Tokens
from juzhen.encoders.backbone import first_position, why_padded, without_cache
from juzhen.encoders.tokens import TokenTable


@dataclass(frozen=True)
class Pattern:
    """Attention pattern inside a sentence.

    Attributes:
        causal: No attention to later tokens.
        reach: Largest distance. None for any distance.
    """

    causal: bool = False
    reach: int | None = None

    def within(self, length: int) -> "Pattern":
        """Pattern for sentences of at most `length` tokens. A window wider than that is dropped.

        Args:
            length: Tokens of the longest sentence of a group or a batch.

        Returns:
            The pattern itself, or one without a window.
        """
        return self if self.reach is None or self.reach < length - 1 else Pattern(self.causal)

    def mask(self, group: Group, device: torch.device) -> Tensor | None:
        """Attention mask of a padded group.

        A padding token without any other attends to itself, since an empty softmax would be NaN.

        Args:
            group: Sentences of similar length.
            device: Device of the mask.

        Returns:
            Bool (sentences or 1, 1, length or 1, length), True to attend. None for no mask.
        """
        pattern = self.within(group.length)
        if pattern == Pattern():
            return group.mask
        positions = torch.arange(group.length, device=device)
        ahead = positions - positions.unsqueeze(1)
        seen = ahead <= 0 if pattern.causal else torch.ones_like(ahead, dtype=torch.bool)
        if pattern.reach is not None:
            seen = seen & (ahead.abs() <= pattern.reach)
        seen = seen[None, None]
        # Padding is behind a sentence, where a causal token does not look.
        if group.mask is None or (pattern.causal and not group.hides):
            return seen
        seen = seen & group.mask
        return seen | ((ahead == 0) & ~seen.any(dim=-1, keepdim=True))


EVERYWHERE = Pattern()


def pattern_of(module: nn.Module, *, is_causal: bool | None, sliding_window: int | None) -> Pattern:
    """Attention pattern of a transformers layer.

    Args:
        module: The attention layer.
        is_causal: Argument of the call, from config.json. None takes the attribute of the layer.
        sliding_window: Number of tokens that includes the token itself, except for a causal layer that is called as
            bidirectional.

    Returns:
        Direction and window of the layer.
    """
    is_built_causal = bool(getattr(module, "is_causal", True))
    causal = is_built_causal if is_causal is None else is_causal
    if sliding_window is None:
        return Pattern(causal)
    return Pattern(causal, sliding_window - (causal or not is_built_causal))


States = Float[Tensor, "tokens heads head_dim"]
Kernel = Callable[..., States]

ALIGNED = 8
"""Both kernels need rows of 16 bytes. A head width that is not a multiple of 8 would need padding."""


def ragged_kernel(
    query: Float[Tensor, "one heads tokens head_dim"],
    key: Tensor,
    value: Tensor,
    *,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> Kernel | None:
    """Kernel for the device of these states: flash in half precision, memory-efficient attention in float32.

    Args:
        query: States of the queries.
        key: States of the keys. It may have fewer heads.
        value: States of the values, with the heads of `key`.
        rate: Dropout of attention weights.
        pattern: Attention pattern.

    Returns:
        None on devices other than CUDA, for odd widths, on GPUs too old for both, and for a window in float32.
        Attention is then computed in groups of similar length.
    """
    if query.device.type != "cuda" or query.shape[-1] % ALIGNED:
        return None
    shares = query.shape[1] != key.shape[1]
    if can_use_flash_attention(SDPAParams(query, key, value, None, rate, pattern.causal, shares)):
        return flash
    if pattern.reach is not None:
        return None
    if shares:  # its heads are repeated before they come to this kernel
        key, value = query, query
    params = SDPAParams(query, key, value, None, rate, pattern.causal, False)
    return memory_efficient if can_use_efficient_attention(params) else None


def flash(
    query: States,
    key: States,
    value: States,
    tokens: Tokens,
    *,
    scale: float | None,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> States:
    """Flash attention for float16 and bfloat16.

    Args:
        query: States of the queries.
        key: States of the keys. It may have fewer heads.
        value: States of the values, with the heads of `key`.
        tokens: Bounds of the sentences.
        scale: Factor of the products. None: 1/√head_dim.
        rate: Dropout of attention weights.
        pattern: Attention pattern.

    Returns:
        Weighted values, the shape of `query`.
    """
    ends, longest = tokens.boundaries, tokens.longest
    window = {}
    if pattern.reach is not None:
        right = 0 if pattern.causal else pattern.reach
        window = {"window_size_left": pattern.reach, "window_size_right": right}
    return torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, rate, pattern.causal, False, scale=scale, **window
    )[0]


def memory_efficient(
    query: States,
    key: States,
    value: States,
    tokens: Tokens,
    *,
    scale: float | None,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> States:
    """Attention for float32 and for GPUs too old for flash, without a window.

    Args:
        query: States of the queries.
        key: States of the keys. It may have fewer heads.
        value: States of the values, with the heads of `key`.
        tokens: Bounds of the sentences.
        scale: Factor of the products. None: 1/√head_dim.
        rate: Dropout of attention weights.
        pattern: Attention pattern without a window.

    Returns:
        Weighted values, the shape of `query`.
    """
    ends, longest = tokens.boundaries, tokens.longest
    learns = torch.is_grad_enabled() and any(states.requires_grad for states in (query, key, value))
    key, value = (_shared_heads(states, query.shape[1]) for states in (key, value))
    rows = (states.unsqueeze(0) for states in (query, key, value))
    # 1: a token attends to those before it in its sentence.
    return torch.ops.aten._efficient_attention_forward(
        *rows, None, ends, ends, longest, longest, rate, int(pattern.causal), learns, scale=scale
    )[0].squeeze(0)


def _shared_heads(states: Tensor, heads: int) -> Tensor:
    """Keys or values (sentences, key heads, …), each head as often as there are heads of queries for it."""
    return states if states.shape[1] == heads else states.repeat_interleave(heads // states.shape[1], dim=1)


LEVELS = 2**16
"""Rates are rounded to multiples of 1/LEVELS, 0.1 to 0.1000061. The scale uses the rounded rate."""


class CheapDropout(nn.Dropout):
    """Zero at rate `p`, the rest divided by 1 − p.

    Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html
    """

    def forward(self, states: Tensor) -> Tensor:
        """Apply `drop` in training. In evaluation nothing is changed.

        Args:
            states: Tensor of any shape.

        Returns:
            Tensor of the same shape. In evaluation it is `states` itself.
        """
        return drop(states, self.p) if self.training else states


class _Drop(torch.autograd.Function):
    """Keeps one byte per element for the backward pass, where torch keeps a number of the size of the state."""

    @staticmethod
    def forward(context: Any, states: Tensor, threshold: int) -> Tensor:
        draws = torch.empty((states.numel() + 3) // 4, dtype=torch.int64)
        # From the lowest number up to the highest: all 64 bits are random, so each 16 of them are.
        draws.random_(-(2**63), None)
        survives = draws.view(torch.int16)[: states.numel()].view(states.shape) >= threshold - LEVELS // 2
        context.save_for_backward(survives)
        context.scale = LEVELS / (LEVELS - threshold)
        return torch.ops.aten.native_dropout_backward(states, survives, context.scale)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (survives,) = context.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradient, survives, context.scale), None


def drop(states: Tensor, rate: float) -> Tensor:
    """Set elements to zero and scale the rest, which keeps the expectation. It always drops, for training.

    Elsewhere than on a CPU, and under torch.compile, which fuses it, this is torch's own.

    Args:
        states: Tensor of any shape.
        rate: Probability of a zero, from 0 to 1.

    Returns:
        Tensor of the same shape. With a rate of 0 on a CPU it is `states` itself.
    """
    threshold = round(rate * LEVELS)
    if states.device.type != "cpu" or torch.compiler.is_compiling() or threshold == LEVELS:
        return F.dropout(states, rate, training=True)
    return _Drop.apply(states, threshold) if threshold else states  # type: ignore[no-untyped-call]


def use_cheap_dropout(module: nn.Module) -> None:
    """Replace the random numbers of every nn.Dropout by cheaper ones. Dropout has no weights.

    Args:
        module: Its own class and those of all modules inside are changed in place.
    """
    for inner in module.modules():
        if type(inner) is nn.Dropout:
            inner.__class__ = CheapDropout


PACKED = "packed"
"""Name under which transformers knows this attention."""

LENGTH_RATIO = 1.3
"""Longest to shortest sentence of a group. Measured: 1.0 costs many small kernels, 2.5 more padding."""


FILL_FROM, FILL_TO = 512, 64
"""Rows of at least so many tokens are filled up to a multiple of 64: a bf16 product on a CPU has code generated and
kept for each new shape, and every batch has another number of tokens. Measured: a fifth less time, a third of the
memory (docs/log/training_speed.md)."""


def pack(token_lists: Sequence[Sequence[int] | np.ndarray], *, max_group_tokens: int | None = None) -> Tokens:
    """Pack sentences from the shortest to the longest.

    Args:
        token_lists: Token ids of the sentences.
        max_group_tokens: Largest size of a group, except for a single sentence. None for no limit.

    Returns:
        Token ids in one row, with lengths, groups and the permutation back to the given order.
    """
    table = TokenTable.of(token_lists)
    order = np.argsort(table.lengths, kind="stable")
    inverse_permutation = np.empty_like(order)
    inverse_permutation[order] = np.arange(len(order))
    table = table[order]
    lengths = table.lengths
    return Tokens(
        input_ids=torch.from_numpy(table.flat().astype(np.int64)),
        lengths=torch.from_numpy(lengths),
        inverse_permutation=torch.from_numpy(inverse_permutation),
        groups=[_group(run) for run in _runs(lengths, max_tokens=max_group_tokens)],
    )


def _runs(lengths: np.ndarray, *, max_tokens: int | None) -> Iterator[np.ndarray]:
    """Ascending lengths cut into runs whose longest is at most LENGTH_RATIO times the shortest, plus 2."""
    tokens_before = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    start, sizes = 0, lengths.tolist()
    while start < len(sizes):
        end = bisect_right(sizes, LENGTH_RATIO * sizes[start] + 2, lo=start)
        if max_tokens is not None:
            fitting = bisect_right(tokens_before, tokens_before[start] + max_tokens, lo=start) - 1
            end = min(end, max(fitting, start + 1))
        yield lengths[start:end]
        start = end


def _group(lengths: np.ndarray) -> Group:
    longest, num_tokens = int(lengths[-1]), int(lengths.sum())
    if lengths[0] == longest:
        return Group(len(lengths), longest, num_tokens, slots=None, mask=None)
    mask = np.arange(longest) < lengths[:, None]
    return Group(
        len(lengths),
        longest,
        num_tokens,
        slots=torch.from_numpy(np.flatnonzero(mask)),
        mask=torch.from_numpy(mask)[:, None, None, :],
    )


@torch.compiler.disable  # type: ignore[untyped-decorator]  # its groups differ from batch to batch: each would be compiled anew
def _packed_attention(
    module: nn.Module,
    query: Float[Tensor, "one heads tokens head_dim"],
    key: Float[Tensor, "one key_heads tokens head_dim"],
    value: Float[Tensor, "one key_heads tokens head_dim"],
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    tokens: Tokens | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of each sentence to itself, (1, tokens, heads, head_dim). Without `tokens` it is plain sdpa.

    With fewer heads of keys than of queries, neighbouring queries share one (Ainslie et al. 2023,
    https://arxiv.org/abs/2305.13245). `attention_mask` is ignored if there are `tokens`.
    """
    if tokens is None:
        options |= {"is_causal": is_causal, "sliding_window": sliding_window}
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **options
        )
    pattern = pattern_of(module, is_causal=is_causal, sliding_window=sliding_window).within(tokens.longest)
    device = query.device.type
    # Turned and normalized, queries are in float32; values are not. The device meta knows no autocast.
    if device != "meta" and torch.is_autocast_enabled(device):
        precision = torch.get_autocast_dtype(device)
        query, key, value = (states.to(precision) for states in (query, key, value))
    hides = any(group.hides for group in tokens.groups)
    ragged = None if hides else ragged_kernel(query, key, value, rate=dropout, pattern=pattern)
    attend = ragged or _by_groups
    # The gradient of squeeze is a view. That of an index would be a tensor of zeros with a copy in it.
    queries, keys, values = (states.squeeze(0).transpose(0, 1) for states in (query, key, value))
    attended = attend(queries, keys, values, tokens, scale=scaling, rate=dropout, pattern=pattern)
    return attended.unsqueeze(0), None


def _by_groups(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    tokens: Tokens,
    *,
    scale: float | None,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> Float[Tensor, "tokens heads head_dim"]:
    """Neighbours of like length together, padded to the longest of them.

    On a CPU torch's fused kernel cannot drop, and its bf16 backward pass is slower than plain products, which want the
    heads of a sentence one after another.
    """
    learns = torch.is_grad_enabled() and query.requires_grad
    is_fused = query.device.type != "cpu" or not (rate or (learns and query.dtype is torch.bfloat16))
    sizes = [group.num_sentences * group.length for group in tokens.groups]

    def padded(states: Tensor) -> Iterator[Tensor]:
        apart = 1 if is_fused else states.shape[1]
        there, back = _padding(tokens, apart, filled=len(states))
        rows = _Moved.apply(states.reshape(len(states) * apart, -1), there, back)  # type: ignore[no-untyped-call]
        for group, part in zip(tokens.groups, rows.split([size * apart for size in sizes]), strict=True):
            if is_fused:
                part = part.view(group.num_sentences, group.length, states.shape[1], -1).transpose(1, 2)
                yield _shared_heads(part, query.shape[1])
            else:
                part = part.view(group.num_sentences * apart, group.length, -1)
                yield part if apart == query.shape[1] else part.repeat_interleave(query.shape[1] // apart, 0)

    parts = []
    for group, queries, keys, values in zip(tokens.groups, *map(padded, (query, key, value)), strict=True):
        within = pattern.within(group.length)
        if not is_fused:
            attended = _attended(queries, keys, values, group, within, scale=scale, rate=rate)
            parts.append(attended.flatten(0, 1))
            continue
        is_causal = not group.hides and within == Pattern(causal=True)
        mask = None if is_causal else within.mask(group, query.device)
        attended = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=rate, is_causal=is_causal, scale=scale
        )
        parts.append(attended.transpose(1, 2).flatten(2).flatten(0, 1))
    there, back = _padding(tokens, 1 if is_fused else query.shape[1], filled=len(query))
    attended = _Moved.apply(torch.cat(parts), back, there)  # type: ignore[no-untyped-call]
    return attended.view(*query.shape[:2], -1)


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: Group,
    pattern: Pattern,
    *,
    scale: float | None,
    rate: float,
) -> Tensor:
    """Attention of one group by plain products, (sentences · heads, length, head_dim).

    The products are taken in float32: in bf16 each new shape of a group would have code generated for it, which costs
    more than the products do.
    """
    mask, heads = pattern.mask(group, query.device), len(query) // group.num_sentences
    precision, scale = query.dtype, query.shape[-1] ** -0.5 if scale is None else scale
    taken = torch.float32 if precision is torch.bfloat16 else precision
    query, key, value = (states.to(taken) for states in (query, key, value))
    # All layers add the same to the scores of a group. That of a pattern is as large as the scores, and is not kept.
    kept_as = heads, taken, torch.is_inference_mode_enabled()
    bias = group.biases.get(kept_as) if mask is group.mask else None
    if bias is None:
        bias = query.new_zeros(1)
        if mask is not None:
            bias = query.new_zeros(mask.shape).masked_fill_(~mask, float("-inf"))
            bias = bias.expand(group.num_sentences, heads, -1, -1).flatten(0, 1) if len(bias) > 1 else bias[0]
        if mask is group.mask:
            group.biases[kept_as] = bias
    with torch.autocast("cpu", enabled=False):
        weights = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=scale).softmax(-1)
        return torch.bmm(drop(weights, rate) if rate else weights, value).to(precision)


class _Moves(NamedTuple):
    """Rows of a tensor at other places: row i comes from row `sources[i]`, or is `empty`."""

    sources: Tensor
    empty: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        moved = rows.index_select(0, self.sources)
        return moved.index_fill_(0, self.empty, 0) if len(self.empty) else moved


class _Moved(torch.autograd.Function):
    """No row goes to two places, so the gradient moves back. That of index_select would add up row by row."""

    @staticmethod
    def forward(context: Any, rows: Tensor, there: _Moves, back: _Moves) -> Tensor:
        context.back = back
        return there(rows)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return context.back(gradient), None, None


def _padding(tokens: Tokens, heads: int, *, filled: int) -> tuple[_Moves, _Moves]:
    """From rows (filled · heads), of packed tokens, to all padded groups (sentences · heads · length), and back.

    All layers share them. No number is fetched from a GPU.
    """
    if (heads, filled) not in tokens.moves:
        device, targets, gaps, before = tokens.lengths.device, [], [], 0
        for group in tokens.groups:
            after = before + group.num_sentences * group.length * heads
            rows = torch.arange(before, after, device=device).view(-1, heads, group.length)
            rows, before = rows.transpose(1, 2).flatten(0, 1), after
            if group.slots is not None:
                is_used = torch.zeros(len(rows), dtype=torch.int8, device=device).index_fill_(
                    0, group.slots, 1
                )
                gaps.append(rows[is_used.argsort()[: len(rows) - group.num_tokens]])
                rows = rows[group.slots]
            targets.append(rows)
        target = torch.cat(targets).flatten()
        packed = torch.arange(filled * heads, device=device)
        sources = target.new_zeros(before).index_copy_(0, target, packed[: len(target)])
        there = _Moves(sources, torch.cat(gaps).flatten() if gaps else packed[:0])
        back = _Moves(F.pad(target, (0, len(packed) - len(target))), packed[len(target) :])
        tokens.moves[heads, filled] = there, back
    return tokens.moves[heads, filled]


def use_packed_attention(backbone: PreTrainedModel) -> bool:
    """Turn on packed attention if the architecture supports it.

    Args:
        backbone: A transformer, changed in place.

    Returns:
        True if packed attention is on.
    """
    if why_padded(backbone.config) is not None:
        if (
            getattr(backbone.config, "attn_logit_softcapping", None)
            and backbone.config.model_type == "gemma2"
        ):
            backbone.set_attn_implementation("eager")  # transformers' fused attention cannot cap
        return False
    backbone.set_attn_implementation(PACKED)
    return True


def packed_inputs(backbone: PreTrainedModel, tokens: Tokens, *, pad: int) -> dict[str, Any]:
    """Keyword arguments with which the backbone reads packed tokens as one row.

    Args:
        backbone: A transformer with packed attention.
        tokens: Packed sentences.
        pad: Token that fills the row up, on a CPU and for a large batch, to a multiple of FILL_TO. The states of
            these tokens must be discarded.

    Returns:
        Tensors of one row with a length of at least all tokens, and `tokens` itself.
    """
    offset = first_position(backbone.config)
    missing = 0
    if tokens.input_ids.device.type == "cpu" and len(tokens.input_ids) >= FILL_FROM:
        missing = -len(tokens.input_ids) % FILL_TO
    input_ids = F.pad(tokens.input_ids, (0, missing), value=pad).unsqueeze(0)
    inputs = {
        "input_ids": input_ids,
        "position_ids": F.pad(tokens.positions + offset, (0, missing), value=offset).unsqueeze(0),
        # Of four axes, transformers hands a mask on as it is: else it would make one of all tokens by all tokens.
        "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=input_ids.device),
        "tokens": tokens,
    }
    if "token_type_ids" in inspect.signature(backbone.forward).parameters:
        segments = torch.zeros_like(input_ids)
        if tokens.segments is not None:
            segments = F.pad(tokens.segments, (0, missing)).unsqueeze(0)
        inputs["token_type_ids"] = segments
    return inputs | without_cache(backbone)


def padded_inputs(tokens: Tokens, *, pad: int) -> tuple[Tensor, Tensor]:
    """Arguments of a padded forward, padded on the right, in packed order.

    Args:
        tokens: Packed sentences.
        pad: Token of the padding.

    Returns:
        input_ids and attention_mask, both int64 (sentences, length).
    """
    columns = torch.arange(tokens.longest, device=tokens.lengths.device)
    mask = columns < tokens.lengths.unsqueeze(1)
    input_ids = torch.full(mask.shape, pad, device=mask.device)
    input_ids[tokens.places] = tokens.input_ids
    return input_ids, mask.long()


AttentionInterface.register(PACKED, _packed_attention)
AttentionMaskInterface.register(PACKED, sdpa_mask)


SLACK_BYTES = 64 << 20
"""Freed memory that may accumulate before it is returned. The savings are in docs/log/memory.md."""

STATUS = Path("/proc/self/statm")


def in_micro_batches(
    function: Callable[[Tokens], Tensor], micro_batches: Sequence[Tokens], *, least: int = 0
) -> Tensor:
    """Concatenate `function` of each micro-batch without keeping activations.

    Args:
        function: Forward pass of a micro-batch.
        micro_batches: The micro-batches.
        least: Minimal number of calls, forward and backward. The smallest micro-batch is repeated, and its repeated
            outputs are dropped.

    Returns:
        Outputs in the order of the micro-batches, joined along the first axis.
    """
    freed = FreedMemory()
    parts: list[Tensor] = []
    again = [micro_batches[0]] * (least - len(micro_batches))
    for micro_batch in [*micro_batches, *again]:
        # The numbers are handed over for their device alone: `checkpoint` keeps the generator of the devices of the
        # tensors that it sees, and does not look into a micro-batch.
        part = checkpoint(_alike(function), micro_batch.input_ids, micro_batch, use_reentrant=False)
        freed.give_back()
        # On the way back this is called when the gradient of the part is there, before it is computed again.
        if part.requires_grad:  # of frozen weights it does not
            part.register_hook(lambda gradient: freed.give_back())
        parts.append(part if len(parts) < len(micro_batches) else part[:0])
    return torch.cat(parts)


def _alike(function: Callable[[Tokens], Tensor]) -> Callable[[Tensor, Tokens], Tensor]:
    """`function`, drawing the same numbers each time on MPS, too: `checkpoint` keeps CPU's and CUDA's."""
    drawn_from: Tensor | None = None

    def call(numbers: Tensor, micro_batch: Tokens) -> Tensor:
        nonlocal drawn_from
        if numbers.device.type != "mps":
            return function(micro_batch)
        now = torch.mps.get_rng_state()
        if drawn_from is None:
            drawn_from = now
            return function(micro_batch)
        torch.mps.set_rng_state(drawn_from)
        try:
            return function(micro_batch)
        finally:
            torch.mps.set_rng_state(now)

    return call


class FreedMemory:
    """Gives memory that was freed back to the system, each time that SLACK_BYTES have piled up.

    Micro-batches differ in shape, and glibc's allocator keeps what they leave behind: it cannot reuse all of it, so
    that a process grows with their number although none of them is kept. Elsewhere than on Linux with glibc this
    does nothing.
    """

    def __init__(self) -> None:
        self._trim = _malloc_trim()
        self._least = _resident_bytes() if self._trim else 0

    def give_back(self) -> None:
        if self._trim is None:
            return
        now = _resident_bytes()
        if now > self._least + SLACK_BYTES:
            self._trim(0)
            now = _resident_bytes()
        self._least = now if now > self._least + SLACK_BYTES else min(self._least, now)


def _resident_bytes() -> int:
    return int(STATUS.read_text().split()[1]) * resource.getpagesize()


def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux") or not STATUS.exists():
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
