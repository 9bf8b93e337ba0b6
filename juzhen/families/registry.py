"""The families of models by name: one object each.

A new kind is a class of encoders that names its family, and one object in FAMILIES under that name: here, or offered
by an outer room in rooms.toml.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from juzhen.core.calibration_files import Fusion
from juzhen.core.columns import described
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.lazy_names import offered, offers
from juzhen.encoders.resolve_path import ENCODER_FOLDER, encoder_folder, locate_folder
from juzhen.families.family import BiEncoders, CrossEncoders, Family, LexicalBaselines, TemplateEncoders
from juzhen.models.settings import LEXICAL

FAMILIES: dict[str, Family] = {
    "bi_encoder": BiEncoders(),
    "template": TemplateEncoders(),
    "cross_encoder": CrossEncoders(),
    "lexical": LexicalBaselines(),
    **{name: offered("families", name)() for name in offers("families")},
}
"""What the `family` of an encoder's class names. Of those that hold a folder, the last one is meant."""


def family_of(encoder: Any) -> Family:
    """Family of an encoder.

    Args:
        encoder: Its attribute `family` names the family.

    Returns:
        The family, which loads, saves and evaluates such encoders.

    Raises:
        UserError: Another object, such as a path.
    """
    if getattr(encoder, "family", None) not in FAMILIES:
        raise UserError(
            f"encoder: got {described(encoder)}. Load it with SentenceEncoder.load(…) or CrossEncoder.load(…)."
        )
    return FAMILIES[encoder.family]


def family_in(folder: Path) -> Family | None:
    """Return the family of the encoder in a folder or run.

    Args:
        folder: An encoder, or a run with an encoder in `encoder/`.

    Returns:
        None without an encoder.
    """
    folder = folder / ENCODER_FOLDER if (folder / ENCODER_FOLDER).is_dir() else folder
    return next((family for family in reversed(FAMILIES.values()) if family.holds(folder)), None)


def find_family(source: str | Path) -> Family:
    """Find the family of an encoder without loading it.

    Args:
        source: A run, a folder, a built-in name, or the name of a lexical baseline such as `bm25`.

    Returns:
        The family that loads the encoder.

    Raises:
        UserError: Nothing is there, or no known encoder.
    """
    if str(source) in LEXICAL:
        return FAMILIES["lexical"]
    folder = locate_folder(str(source))
    if folder is not None and (family := family_in(folder)) is not None:
        return family
    encoder_folder(source)  # which says what there is instead
    raise UserError(f"{source}: holds no encoder that is known here")


def open_encoder(encoder: Any) -> Any:
    """Load an encoder of any family.

    Args:
        encoder: Path of a run or a folder, a built-in name, or the name of a lexical baseline. A loaded encoder is
            returned unchanged.

    Returns:
        An encoder of the class of its family, such as `SentenceEncoder` or `CrossEncoder`.

    Raises:
        UserError: Nothing is found.
    """
    return find_family(encoder).load(encoder) if isinstance(encoder, str | Path) else encoder


def open_weights(encoder: Any) -> Any:
    """Load an encoder as `open_encoder`, but no lexical baseline.

    Args:
        encoder: As `open_encoder` takes it.

    Returns:
        An encoder of any family but the lexical one.

    Raises:
        UserError: Nothing is found, or the name of a lexical baseline, which has no weights.
    """
    if str(encoder) in LEXICAL:
        raise UserError(
            f"{encoder}: a baseline without weights, which scores ranked sets alone. Name a run or an encoder, or "
            f"type juzhen evaluate {encoder}"
        )
    opened = open_encoder(encoder)
    if getattr(opened, "family", None) not in FAMILIES:
        raise UserError(
            f"{type(opened).__name__}: not an encoder of juzhen. Give a path or a loaded encoder."
        )
    return opened


class PairScorer:
    """Scores of a finished run, or of two fused runs, computed without gradients in float32.

    Args:
        fusion: Weights of two runs from `juzhen fuse`, in the order of the fit.
        folders: Of a run, or of an encoder. A cross-encoder gives logits, other encoders the cosine or their
            learnt form.

    Raises:
        UserError: A folder without an encoder, or `fusion` of other runs.
    """

    def __init__(self, *folders: str | Path, fusion: Fusion | None = None) -> None:
        if fusion is not None:
            fusion.require(folders)
        self._fusion = fusion
        self._encoders = [open_weights(folder) for folder in folders]
        self.family: str = self._encoders[0].family
        self.has_embeddings = family_of(self._encoders[0]).has_embeddings

    def require_order(self, examples: Examples) -> None:
        """Check that the encoders may read both orders of a set, if one of them does.

        Args:
            examples: Rows of pairs.

        Raises:
            UserError: The sides have different roles, and a cross-encoder reads both orders.
        """
        for encoder in self._encoders:
            name = f"{examples.split}/{examples.name}"
            family_of(encoder).require_order(encoder, name, examples.kind, examples.symmetric)

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, show_progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """Return one score per pair, float64. For two runs, 0 is the mean of the set of the fit."""
        pairs = list(zip(first, second, strict=True))
        scores = [
            encoder.score(pairs, batch_tokens=batch_tokens, show_progress=show_progress).astype(np.float64)
            for encoder in self._encoders
        ]
        return scores[0] if self._fusion is None else self._fusion.fused(*scores)
