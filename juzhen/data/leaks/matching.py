"""Find evaluation rows in training data: pairs, exact or near, and sentences in running text, and filter them out.

Running text is searched by hashes: each window of eight characters of the text is hashed by array operations, and a
sentence is compared only where the hash is that of its beginning. A sentence of fewer than eight characters matches
only a whole line, and so does one of fewer than four Latin words: "knowledge" and "python字符串" occur in many
texts that have not seen the evaluation.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.text import fold

NEAR = 0.7
"""Jaccard index of character trigrams from which on two texts are near duplicates: one changed character in 17."""

_PAD = "\0"
_BITS = 21  # of a code point: three fit into 63 bits, so a trigram is a number and never collides
_BLOCK = 100_000
_PIECE = 4096
_VERIFIED_AT_ONCE = 200_000
_ROUNDING = 1e-9


class NearIndex:
    """Index of texts, to find near duplicates of other texts: all pairs whose n-grams overlap enough, and no others.

    A similarity join with prefix filtering (Chaudhuri, Ganti, Kaushik 2006, A Primitive Operator for Similarity
    Joins, ICDE, and Bayardo, Ma, Srikant 2007, Scaling Up All Pairs Similarity Search, WWW). Two sets can only
    reach the Jaccard index t when they share one of their ⌊(1 − t)·size⌋ + 1 rarest elements. So few pairs are
    compared, and no pair is missed. The result does not depend on random hash functions as with MinHash.

    Args:
        texts: Texts of the index.
        threshold: Least Jaccard index |A ∩ B| / |A ∪ B| of the sets of trigrams, each text padded by one
            mark.
    """

    def __init__(self, texts: Sequence[str], *, threshold: float = NEAR) -> None:
        rows, grams = _trigrams(texts)
        self.threshold = threshold
        self._vocabulary, tokens = np.unique(grams, return_inverse=True)
        frequency = np.bincount(tokens, minlength=len(self._vocabulary))
        self._rank = np.empty(len(self._vocabulary), dtype=np.int64)
        self._rank[np.argsort(frequency, kind="stable")] = np.arange(len(self._vocabulary))
        rows, values = _distinct(rows, self._rank[tokens], len(self._vocabulary))
        self._sizes = np.bincount(rows, minlength=len(texts))
        self._sets = self._matrix(rows, values, len(texts))
        chosen = self._in_prefix(rows, self._sizes)
        self._prefixes = self._matrix(rows[chosen], values[chosen], len(texts)).T.tocsr()

    def search(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find every near pair of an indexed text and another text.

        Args:
            texts: The other texts.

        Returns:
            Indices into the index and indices into `texts`, both int64 (pairs,).
        """
        pairs = [
            (indexed, start + other)
            for start in range(0, len(texts), _BLOCK)
            for indexed, other in self._search_block(texts[start : start + _BLOCK])
        ]
        if not pairs:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([row for row, _ in pairs]), np.concatenate([other for _, other in pairs])

    def _search_block(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows, values, num_unknown = self._known_sets(texts)
        sizes = np.bincount(rows, minlength=len(texts))
        # Trigrams unknown to the index are rarer than all others: they come first in every prefix.
        chosen = self._in_prefix(rows, sizes) & (values >= num_unknown)
        prefixes = self._matrix(rows[chosen], values[chosen] - num_unknown, len(texts))
        is_known = values >= num_unknown
        sets = self._matrix(rows[is_known], values[is_known] - num_unknown, len(texts))
        for start in range(0, len(texts), _PIECE):
            candidates = (prefixes[start : start + _PIECE] @ self._prefixes).tocoo()
            other, indexed = candidates.row.astype(np.int64) + start, candidates.col.astype(np.int64)
            smaller = np.minimum(sizes[other], self._sizes[indexed])
            larger = np.maximum(sizes[other], self._sizes[indexed])
            possible = smaller >= self.threshold * larger - _ROUNDING
            other, indexed = other[possible], indexed[possible]
            near = self._jaccard(sets, sizes, other, indexed) >= self.threshold - _ROUNDING
            yield indexed[near], other[near]

    def _known_sets(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
        """Distinct trigrams by row and rising rank. Those unknown to the index are below `num_unknown`."""
        rows, grams = _trigrams(texts)
        distinct, tokens = np.unique(grams, return_inverse=True)
        positions = np.searchsorted(self._vocabulary, distinct)
        positions[positions == len(self._vocabulary)] = 0
        is_known = np.zeros(len(distinct), dtype=bool)
        if len(self._vocabulary):
            is_known = self._vocabulary[positions] == distinct
        num_unknown = len(distinct)
        order = np.arange(num_unknown)
        order[is_known] = num_unknown + self._rank[positions[is_known]]
        rows, values = _distinct(rows, order[tokens], num_unknown + len(self._vocabulary))
        return rows, values, num_unknown

    def _in_prefix(self, rows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """True for the elements of concatenated sets that belong to their set's prefix."""
        starts = np.cumsum(sizes) - sizes
        length = sizes - np.ceil(self.threshold * sizes - _ROUNDING).astype(np.int64) + 1
        return np.arange(len(rows)) - starts[rows] < length[rows]

    def _matrix(self, rows: np.ndarray, values: np.ndarray, num_rows: int) -> sparse.csr_matrix:
        shape = (num_rows, len(self._vocabulary))
        starts = np.searchsorted(rows, np.arange(num_rows + 1))
        return sparse.csr_matrix((np.ones(len(rows), dtype=np.int32), values, starts), shape=shape)

    def _jaccard(
        self, sets: sparse.csr_matrix, sizes: np.ndarray, other: np.ndarray, indexed: np.ndarray
    ) -> np.ndarray:
        shared = np.zeros(len(indexed), dtype=np.int64)
        for start in range(0, len(indexed), _VERIFIED_AT_ONCE):
            piece = slice(start, start + _VERIFIED_AT_ONCE)
            shared[piece] = sets[other[piece]].multiply(self._sets[indexed[piece]]).sum(axis=1).A1
        return shared / (sizes[other] + self._sizes[indexed] - shared)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Row and trigram (three code points in one number) of every position. A text of n characters has n."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    joined = _PAD + (_PAD * 2).join(texts) + _PAD
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    grams = (points[:-2] << (2 * _BITS)) | (points[1:-1] << _BITS) | points[2:]
    rows = np.repeat(np.arange(len(texts)), lengths)
    return rows, grams[np.arange(len(rows)) + 2 * rows]


def _distinct(rows: np.ndarray, values: np.ndarray, num_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Each (row, value) once, sorted by row and then by value."""
    keys = np.sort(rows * max(num_values, 1) + values)
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.divmod(keys, max(num_values, 1))


# Ideographs with their extensions, kana, hangul, and the punctuation of these scripts.
_CJK = (
    "\u3001-\u303f\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_SPACE_AT_CJK = re.compile(f" (?=[{_CJK}])|(?<=[{_CJK}]) ")
NO_WIDTH = re.compile("[\u00ad\u200b\u200c\u200d\u2060\ufeff]+")
_ALL_MARKS = re.compile(r"[\W_]+")
_WORD = re.compile(f"[^\\W_{_CJK}]+")


def normalize(text: str) -> str:
    """Fold a text and make runs of white space one space, with none next to a Chinese character.

    Args:
        text: Any text.

    Returns:
        NFKC, lower case, simplified characters.

    >>> normalize(" ＡＢＣ 是　什麼 ? ")
    'abc是什么?'
    """
    text = " ".join(fold(NO_WIDTH.sub("", text)).split())
    return text if text.isascii() or " " not in text else _SPACE_AT_CJK.sub("", text)


def without_end_marks(normalized: str) -> str:
    """Remove the punctuation around a normalized text, unless there is nothing else.

    Args:
        normalized: Output of `normalize`.

    Returns:
        The text from its first to its last letter or digit.

    >>> without_end_marks("“花呗怎么还款？”")
    '花呗怎么还款'
    """
    start, end = 0, len(normalized)
    while start < end and not normalized[start].isalnum():
        start += 1
    while start < end and not normalized[end - 1].isalnum():
        end -= 1
    return normalized[start:end] or normalized


def weight(text: str) -> int:
    """Return the length in Chinese characters. A Latin word or a number counts as two.

    Args:
        text: Punctuation does not count.

    Returns:
        Number of Chinese characters, or of characters of equal weight.

    Example:
        >>> weight("python字符串"), weight("a man is playing")
        (5, 8)
    """
    tokens = _WORD.findall(text)
    return 2 * len(tokens) + sum(map(str.isalnum, text)) - sum(map(len, tokens))


def letters_only(normalized: str) -> str:
    """Return the letters and digits of a normalized text, or the text itself if it has none.

    Args:
        normalized: Output of `normalize`.

    Returns:
        The text without spaces and marks.

    Example:
        >>> letters_only("a man, playing.")
        'amanplaying'
    """
    return _ALL_MARKS.sub("", normalized) or normalized


_COMBINATIONS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Hits:
    """Overlap of one training set and one evaluation split.

    Args:
        train_rows: int64 (hits,): training rows with the same pair, or with a pair of near sentences.
        evaluation_rows: int64 (hits,): their evaluation rows.
        is_exact: bool (hits,): both sentences are equal after normalization.
        exact_sentence: bool (evaluation rows,): a sentence of the row is in training.
        near_sentence: bool (evaluation rows,): a sentence near one of the row is in training.
    """

    train_rows: np.ndarray
    evaluation_rows: np.ndarray
    is_exact: np.ndarray
    exact_sentence: np.ndarray
    near_sentence: np.ndarray

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return evaluation rows with an exact pair, and those with a near pair only, both sorted.

        Returns:
            Two arrays of row numbers, each once.
        """
        exact = np.unique(self.evaluation_rows[self.is_exact])
        return exact, np.setdiff1d(self.evaluation_rows, exact)


def pair_columns(examples: Examples) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the pairs of every row. A triplet has a pair with each other text, a text has none.

    Args:
        examples: Rows of any kind.

    Returns:
        Both sides of each pair: indices into `examples.sentences`, each (rows,).
    """
    first, *further = TEXT_COLUMNS[examples.kind]
    if examples.kind is Kind.TRIPLET:
        further = [name for name in examples.columns if name != first]
    return [(examples.columns[first], examples.columns[other]) for other in further]


class PairIndex:
    """Index of the pairs of evaluation splits, to find them in training sets.

    Sentences are compared after `normalize`, and near ones by the trigrams of their letters (see `near`).

    Args:
        evaluation: Evaluation splits.
        threshold: Least similarity of a near pair, see `NearIndex`.
    """

    def __init__(self, evaluation: Sequence[Examples], *, threshold: float = NEAR) -> None:
        table: dict[str, int] = {}
        numbers = [
            {position: table.setdefault(text, len(table)) for position, text in _used(examples)}
            for examples in evaluation
        ]
        self._table = table
        self._near = NearIndex([letters_only(text) for text in table], threshold=threshold)
        self._starts = np.cumsum([0, *map(len, evaluation)])
        self._columns = [
            [_mapped(values, numbers_of_set) for values in examples.columns.values()]
            for examples, numbers_of_set in zip(evaluation, numbers, strict=True)
        ]
        keys, rows = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for one, texts, start in zip(evaluation, numbers, self._starts, strict=False):
            for first, right in pair_columns(one):
                keys.append(self._keys_of(_mapped(first, texts), _mapped(right, texts)))
                rows.append(start + np.arange(len(one)))
        every_key, every_row = np.concatenate(keys), np.concatenate(rows)
        order = np.argsort(every_key, kind="stable")
        self._keys, self._rows = every_key[order], every_row[order]

    def search(self, train: Examples) -> list[Hits]:
        """Return the overlap of a training set with each evaluation split, in their order.

        Args:
            train: The training set.

        Returns:
            One overlap for each split.
        """
        positions, texts = zip(*_used(train), strict=True) if len(train) else ((), ())
        exact, near = self._neighbours(texts)
        hits = _first_of_each(
            *self._pairs(train, dict(zip(positions, range(len(positions)), strict=True)), near)
        )
        is_exact, is_near = (np.isin(np.arange(len(self._table)), examples) for examples in (exact, near.own))
        return [self._hits_of(position, hits, is_exact, is_near) for position in range(len(self._columns))]

    def _neighbours(self, texts: Sequence[str]) -> tuple[np.ndarray, "_Neighbours"]:
        """Indices of the evaluation sentences that are among `texts`, and the neighbours of every text."""
        numbers = np.fromiter((self._table.get(text, -1) for text in texts), dtype=np.int64, count=len(texts))
        same = np.flatnonzero(numbers >= 0)
        row, other = self._near.search([letters_only(text) for text in texts])
        differs = numbers[other] != row
        row = np.concatenate([numbers[same], row[differs]])
        other = np.concatenate([same, other[differs]])
        is_exact = np.arange(len(row)) < len(same)
        order = np.argsort(other, kind="stable")
        starts = np.searchsorted(other[order], np.arange(len(texts) + 1))
        return numbers[same], _Neighbours(row[order], is_exact[order], starts)

    def _pairs(
        self, train: Examples, positions: dict[int, int], near: "_Neighbours"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training row, evaluation row over all splits, and True for exact matches, with repetitions."""
        hits = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
        for left, right in pair_columns(train):
            combinations = near.combinations(_mapped(left, positions), _mapped(right, positions))
            for rows, first, second, is_exact in combinations:
                keys = self._keys_of(first, second)
                low = np.searchsorted(self._keys, keys, side="left")
                counts = np.searchsorted(self._keys, keys, side="right") - low
                source, offset = _expanded(counts)
                hits.append((rows[source], self._rows[low[source] + offset], is_exact[source]))
        train_rows, rows, is_exact = (np.concatenate(parts) for parts in zip(*hits, strict=True))
        return train_rows, rows, is_exact

    def _hits_of(
        self,
        position: int,
        hits: tuple[np.ndarray, np.ndarray, np.ndarray],
        is_exact: np.ndarray,
        is_near: np.ndarray,
    ) -> Hits:
        start, end = self._starts[position], self._starts[position + 1]
        train_rows, rows, exact_pairs = hits
        is_here = (rows >= start) & (rows < end)
        columns = self._columns[position]
        exact_sentence = np.logical_or.reduce([is_exact[column] for column in columns])
        near_sentence = np.logical_or.reduce([is_near[column] for column in columns])
        return Hits(
            train_rows[is_here],
            rows[is_here] - start,
            exact_pairs[is_here],
            exact_sentence,
            exact_sentence | near_sentence,
        )

    def _keys_of(self, first: np.ndarray, right: np.ndarray) -> np.ndarray:
        """One number per unordered pair of sentence indices."""
        return np.minimum(first, right) * len(self._table) + np.maximum(first, right)


@dataclass(frozen=True)
class _Neighbours:
    """For each text, from `starts[i]` to `starts[i + 1]`: indices of equal and near evaluation sentences."""

    own: np.ndarray
    is_exact: np.ndarray
    starts: np.ndarray

    def combinations(
        self, left: np.ndarray, right: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Row, neighbour of its left text, neighbour of its right one, and True if both are equal to theirs."""
        degree = np.diff(self.starts)
        counts = degree[left] * degree[right]
        rows = np.flatnonzero(counts)
        if not len(rows):
            return
        pieces = np.cumsum(counts[rows]) // _COMBINATIONS_AT_ONCE
        for piece in np.split(rows, np.flatnonzero(np.diff(pieces)) + 1):
            source, offset = _expanded(counts[piece])
            is_here = piece[source]
            first = self.starts[left[is_here]] + offset // degree[right[is_here]]
            second = self.starts[right[is_here]] + offset % degree[right[is_here]]
            yield is_here, self.own[first], self.own[second], self.is_exact[first] & self.is_exact[second]


def _used(examples: Examples) -> list[tuple[int, str]]:
    """Index and normalized text of every sentence of the rows. A sampled set keeps the table of the whole set."""
    positions = np.unique(np.concatenate(list(examples.columns.values()))).tolist()
    return [(position, normalize(examples.sentences[position])) for position in positions]


def _mapped(values: np.ndarray, numbers: dict[int, int]) -> np.ndarray:
    return np.fromiter(map(numbers.__getitem__, values.tolist()), dtype=np.int64, count=len(values))


def _expanded(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index i repeated counts[i] times, and 0, 1, … within each repetition."""
    source = np.repeat(np.arange(len(counts)), counts)
    return source, np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)


def _first_of_each(
    train_rows: np.ndarray, rows: np.ndarray, is_exact: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each pair of rows once, exact if it is so in any order of its sentences."""
    order = np.lexsort((~is_exact, rows, train_rows))
    train_rows, rows, is_exact = train_rows[order], rows[order], is_exact[order]
    new = (np.diff(train_rows, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
    return train_rows[new], rows[new], is_exact[new]


LEAST_INSIDE = 8
"""Characters, and `weight`, of sentences that are searched inside of lines. Shorter ones occur by chance."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses no bits
_BUCKET_BITS = 24
_BLOCK_CHARACTERS = 2_000_000


class SentenceSearch:
    """Index of evaluation sentences. They are compared after `normalize`, without the marks around them.

    A sentence that begins or ends inside of a Latin word or a number of the line does not match: "he is late again" is
    not in "she is late again".

    Args:
        sentences: Evaluation sentences.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        self.by_text: dict[str, list[int]] = {}
        for number, sentence in enumerate(sentences):
            self.by_text.setdefault(without_end_marks(normalize(sentence)), []).append(number)
        inside = [text for text in self.by_text if min(len(text), weight(text)) >= LEAST_INSIDE]
        points = _code_points("".join(text[:LEAST_INSIDE] for text in inside))
        hashes = _hash_windows(points)[::LEAST_INSIDE]
        self._by_hash: dict[int, list[str]] = {}
        for key, text in zip(hashes.tolist(), inside, strict=True):
            self._by_hash.setdefault(key, []).append(text)
        self._hashes = np.unique(hashes)
        self._buckets = np.zeros(1 << _BUCKET_BITS, dtype=bool)
        self._buckets[_bucket(self._hashes)] = True

    def search(
        self, lines: Sequence[str], *, advance: Callable[[int], None] = lambda count: None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find sentences in lines.

        Args:
            lines: The lines.
            advance: Called with the number of lines done since the last call.

        Returns:
            Line, sentence, and True if the line is exactly the sentence. One entry per line and sentence,
            sorted.
        """
        hits: set[tuple[int, int, bool]] = set()
        start = 0
        while start < len(lines):
            end, size = start, 0
            while end < len(lines) and size < _BLOCK_CHARACTERS:
                size += len(lines[end])
                end += 1
            self._search_block([normalize(line) for line in lines[start:end]], start, hits)
            advance(end - start)
            start = end
        entries = np.array(sorted(hits), dtype=np.int64).reshape(-1, 3)
        return entries[:, 0], entries[:, 1], entries[:, 2].astype(bool)

    def _search_block(self, lines: list[str], start: int, hits: set[tuple[int, int, bool]]) -> None:
        whole_lines: dict[int, str] = {}
        for position, line in enumerate(lines):
            text = without_end_marks(line)
            if text in self.by_text:
                whole_lines[position] = text
                hits.update((start + position, number, True) for number in self.by_text[text])
        joined = "\n".join(lines)
        line_starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
        for place, text in self._inside(joined):
            position = int(np.searchsorted(line_starts, place, side="right")) - 1
            if whole_lines.get(position) != text:
                hits.update((start + position, number, False) for number in self.by_text[text])

    def _inside(self, joined: str) -> Iterable[tuple[int, str]]:
        """Every position of one of the longer sentences, with whole words."""
        hashes = _hash_windows(_code_points(joined))
        positions = np.flatnonzero(self._buckets[_bucket(hashes)])
        positions = positions[np.isin(hashes[positions], self._hashes)]
        for position, key in zip(positions.tolist(), hashes[positions].tolist(), strict=True):
            for text in self._by_hash[key]:
                if joined.startswith(text, position) and not _cuts_a_word(
                    joined, position, position + len(text)
                ):
                    yield position, text


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)


def _hash_windows(points: np.ndarray) -> np.ndarray:
    """Polynomial hash modulo 2^64 of each window of LEAST_INSIDE characters, uint64 (windows,)."""
    count = max(len(points) - LEAST_INSIDE + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(LEAST_INSIDE):
        hashes *= _FACTOR
        hashes += points[offset : offset + count]
    return hashes * _FACTOR


def _bucket(hashes: np.ndarray) -> np.ndarray:
    return hashes >> np.uint64(64 - _BUCKET_BITS)


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    """True if a Latin word or a number continues across the start or the end."""
    return any(
        0 < edge < len(text) and _is_spelt(text[edge - 1]) and _is_spelt(text[edge]) for edge in (start, end)
    )


def _is_spelt(character: str) -> bool:
    """True for letters of alphabets with spaces between words, and digits. False for Chinese characters."""
    return character.isalnum() and ord(character) < 0x2E80


class LeakFilter:
    """Filter of training rows that would leak rows of `evaluation`.

    A row of pairs leaks if one of its pairs is in an evaluation row, in either order, exactly or nearly. A text leaks
    if it contains a sentence of an evaluation row (see `matching`).

    Args:
        evaluation: Evaluation splits.
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self.evaluation = evaluation

    @cached_property
    def _pairs(self) -> PairIndex:
        return PairIndex(self.evaluation)

    @cached_property
    def _sentences(self) -> SentenceSearch:
        return SentenceSearch(
            sentence for examples in self.evaluation for sentence in used_sentences(examples)
        )

    def leaky_rows_of(self, train: Examples) -> np.ndarray:
        """Find the training rows to leave out. Equal rows give equal results.

        Args:
            train: Rows of pairs, or texts.

        Returns:
            Row numbers, int64, sorted.
        """
        if not self.evaluation or not len(train):
            return np.empty(0, dtype=np.int64)
        if pair_columns(train):
            return np.unique(np.concatenate([hits.train_rows for hits in self._pairs.search(train)]))
        return np.unique(self._sentences.search(train.texts("text"))[0])

    def without_leaks(self, train: Examples) -> Examples:
        """Remove the leaky rows of a set.

        Args:
            train: Rows of pairs, or texts.

        Returns:
            The other rows. `num_leaky` counts the removed ones.

        Raises:
            UserError: No row is left.
        """
        leaky = self.leaky_rows_of(train)
        if len(train) and len(leaky) == len(train):
            raise UserError(
                f"{train.name}: all {len(train)} training rows are also in sets that this job evaluates "
                f"on, and filter_leaks=true leaves them out. Evaluate on other sets, or choose filter_leaks=false"
            )
        remaining = train.select(np.setdiff1d(np.arange(len(train)), leaky)) if len(leaky) else train
        return replace(remaining, num_leaky=len(leaky))


def used_sentences(examples: Examples) -> list[str]:
    """Return the sentences of the rows. A sampled set keeps the table of the whole set.

    Args:
        examples: Rows of any kind.

    Returns:
        Each sentence once, in the order of the table.
    """
    positions = np.unique(np.concatenate(list(examples.columns.values())))
    return [examples.sentences[position] for position in positions]


@dataclass(frozen=True)
class Seen:
    """Rows of one evaluation split that training has seen.

    Args:
        rows: Indices of the seen rows, int64, sorted. For judgements those of the queries, from 0.
        share: Their share of the split.
        by_set: Training set → number of these rows in it. Sets without any are left out, and sets may
            overlap.
    """

    rows: np.ndarray
    share: float
    by_set: Mapping[str, int]


class SeenRows:
    """Account of training rows, and of the rows of `evaluation` that they leak.

    A row leaks by the same pair in either order, or by a nearly equal one (see `matching`). Sets without pairs have
    nothing to compare. Nothing is computed before it is requested.

    Args:
        evaluation: Evaluation splits.
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self._evaluation = [examples for examples in evaluation if pair_columns(examples)]
        self._learnt: list[Examples] = []
        self._found: list[list[np.ndarray]] = []  # for each of `_learnt`: seen rows of each split

    @cached_property
    def _index(self) -> PairIndex:
        return PairIndex(self._evaluation)

    def learn(self, train: Mapping[str, Examples]) -> None:
        """Add training sets, after conversion and limit.

        Args:
            train: Name → rows. A set that was added before, and sets without pairs, change nothing.
        """
        for examples in train.values():
            if (
                pair_columns(examples)
                and len(examples)
                and not any(examples is before for before in self._learnt)
            ):
                self._learnt.append(examples)

    def seen(self) -> dict[str, Seen]:
        """Return `split/dataset` → Seen for every evaluation split with pairs, from all sets so far.

        Returns:
            Counts of evaluation rows that training sets hold. {} without evaluation splits of pairs.
        """
        if not self._evaluation:
            return {}
        for examples in self._learnt[len(self._found) :]:
            self._found.append([np.unique(hits.evaluation_rows) for hits in self._index.search(examples)])
        return {
            f"{examples.split}/{examples.name}": self._of(number)
            for number, examples in enumerate(self._evaluation)
        }

    def _of(self, position: int) -> Seen:
        by_set: dict[str, np.ndarray] = {}
        for examples, rows_of_split in zip(self._learnt, self._found, strict=True):
            by_set[examples.name] = np.union1d(
                by_set.get(examples.name, rows_of_split[position]), rows_of_split[position]
            )
        evaluated = self._evaluation[position]
        rows = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *by_set.values()]))
        counts = {name: len(rows_of_set) for name, rows_of_set in by_set.items() if len(rows_of_set)}
        scored = len(evaluated)
        if evaluated.kind in JUDGED:
            queries, of_rows = np.unique(evaluated.columns["query"], return_inverse=True)
            rows, scored = np.unique(of_rows[rows]), len(queries)
        return Seen(rows, len(rows) / max(scored, 1), counts)
