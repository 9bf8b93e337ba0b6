"""Which of the candidates that may be negatives become some."""

import numpy as np
from jaxtyping import Bool, Int

from juzhen.mining.candidates import Pool
from juzhen.mining.filters import REASONS, SUSPECTED
from juzhen.mining.options import MiningOptions

SUSPECTED_CODES = [REASONS.index(one) for one in SUSPECTED]


def chosen(
    pool: Pool,
    codes: Int[np.ndarray, "candidates"],
    options: MiningOptions,
    *,
    staying: Bool[np.ndarray, "candidates"] | None = None,
) -> Bool[np.ndarray, "candidates"]:
    """At most `options.negatives` of each query, as the options mix and draw them; of a masked one its place counts.

    codes    why each is refused, 0: it is not
    staying  hard ones that come before all others; None: there are none

    What is drawn depends on the seed and the queries of the pool alone. Weights exp(score / temperature) without
    replacement: the largest of score / temperature + Gumbel noise (Kool et al. 2019, https://arxiv.org/abs/1903.06059).
    """
    if not len(pool.query):
        return np.zeros(0, dtype=bool)
    draw = np.random.default_rng([options.seed, int(pool.query[0]), 1])
    usable = codes == 0
    if options.false_negatives == "mask":
        usable |= np.isin(codes, SUSPECTED_CODES)
    wish = -pool.score.astype(np.float64)
    if options.temperature is not None:
        wish = wish / options.temperature - draw.gumbel(size=len(wish))
    if staying is not None:
        wish[staying] = -np.inf
    is_hard = pool.rank > 0
    wish = np.where(is_hard, wish, draw.random(len(wish)))
    queries = pool.query - pool.query[0]
    counts = [np.bincount(queries[usable & kind], minlength=queries[-1] + 1) for kind in (is_hard, ~is_hard)]
    hard, random = (_places(queries, wish, usable & kind) for kind in (is_hard, ~is_hard))
    wanted = int(options.negatives * options.hard_share + 0.5)
    from_random = np.minimum(options.negatives - np.minimum(wanted, counts[0]), counts[1])
    from_hard = options.negatives - from_random
    return (hard < from_hard[queries]) | (random < from_random[queries])


def _places(queries: np.ndarray, wish: np.ndarray, usable: np.ndarray) -> Int[np.ndarray, "candidates"]:
    """The place of each usable candidate among those of its query, by rising wish; beyond all for the others."""
    places = np.full(len(queries), np.iinfo(np.int64).max)
    rows = np.flatnonzero(usable)
    rows = rows[np.lexsort((rows, wish[rows], queries[rows]))]
    ordered = queries[rows]
    places[rows] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return places
