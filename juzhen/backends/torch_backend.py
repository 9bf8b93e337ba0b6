"""The encoder itself as a back end: packed sentences, in float32 or with products in bfloat16."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from conf.job import BackendName
from juzhen.core.batch import Tokens

if TYPE_CHECKING:
    from juzhen.encoders.sentence_encoder import SentenceEncoder


class TorchBackend:
    """Runs on the device of the weights. With torch_bf16 products are rounded to bfloat16; pooling stays float32.

    Autocast and not a bfloat16 copy of the weights: as fast within 8 %, half as far from float32 (MiniLM on a CPU
    with avx512_bf16: largest difference of a unit embedding 0.0018 against 0.0028), and no second copy in memory.
    """

    def __init__(self, encoder: "SentenceEncoder", name: BackendName) -> None:
        self.name = name
        self._encoder = encoder

    def encode(self, tokens: Tokens) -> Float[np.ndarray, "sentences dim"]:
        encoder = self._encoder
        device = next(encoder.parameters()).device
        rounded = self.name is BackendName.TORCH_BF16
        was_training = encoder.training
        encoder.eval()
        try:
            with (
                torch.inference_mode(),
                torch.autocast(device.type, dtype=torch.bfloat16) if rounded else nullcontext(),
            ):
                return encoder(tokens.to(device)).cpu().numpy()
        finally:
            encoder.train(was_training)
