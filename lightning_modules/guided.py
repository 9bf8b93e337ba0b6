"""A bi-encoder whose loss is told by another encoder which texts of a batch belong together."""

from typing import Any, ClassVar

from juzhen.encoders.kept_vectors import GuidedCollator
from lightning_modules.augment import augmentation_of
from lightning_modules.taught import Taught


class Guided(Taught):
    """The bi-encoder for losses that read a guide (GISTEmbed: Solatorio 2024, https://arxiv.org/abs/2402.16829).

    The guide is its teacher. It reads every text of a row as the set has it, whatever augmentation makes of it.
    """

    provides: ClassVar[tuple[str, ...]] = ("guide",)

    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        self.collate = GuidedCollator(
            self.tokenize,
            self.encoder.collate,
            sharing=self.sharing,
            augmentation=augmentation_of(self.job, self.encoder),
            sides=self.tokenize,
        )
