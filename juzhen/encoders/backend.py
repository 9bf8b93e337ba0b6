"""What an encoder asks of whoever computes its embeddings."""

from typing import Protocol

import numpy as np
from jaxtyping import Float

from juzhen.core.batch import Tokens


class Backend(Protocol):
    """Turns tokens into embeddings, without gradients and without dropout."""

    @property
    def name(self) -> str:
        """One word for how it computes; part of the key under which embeddings are kept."""

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings in float32, in the order in which the sentences were collated."""
