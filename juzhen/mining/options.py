"""What a mining is asked for. Importing this needs neither numpy nor torch."""

import math
from dataclasses import dataclass

from juzhen.core.errors import UserError, require_choice, require_number

INDEXES = ("exact", "flat", "hnsw", "ivf_pq")
"""How documents are looked for: among all, or by an index of FAISS (`juzhen.encoders.search`)."""

FALSE_NEGATIVES = ("drop", "relabel", "mask")

IDENTITY = "mining.json"
"""In the folder of a mining: whose shards it holds."""

SHARE_OF = LOWEST, OWN = ("lowest", "own")
"""The positive that a candidate's score is compared with: the lowest of its query's, or that of the row."""


@dataclass(frozen=True)
class MiningOptions:
    """How candidates are found, which are refused, and which of the others become negatives.

    depth        candidates of each source for each query
    index        exact, or an index of FAISS: flat, hnsw, ivf_pq
    first_rank   candidates before this rank, counted from 1, are outside of the window, which ends at `depth`
    share        refuse what scores above p − (1 − share)·|p|, where p is the score of a positive: above this share of a
                 score that is above 0; None: no such rule
    share_of     the positive of `share` and `margin`. lowest: that of the query's with the lowest score, so that all
                 rows of a query have the same negatives · own: the row's, so that each has its own. Where labels join
                 large groups, some positive is far away, and lowest leaves next to nothing
    margin       refuse what scores above p − margin; None: no such rule
    threshold    refuse what scores at least so much, by the judge where there is one; None: no such rule
    min_score    refuse what a source gives with a lower score; None: no such rule
    negatives    for each query
    hard_share   of them from the sources, in [0, 1]; the others are drawn from the corpus. Where one kind does not
                 suffice the other fills up
    temperature  of the softmax over scores by which hard negatives are drawn without replacement; None: the best ones
    false_negatives  what becomes of a candidate that its score alone has refused. drop: another takes its place ·
                     relabel: it becomes a positive, with rows of its own · mask: it keeps its place among the
                     negatives, where the positive stands in for it, which in-batch losses leave out
    seed         of all that is drawn

    Raises UserError for a number out of its range.
    """

    depth: int = 100
    index: str = "exact"
    first_rank: int = 1
    share: float | None = 0.95
    share_of: str = LOWEST
    margin: float | None = None
    threshold: float | None = None
    min_score: float | None = None
    negatives: int = 8
    hard_share: float = 0.5
    temperature: float | None = None
    false_negatives: str = "drop"
    seed: int = 42

    def __post_init__(self) -> None:
        choices = {"index": INDEXES, "share_of": SHARE_OF, "false_negatives": FALSE_NEGATIVES}
        for name, values in choices.items():
            require_choice(name, getattr(self, name), values)
        if self.share_of == OWN and self.false_negatives == "relabel":
            raise UserError(
                "share_of=own, false_negatives=relabel: a text would be a positive of a query and a negative in one of "
                "its rows; expected share_of=lowest, or drop or mask"
            )
        require_number("depth", self.depth, 1)
        require_number("negatives", self.negatives, 1)
        require_number("first_rank", self.first_rank, 1, self.depth)
        require_number("share", self.share, 0, 1, open_low=True, optional=True)
        for name in ("margin", "threshold", "min_score"):
            require_number(name, getattr(self, name), -math.inf, optional=True)
        require_number("hard_share", self.hard_share, 0, 1)
        require_number("temperature", self.temperature, 0, open_low=True, optional=True)
        require_number("seed", self.seed, 0)
