"""A bi-encoder that learns from text alone: two pieces of one text are a pair."""

from collections.abc import Sequence

from encoders.crops import CropCollator, Crops
from lightning_modules.biencoder import BiEncoder
from schema.examples import Kind


class CropEncoder(BiEncoder):
    """Pieces of one text are anchor and positive (Izacard et al. 2022, https://arxiv.org/abs/2112.09118, section 3.1).

    Numbers are those of encoders.crops.Crops. Any set can be learnt from: of pairs, their sentences are.
    Evaluation is that of the bi-encoder: whole sentences.
    """

    reads = Kind.SENTENCE
    gives = Kind.POSITIVE_PAIR

    def __init__(
        self, *, shares: Sequence[float], delete: float, neighbour_share: float, **shared: object
    ) -> None:
        super().__init__(**shared)
        crops = Crops(
            tuple(shares), delete=delete, neighbour_share=neighbour_share, tokenizer=self.encoder.tokenizer
        )
        self.collate = CropCollator(
            self.encoder.tokenize, self.encoder.collate, crops=crops, seed=self.job.seed
        )
