"""Batches of rows: a pure function of the seed and the sizes, so that a run can be resumed.

Rows are shuffled first. Within each window of several batches they are then sorted by length, so that a batch holds
rows of similar length and little padding, and the batches are shuffled again. If all lengths count as equal, only the
balance remains: each batch holds its share of every stratum.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch.utils.data import Sampler

from juzhen.core.batch import num_fitting

MOST_CLASSES = 10
"""Targets with more distinct values are grades, and are balanced by fifths."""


GOLDEN = (5**0.5 - 1) / 2
"""The fractional parts of its multiples are spread evenly between 0 and 1, for any number of them."""


@dataclass(frozen=True)
class Shape:
    """Facts that decide the position of a row in a window.

    Args:
        lengths: Tokens of the longest text of each row.
        strata: Class, or fifth of the grades, of each row.
        staggered: Each stratum begins at another position, so that many small ones do not coincide.
    """

    lengths: Int[np.ndarray, "rows"]
    strata: Int[np.ndarray, "rows"]
    staggered: bool = False


def strata(targets: Float[np.ndarray, "rows"] | None, num_rows: int) -> Int[np.ndarray, "rows"]:
    """Group rows so that every batch can hold its share: by classes, or by fifths of a graded score.

    Args:
        targets: Gold values, or None without any.
        num_rows: Number of rows.

    Returns:
        Number of the group of each row.
    """
    if targets is None:
        return np.zeros(num_rows, dtype=np.int64)
    values, classes = np.unique(targets, return_inverse=True)
    if len(values) <= MOST_CLASSES:
        return classes
    return fifths(targets)


def fifths(values: Float[np.ndarray, "rows"] | Int[np.ndarray, "rows"]) -> Int[np.ndarray, "rows"]:
    """Return the fifth, from 0, of each value. Equal values are in one fifth.

    Args:
        values: One value for each row.

    Returns:
        Numbers from 0 to 4.
    """
    return np.searchsorted(np.quantile(values, [0.2, 0.4, 0.6, 0.8]), values, side="right")


def stratified(
    by: str,
    targets: Float[np.ndarray, "rows"] | None,
    lengths: Callable[[], Int[np.ndarray, "rows"]],
    num_rows: int,
) -> Shape:
    """Return the strata of `training.stratify_by`: labels, fifths of the lengths, or both at once.

    Args:
        by: Value of `training.stratify_by`.
        targets: Labels or scores.
        lengths: Returns the lengths of the rows. Called only if they are needed.
        num_rows: Number of rows.

    Returns:
        Strata and lengths of the rows.
    """
    groups = strata(targets, num_rows) if "label" in by else np.zeros(num_rows, dtype=np.int64)
    if "length" in by:
        groups = 5 * groups + fifths(lengths())
    return Shape(np.zeros(num_rows, dtype=np.int64), groups, staggered=True)


def arrange(order: Int[np.ndarray, "rows"], shape: Shape, *, window_rows: int) -> Int[np.ndarray, "rows"]:
    """Return `order` with each window of `window_rows` sorted by length, a permutation of it.

    A row's position is its rank by length within its own stratum, as a share of the stratum. So neighbours have similar
    lengths, and any part of the window holds the strata in proportion: a loss over the batch still finds positives and
    negatives in it, even if one class has the longer sentences.

    Args:
        order: Row numbers in the order of the epoch.
        shape: Strata and lengths of the rows.
        window_rows: Rows of a window.

    Returns:
        The sorted row numbers.
    """
    windows = np.split(order, range(window_rows, len(order), window_rows))
    return np.concatenate([_arranged(rows, shape) for rows in windows])


def _arranged(rows: Int[np.ndarray, "rows"], shape: Shape) -> Int[np.ndarray, "rows"]:
    lengths, classes = shape.lengths[rows], shape.strata[rows]
    shares = np.empty(len(rows))
    for number in np.unique(classes):
        (members,) = np.nonzero(classes == number)
        by_length = members[np.argsort(lengths[members], kind="stable")]
        first = number * GOLDEN % 1 if shape.staggered else 0.5
        shares[by_length] = (np.arange(len(members)) + first) / len(members)
    return rows[np.argsort(shares, kind="stable")]


class BatchRows(NamedTuple):
    """Row indices of a batch of one dataset.

    Args:
        number: Number of the batch, from the start of the stage.
        task: Name of the dataset.
        rows: Row indices.
        compares: The rows of all processes differ in the value that their loss compares.
    """

    number: int
    task: str
    rows: np.ndarray
    compares: bool = True


Order = Literal["shuffled", "drawn", "in_turn"]
"""Order of the batches of several sets.

