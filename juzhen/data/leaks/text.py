"""Lines of running text that hold an evaluation sentence: as the whole line, or anywhere inside it.

Every place of the text is hashed together with the seven characters behind it, by array operations over a block
of lines; only where the hash is that of the beginning of a sentence is the sentence compared. A sentence of
fewer than eight characters counts only as a whole line. So does one of fewer than four Latin words: "knowledge"
and "python字符串" stand in many a text that has not seen the evaluation.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from juzhen.data.leaks.normalize import normalize, weight, without_end_marks

LEAST_INSIDE = 8
"""Characters, and `weight`, from which a sentence is looked for inside of lines; shorter ones stand there by chance."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
_BUCKET_BITS = 24
_BLOCK_CHARACTERS = 2_000_000


class SentenceSearch:
    """Evaluation sentences, ready to be looked for. Compared after `normalize`, without the marks around them.

    A sentence that begins or ends inside of a Latin word or a number of the line is not there: "he is late again"
    is not in "she is late again".
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
        """Line, sentence number, and whether the line is nothing else; one entry per line and sentence, sorted.

        advance  told how many lines are done since the last call
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
        """Every place where one of the longer sentences stands, words being whole."""
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
    """Whether a Latin word or a number goes on across the start or the end."""
    return any(
        0 < edge < len(text) and _is_spelt(text[edge - 1]) and _is_spelt(text[edge]) for edge in (start, end)
    )


def _is_spelt(character: str) -> bool:
    """Letters of alphabets written with spaces between words, and digits; no Chinese character."""
    return character.isalnum() and ord(character) < 0x2E80
