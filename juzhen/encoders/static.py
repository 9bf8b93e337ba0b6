"""A table of tokens in the place of a transformer: each token has its vector, whatever stands beside it.

As sentence-transformers (StaticEmbedding) and model2vec have it; https://github.com/MinishLab/model2vec
"""

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput

from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.encoders.layout import STATIC, static_shape
from juzhen.encoders.locate import WEIGHTS
from juzhen.encoders.settings_file import naming, read_tensors

LENGTH = 512
"""Tokens of a text that are read where nothing else is said, as in model2vec; sentence-transformers reads all."""


class StaticConfig(PretrainedConfig):
    """vocab_size tokens of hidden_size numbers each."""

    model_type = STATIC

    def __init__(self, vocab_size: int = 1, hidden_size: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers = 0


class StaticTokens(PreTrainedModel):
    """Gives the vector of each token as its state."""

    config_class = StaticConfig

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embedding = cast(nn.Embedding, value)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> BaseModelOutput:
        states = self.embedding(input_ids)
        return BaseModelOutput(
            last_hidden_state=states, hidden_states=(states, states) if output_hidden_states else None
        )


AutoConfig.register(STATIC, StaticConfig)
AutoModel.register(StaticConfig, StaticTokens)


def read_static_config(folder: Path) -> StaticConfig:
    """The sizes of the table in a folder."""
    vocabulary, dim = static_shape(folder)
    return StaticConfig(vocab_size=vocabulary, hidden_size=dim)


def read_static(folder: Path, config: StaticConfig) -> StaticTokens:
    """The table of a folder. Raises UserError for weights that do not load."""
    path = folder / WEIGHTS[0]
    with naming(f"{path}: the weights do not load"):
        tensors = read_tensors(path)
        table = tensors["embedding.weight"] if "embedding.weight" in tensors else tensors["embeddings"]
        table = table.float()
        if (rows := tensors.get("mapping")) is not None:
            if rows.is_floating_point() or not 0 <= int(rows.min()) <= int(rows.max()) < len(table):
                raise UserError(
                    f"{path}: mapping names rows from {rows.min().item()} to {rows.max().item()} of a table of "
                    f"{len(table)}. Copy the file again"
                )
            table = table[rows.long()]
        if (factors := tensors.get("weights")) is not None:
            table = table * factors.float()[:, None]
    require_finite_weights([("the product of embeddings and weights", table)], path)
    backbone = StaticTokens(config)
    with torch.no_grad():
        backbone.embedding.weight.copy_(table)
    return backbone


def read_static_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """tokenizer.json without the special tokens that it would put around a text; it says itself where it cuts."""
    with naming(f"{folder}: the tokenizer does not load"):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        tokenizer.model_max_length = (tokenizer.backend_tokenizer.truncation or {}).get("max_length", LENGTH)
        tokenizer.backend_tokenizer.post_processor = None
    return tokenizer