shuffled  batches of an epoch at random; each set has exactly its share of them
drawn     the set of each batch is drawn by the shares, independently
in_turn   one set after another, over and over
"""


class BatchStream(Sampler[BatchRows]):
    """All batches of a stage as one stream, epoch after epoch.

    Every row appears once per epoch. A batch holds rows of one dataset. Batches of several datasets are shuffled
    together, so each dataset appears in proportion to its size. Batch `index` depends on `seed`, the sizes and `index`
    alone: setting `start` continues a stream exactly at any point.

    Args:
        sizes: Dataset key → rows.
        batch_size: Rows per batch over all processes, for all sets or dataset key → rows. A short rest is
            shared by the last two batches of an epoch.
        num_batches: Length of the stream.
        seed: Seed of the order.
        rank: This process takes the rows rank, rank + world, … of each batch.
        world: Number of processes.
        shares: Dataset key → its part of the batches of an epoch, in any unit. An epoch has as many batches
            as without shares, and a set is repeated as often as its part requires. A row is repeated only
            after all other rows of its set. None: every row once per epoch.
        order: An `Order`. With `in_turn`, all sets have the same share, and an epoch is a whole number of
            turns.

    Attributes:
        shapes: Dataset key → lengths and strata. With `window` > 1 the rows of so many batches are sorted by
            length, and strata are spread evenly, before they become batches. Set both before the first batch.
        comparisons: Dataset key → function that is True if rows differ in the value that their loss compares.
            Other sets always differ.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        batch_size: int | Mapping[str, int],
        num_batches: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        shares: Mapping[str, float] | None = None,
        order: Order = "shuffled",
    ) -> None:
        self.sizes = dict(sizes)
        self.batch_sizes = (
            dict.fromkeys(sizes, batch_size) if isinstance(batch_size, int) else dict(batch_size)
        )
        self.num_batches = num_batches
        self.seed = seed
        self.rank = rank
        self.world = world
        self.start = 0
        self.shapes: Mapping[str, Shape] = {}
        self.window = 1
        self.comparisons: Mapping[str, Callable[[np.ndarray], bool]] = {}
        self.batches_of = {task: -(-size // self.batch_sizes[task]) for task, size in self.sizes.items()}
        self.batches_per_epoch = sum(self.batches_of.values())
        self.order = order
        self.counts: Mapping[str, float] | None = None
        if order == "in_turn":
            self.batches_per_epoch = -(-self.batches_per_epoch // len(self.sizes)) * len(self.sizes)
            self.counts = dict.fromkeys(self.sizes, self.batches_per_epoch // len(self.sizes))
        elif shares is not None and order == "drawn":
            total = sum(shares.values())
            self.counts = {task: self.batches_per_epoch * shares[task] / total for task in self.sizes}
        elif shares is not None:
            self.counts = apportion(self.batches_per_epoch, shares)
            self.batches_per_epoch = sum(self.counts.values())
        self._drawn: list[np.ndarray] = []

    @property
    def mean_batches(self) -> Mapping[str, float]:
        """Dataset key → mean number of batches in an epoch."""
        return self.counts or self.batches_of

    @property
    def mean_batch_size(self) -> float:
        """Mean number of rows in a batch of an epoch, without short rests."""
        counts = self.mean_batches
        return sum(self.batch_sizes[task] * count for task, count in counts.items()) / self.batches_per_epoch

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[BatchRows]:
        index = self.start
        while index < self.num_batches:
            epoch, position = divmod(index, self.batches_per_epoch)
            for task, rows in self.epoch(epoch)[position : position + self.num_batches - index]:
                compares = task not in self.comparisons or self.comparisons[task](rows)
                yield BatchRows(index, task, rows[self.rank :: self.world], compares)
                index += 1

    def epoch(self, epoch: int) -> list[tuple[str, np.ndarray]]:
        """Return the batches of one epoch, over all processes, in order.

        Args:
            epoch: Number of the epoch, from 0.

        Returns:
            Pairs of set and row numbers, one for each batch.
        """
        if self.order != "shuffled":
            return self._one_by_one(epoch)
        generator = np.random.default_rng([self.seed, epoch])
        batches = []
        for number, task in enumerate(self.sizes):
            if self.counts is None:
                batches += [(task, rows) for rows in self._pass(task, generator)]
            else:
                count = int(self.counts[task])
                turns = range(epoch * count, (epoch + 1) * count)
                batches += [(task, rows) for rows in self._turns(task, number, turns)]
        return [batches[position] for position in generator.permutation(len(batches))]

    def _one_by_one(self, epoch: int) -> list[tuple[str, np.ndarray]]:
        """The batches of an epoch in which sets alternate, in turn or at random."""
        names, length = list(self.sizes), self.batches_per_epoch
        if self.order == "in_turn":
            numbers = np.arange(epoch * length, (epoch + 1) * length) % len(names)
            before = np.full(len(names), epoch * length // len(names))
        else:
            numbers, before = self._draws(epoch)
        turns = {
            number: self._turns(names[number], number, range(before[number], before[number] + count))
            for number, count in enumerate(np.bincount(numbers, minlength=len(names)))
        }
        return [(names[number], next(turns[number])) for number in numbers.tolist()]

    def _draws(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Index of the set of each batch of an epoch, and the number of draws of each set in earlier epochs."""
        shares = np.array([self.mean_batches[task] for task in self.sizes], dtype=np.float64)
        for number in range(len(self._drawn), epoch + 1):
            generator = np.random.default_rng([self.seed, number, 2])
            draws = generator.choice(len(shares), size=self.batches_per_epoch, p=shares / shares.sum())
            self._drawn.append(draws)
        before = [np.bincount(draws, minlength=len(shares)) for draws in self._drawn[:epoch]]
        return self._drawn[epoch], np.sum(before, axis=0) if before else np.zeros(len(shares), dtype=np.int64)

    def _pass(self, task: str, generator: np.random.Generator) -> list[np.ndarray]:
        """All rows of a set once, in batches."""
        order, size = generator.permutation(self.sizes[task]), self.batch_sizes[task]
        if task in self.shapes:
            order = arrange(order, self.shapes[task], window_rows=self.window * size)
        return _cut(order, size)

    def _turns(self, task: str, number: int, turns: range) -> Iterator[np.ndarray]:
        """The batches of a set's turns, counted from the start of training: they continue after its last epoch."""
        passes: dict[int, list[np.ndarray]] = {}
        for turn in turns:
            passed, position = divmod(turn, self.batches_of[task])
            if passed not in passes:
                passes[passed] = self._pass(task, np.random.default_rng([self.seed, number, passed, 1]))
            yield passes[passed][position]


def apportion(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return integers in proportion to `shares` that sum to `total`, or to more if each must be at least 1.

    Args:
        total: The sum.
        shares: Name → its share, in any unit.

    Returns:
        Name → its part of the sum.

    >>> apportion(10, {"a": 1, "b": 2})
    {'a': 3, 'b': 7}
    """
    sum_of_shares = sum(shares.values())
    exact = {name: total * share / sum_of_shares for name, share in shares.items()}
    counts = {name: int(part) for name, part in exact.items()}
    by_rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: total - sum(counts.values())]:
        counts[name] += 1
    return {name: max(1, count) for name, count in counts.items()}


def _cut(order: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Cut rows into batches. The last two get equal sizes if the rest is less than half a batch.

    A tail of one or two rows would teach a loss over the batch nothing and leave a process without work.
    """
    ends = list(range(batch_size, len(order), batch_size))
    if ends and (remainder := len(order) - ends[-1]) < batch_size / 2:
        ends[-1] -= (batch_size - remainder) // 2
    return np.split(order, ends)


class TokenBudget(Sampler[np.ndarray]):
    """Batches of similar length with at most `max_tokens` tokens, padding included. For passes without training.

    The longest come first, so that a batch too large for memory fails at once. With several processes each takes every
    `world`-th batch: nothing is padded or seen twice.

    Args:
        lengths: Tokens of each row.
        max_tokens: Tokens of a batch.
        rank: Number of this process.
        world: Number of processes.
        even: The last batch is repeated until each process has the same number of batches. Processes that wait for one
            another in each batch need it.
    """

    def __init__(
        self, lengths: np.ndarray, *, max_tokens: int, rank: int = 0, world: int = 1, even: bool = False
    ) -> None:
        order = np.argsort(-lengths, kind="stable")
        self.batches, first = [], 0
        while first < len(order):
            size = num_fitting(int(lengths[order[first]]), max_tokens)
            self.batches.append(order[first : first + size])
            first += size
        if even:
            self.batches += self.batches[-1:] * (-len(self.batches) % world)
        self.batches = self.batches[rank::world]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.batches)
