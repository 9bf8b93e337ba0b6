"""Configuration of an encoder. Needs no torch."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from juzhen.core.schema import SCHEMA, Among
from juzhen.encoders.pooling import POOLINGS

NO_PROMPT = "none"
"""Value of `backbone.default_prompt_name` that disables the prompt of the folder."""


@dataclass(config=SCHEMA, kw_only=True)
class AdapterConfig:
    """Adapter: small trainable matrices next to the frozen weights of the backbone.

    Args:
        kind: lora (Hu et al. 2021) or dora (Liu et al. 2024).
        rank: Columns of a matrix.
        alpha: The update is scaled by alpha / rank. None is 2 × rank.
        dropout: Dropout of the inputs of the matrices.
        targets: Endings of names of linear layers. None takes those of attention.
        base: Format of the frozen weights. nf4 (QLoRA) needs CUDA and bitsandbytes.
    """

    kind: Literal["lora", "dora"] = Field(
        default="lora",
        description="lora (Hu et al. 2021) · dora: direction and length apart (Liu et al. 2024)",
    )
    rank: int = Field(default=16, ge=1, description="columns of a matrix; more: more to learn with")
    alpha: float | None = Field(
        default=None,
        gt=0,
        description="what is learnt counts alpha / rank times; null: 2 × rank",
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="of what goes into the matrices")
    targets: list[str] | None = Field(
        default=None,
        min_length=1,
        description="ends of names of linear layers, as [query, value]; null: attention's",
    )
    base: Literal["float32", "bfloat16", "nf4"] = Field(
        default="float32",
        description="how the frozen weights are held; nf4: 4 bits (QLoRA), which needs CUDA and bitsandbytes",
    )


@dataclass(config=SCHEMA, kw_only=True)
class BackboneConfig:
    """The pretrained transformer, and how its token states become one embedding."""

    name: str | None = Field(default=None, description="what tables call it; null: the last part of its path")
    path: str = Field(description="hub id, or a folder in transformers or sentence-transformers layout")
    revision: str | None = Field(
        default=None, description="branch, tag or commit on the hub; null: the newest"
    )
    initialize: Literal["pretrained", "random"] = Field(
        default="pretrained", description="pretrained: weights must be there · random: from config.json alone"
    )
    pooling: Annotated[str, Among(POOLINGS)] | None = Field(
        default=None, description="null: what the folder says, else mean"
    )
    attention: Literal["causal", "bidirectional"] | None = Field(
        default=None,
        description="of a decoder, whether a token looks to the left alone or both ways; null: what the folder says",
    )
    normalize: bool | None = Field(
        default=None, description="embeddings of length 1; null: what the folder says, else no"
    )
    layer_norm: bool | None = Field(
        default=None,
        description="LayerNorm as the last layer before length 1; null: what the folder says, else no",
    )
    # At least one token between the two special ones.
    max_length: int | None = Field(default=None, ge=3, description="tokens; null: what the folder says")
    prompts: dict[str, str] | None = Field(
        default=None,
        description="name → text that may stand before a sentence, as in {query: 'query: '}; null: what the folder "
        "says, else none",
    )
    default_prompt_name: str | None = Field(
        default=None,
        description="the prompt before every sentence; none: no prompt; null: what the folder says, else none",
    )
    include_prompt: bool | None = Field(
        default=None, description="its tokens count in pooling; null: what the folder says, else yes"
    )
    dropout: float | None = Field(default=None, ge=0, lt=1, description="null: what the folder says")
    layers: int | None = Field(
        default=None,
        ge=0,
        description="fewer: the first ones; more: new ones that begin by changing nothing; null: as they are",
    )
    learning_rate: float | None = Field(
        default=None, description="peak learning rate that suits its size; the optimizer takes it from here"
    )
    adapter: AdapterConfig | None = Field(
        default=None,
        description="what learns in the place of all weights, as adapter=lora has it; null: all learn",
    )
