"""What a configuration says of an encoder. Importing this needs no torch."""

from dataclasses import dataclass

from juzhen.core.option import option

INITIALISE = ("pretrained", "random")
POOLINGS = ("mean", "cls", "max", "first_last", "weighted")
"""Values of `backbone.pooling`; `juzhen.encoders.pooling` has the function of each."""

NO_PROMPT = "none"
"""Value of `backbone.default_prompt_name` with which nothing stands before a sentence, whatever the folder says."""


@dataclass
class BackboneConfig:
    """The pretrained transformer, and how its token states become one embedding."""

    name: str | None = option("what tables call it; null: the last part of its path", None)
    path: str = option("hub id, or a folder in transformers or sentence-transformers layout")
    revision: str | None = option("branch, tag or commit on the hub; null: the newest", None)
    initialize: str = option(
        "pretrained: weights must be there · random: from config.json alone", among=INITIALISE
    )
    pooling: str | None = option("null: what the folder says, else mean", None, among=POOLINGS)
    normalize: bool | None = option("embeddings of length 1; null: what the folder says, else no", None)
    layer_norm: bool | None = option(
        "LayerNorm as the last layer before length 1; null: what the folder says, else no", None
    )
    # At least one token between the two special ones.
    max_length: int | None = option("tokens; null: what the folder says", None, at_least=3)
    prompts: dict[str, str] | None = option(
        "name → text that may stand before a sentence, as in {query: 'query: '}; null: what the folder says, else none",
        None,
    )
    default_prompt_name: str | None = option(
        "the prompt before every sentence; none: no prompt; null: what the folder says, else none", None
    )
    include_prompt: bool | None = option(
        "its tokens count in pooling; null: what the folder says, else yes", None
    )
    dropout: float | None = option("null: what the folder says", None, at_least=0, below=1)
    layers: int | None = option(
        "fewer: the first ones; more: new ones that begin by changing nothing; null: as they are",
        None,
        at_least=0,
    )
    learning_rate: float = option("peak learning rate that suits its size; the optimizer takes it from here")
