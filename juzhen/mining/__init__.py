"""Hard negatives, paraphrases and clusters. The results are data sets like any other.

Below are the settings of hard-negative mining, which need neither numpy nor torch.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from juzhen.core.aliases import RENAMED_MINING, accept_renamed
from juzhen.core.errors import UserError, check_count, require_choice, require_number

IndexKind = Literal["exact", "flat", "hnsw", "ivf", "ivf_pq"]
INDEXES = get_args(IndexKind)
"""How documents are searched: all of them, or with an index of FAISS (`juzhen.encoders.search`)."""

Treatment = Literal["drop", "relabel", "mask"]
FALSE_NEGATIVES = get_args(Treatment)

IDENTITY = "mining.json"
"""File in the folder of a mining run. It records the settings and data of the shards beside it."""

PositiveReference = Literal["lowest", "own"]
POSITIVE_REFERENCES = LOWEST, OWN = get_args(PositiveReference)


@accept_renamed(RENAMED_MINING)
@dataclass(frozen=True)
class MiningOptions:
    """Settings of `juzhen.mine`: which candidates are found, which are dropped, which become negatives.

    The names are those of `mine_hard_negatives` of sentence-transformers and mean the same, with two additions:
    `max_score` also drops a candidate that scores exactly this much, and with a cross-encoder it applies to the
    cross-encoder's score alone, while the other rules read the score of the first source.

    Args:
        range_max: Candidates of each source for each query.
        index: exact, or an index of FAISS: flat, hnsw, ivf, ivf_pq.
        range_min: Number of nearest candidates to skip.
        relative_margin: Drop candidates scoring above p − relative_margin · |p|, where p is the score of a positive.
            0.05 keeps negatives at most 95 % as similar as the positive. None: no such rule.
        positive_reference: The positive p of both margins. lowest: the positive of the query with the lowest score, so
            all rows of a query have the same negatives. own: the positive of the row. Use own if labels join large
            groups: some positive is then far away, and lowest drops nearly all candidates.
        absolute_margin: Drop candidates scoring above p − absolute_margin. None: no such rule.
        max_score: Drop candidates scoring this much or more. None: no such rule.
        min_score: Drop retrieved candidates scoring less. None: no such rule.
        num_negatives: Negatives of each row.
        hard_share: Share of retrieved negatives, in [0, 1]. The others are drawn from the corpus. If one kind does not
            suffice, the other fills up.
        temperature: Draw hard negatives without replacement by a softmax over scores. None: take the best.
        false_negatives: Treatment of a candidate dropped for its score alone. drop: another takes its place. relabel:
            it becomes a positive with its own rows. mask: it keeps its place, filled with the positive, which in-batch
            losses ignore.
        seed: Seed of all random draws.

    Raises:
        UserError: A number outside its range, or positive_reference=own with false_negatives=relabel.

    Example:
        >>> MiningOptions(num_negatives=4, relative_margin=None, max_score=0.9).range_max
        100
    """

    range_max: int = 100
    index: IndexKind = "exact"
    range_min: int = 0
    relative_margin: float | None = 0.05
    positive_reference: PositiveReference = "lowest"
    absolute_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    num_negatives: int = 8
    hard_share: float = 0.5
    temperature: float | None = None
    false_negatives: Treatment = "drop"
    seed: int = 42

    def __post_init__(self) -> None:
        choices = {
            "index": INDEXES,
            "positive_reference": POSITIVE_REFERENCES,
            "false_negatives": FALSE_NEGATIVES,
        }
        for name, values in choices.items():
            require_choice(name, getattr(self, name), values)
        if self.positive_reference == OWN and self.false_negatives == "relabel":
            raise UserError(
                "positive_reference=own, false_negatives=relabel: a text would be a positive of a query and a negative "
                "in one of its rows. Use positive_reference=lowest, or false_negatives=drop or mask."
            )
        for name, value in vars(self).items():
            object.__setattr__(self, name, value.item() if hasattr(value, "item") else value)
        check_count("range_max", self.range_max)
        check_count("num_negatives", self.num_negatives, most=1000)
        check_count("range_min", self.range_min, least=0, most=self.range_max - 1)
        require_number("relative_margin", self.relative_margin, 0, 1, open_high=True, optional=True)
        for name in ("absolute_margin", "max_score", "min_score"):
            require_number(name, getattr(self, name), -math.inf, optional=True)
        require_number("hard_share", self.hard_share, 0, 1)
        require_number("temperature", self.temperature, 1e-6, 1e6, optional=True)
        check_count("seed", self.seed, least=0)
