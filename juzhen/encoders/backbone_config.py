"""Configuration of an encoder. Needs no torch."""

from typing import Annotated, Literal

from pydantic import Field

from juzhen.core.schema import Among, configuration
from juzhen.encoders.pooling import POOLINGS

NO_PROMPT = "none"
"""Value of `backbone.default_prompt_name` that disables the prompt of the folder."""


@configuration
class AdapterConfig:
    """Adapter: small trainable matrices next to the frozen weights of the backbone.

    Args:
        kind: lora (Hu et al. 2021) or dora (Liu et al. 2024).
        rank: Rank of the update: number of columns of each matrix.
        alpha: The update is scaled by alpha / rank. None is 2 × rank.
        dropout: Probability that an input of the matrices is dropped, 0 to 1.
        targets: Linear layers to adapt, by the ends of their names. None takes those of attention.
        base: Format of the frozen weights. nf4 (QLoRA) needs CUDA and bitsandbytes.

    Example:
        >>> AdapterConfig(rank=8, targets=["query", "value"]).kind
        'lora'
    """

    kind: Literal["lora", "dora"] = Field(
        default="lora",
        description="lora (Hu et al. 2021) · dora: direction and length apart (Liu et al. 2024)",
    )
    rank: int = Field(default=16, ge=1, description="rank of the two matrices")
    alpha: float | None = Field(
        default=None,
        ge=1e-4,
        le=1e4,
        description="scale of the adapter is alpha / rank · null: 2 × rank",
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="of what goes into the matrices")
    targets: list[str] | None = Field(
        default=None,
        min_length=1,
        description="name endings of linear layers, as [query, value] · null: attention layers",
    )
    base: Literal["float32", "bfloat16", "nf4"] = Field(
        default="float32",
        description="dtype of the frozen weights · nf4: 4 bits (QLoRA), needs CUDA and bitsandbytes",
    )


@configuration
class BackboneConfig:
    """The pretrained transformer, and how its token states become one embedding."""

    name: str | None = Field(default=None, description="name in tables · null: the last part of its path")
    path: str = Field(description="hub id, or a folder in transformers or sentence-transformers layout")
    revision: str | None = Field(
        default=None, description="branch, tag or commit on the hub · null: the newest"
    )
    initialize: Literal["pretrained", "random"] = Field(
        default="pretrained", description="pretrained: weights must be there · random: from config.json alone"
    )
    pooling: Annotated[str, Among(POOLINGS)] | None = Field(
        default=None, description="null: from the folder, else mean"
    )
    attention: Literal["causal", "bidirectional"] | None = Field(
        default=None,
        description="attention of a decoder, causal or bidirectional · null: from the folder",
    )
    normalize: bool | None = Field(
        default=None, description="embeddings of length 1 · null: from the folder, else false"
    )
    layer_norm: bool | None = Field(
        default=None,
        description="LayerNorm as the last layer before length 1 · null: from the folder, else false",
    )
    # At least one token between the two special ones.
    max_length: int | None = Field(default=None, ge=3, description="tokens · null: from the folder")
    prompts: dict[str, str] | None = Field(
        default=None,
        description="name → text that may stand before a sentence, as in {query: 'query: '} · null: what the folder "
        "says, else none",
    )
    default_prompt_name: str | None = Field(
        default=None,
        description="the prompt before every sentence · none: no prompt · null: from the folder, else none",
    )
    include_prompt: bool | None = Field(
        default=None, description="its tokens count in pooling · null: from the folder, else yes"
    )
    dropout: float | None = Field(default=None, ge=0, lt=1, description="null: from the folder")
    layers: int | None = Field(
        default=None,
        ge=0,
        description="fewer: the first ones · more: new ones that begin by changing nothing · null: as they are",
    )
    learning_rate: float | None = Field(
        default=None, description="peak learning rate that suits its size · the optimizer takes it from here"
    )
    adapter: AdapterConfig | None = Field(
        default=None,
        description="what learns in the place of all weights, as adapter=lora has it · null: all learn",
    )
