"""Numbers that losses did not have in earlier versions, at which they compute what they did then. Needs no torch.

A test holds both tables to the losses.
"""

from collections.abc import Mapping
from typing import Any

LATER_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "lambda_loss": {"weighting": "ndcg_loss2pp", "k": None, "graded": False},
    "info_nce_guided": {"relative_margin": 0},
}
"""Loss → numbers that are in the digest of a stage, and not in the key of a run and its row."""

OFF: Mapping[str, Mapping[str, Any]] = {"softmax": {"smoothing": 0}}
"""Loss → numbers that are in none of them."""
