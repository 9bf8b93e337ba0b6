"""Encoder as a function of padded tensors, for export as a graph."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from juzhen.encoders.backbone import without_cache
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import POOLINGS
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
        return (states * self.mask).sum(1)

    def max(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        return states.masked_fill(self.mask == 0, torch.finfo(torch.float32).min).amax(1)

    def first(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        return (states * (self.mask.cumsum(1) == 1) * self.mask).sum(1)

    def last(self, states: Float[Tensor, "sentences length dim"]) -> Float[Tensor, "sentences dim"]:
        # By the tokens behind it, of which there are none: right on either side of the padding.
        behind = self.mask.sum(1, keepdim=True) - self.mask.cumsum(1)
        return (states * (behind == 0) * self.mask).sum(1)


class PaddedEncoder(nn.Module):
    """Padded token ids and their mask (1 = token, padding on the right) → embeddings.

    With a learnt form uᵀWv, also Wᵀû of each sentence, û its normalized embedding. The score of a pair is the product
    of
    Wᵀû of its first sentence with the normalized embedding of its second.

    The attention of the encoder is replaced by an exportable one, so pass a copy.
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
    """Padded joint inputs of pairs → one score each, higher = closer, and logits. Pass a copy."""

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
        logits = self.head(self.inner(input_ids, attention_mask, token_type_ids))
        return similarity(logits, self.grades), logits


class RowScaledLinear(nn.Module):
    """W x + b, computed as s · W (x / s) + b with s = max |x| of each token.

    The input of the product is between −1 and 1 for every token of every text, so 8 bits need no range per call.
    One large state does not make the steps of others coarse, and an embedding does not depend on the other texts
    of a call.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias

    def forward(self, states: Float[Tensor, "*sentences inner"]) -> Float[Tensor, "*sentences outer"]:
        scale = states.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        # Written as a plain product: the quantiser turns a Gemm round and then trips over its old shape.
        products = (states / scale) @ self.weight.T * scale
        return products if self.bias is None else products + self.bias


def scale_rows(module: nn.Module) -> None:
    """Replaces every nn.Linear inside `module` by a RowScaledLinear of the same weights."""
    for name, inner in list(module.named_children()):
        if isinstance(inner, nn.Linear):
            setattr(module, name, RowScaledLinear(inner))
        else:
            scale_rows(inner)
