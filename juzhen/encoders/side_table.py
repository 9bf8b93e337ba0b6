"""Tokens of sentences that are read as queries, as documents, or as both, each behind its prompt."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int

from juzhen.core.batch import Tokens
from juzhen.core.examples import Side
from juzhen.encoders.token_table import CachedTokenizer, TokenTable


class SideTable:
    """A sentence as a Side reads it has the place side × number of sentences + its number; made when it is asked for.

    tokens  of each place, none where nobody has asked yet
    """

    def __init__(self, sentences: Sequence[str], tokenizer: CachedTokenizer) -> None:
        self.sentences = sentences
        self._tokenizer = tokenizer
        size = len(Side) * len(sentences)
        self._known = np.zeros(size, dtype=bool)
        nothing = np.zeros(size, dtype=np.int64)
        self.tokens = TokenTable(np.empty(0, dtype=np.int32), nothing, nothing)

    def places(
        self, numbers: Int[np.ndarray, "*texts"], sides: Int[np.ndarray, "*texts"]
    ) -> Int[np.ndarray, "*texts"]:
        """Where sentences are, each read by its Side; equal where two sides have the same prompt."""
        codes = self._tokenizer.sides[sides].astype(np.int64)
        places = codes * len(self.sentences) + numbers
        self._learn(np.unique(places[~self._known[places]]))
        return places

    def unpooled(self, places: Int[np.ndarray, "sentences"]) -> Int[np.ndarray, "sentences"]:
        """Tokens of each that pooling leaves out."""
        of_sides = np.array([self._tokenizer.reading(side).unpooled for side in Side])
        return of_sides[places // len(self.sentences)]

    @property
    def lengths(self) -> Int[np.ndarray, "sentences"]:
        """Tokens of each sentence, by the Side by which it has most."""
        return self.tokens.lengths.reshape(len(Side), -1).max(axis=0)

    def _learn(self, places: Int[np.ndarray, "places"]) -> None:
        for side in Side if len(places) else ():
            chosen = places[places // len(self.sentences) == side]
            if not len(chosen):
                continue
            tokenize = self._tokenizer.reading(side)
            fresh = tokenize([self.sentences[place] for place in (chosen % len(self.sentences)).tolist()])
            old = self.tokens
            starts, ends = old.starts.copy(), old.ends.copy()
            ends[chosen] = len(old.ids) + np.cumsum(fresh.lengths)
            starts[chosen] = ends[chosen] - fresh.lengths
            self.tokens = TokenTable(np.concatenate([old.ids, fresh.flat()]), starts, ends)
            self._known[chosen] = True


def leave_out(tokens: Tokens, unpooled: Int[np.ndarray, "sentences"]) -> Tokens:
    """The tokens with what pooling leaves out of each sentence, which come in the order in which they were packed."""
    if (unpooled == unpooled[0]).all():
        tokens.unpooled = int(unpooled[0])
    else:
        tokens.unpooled = torch.empty_like(tokens.lengths)
        tokens.unpooled[tokens.inverse_permutation] = torch.from_numpy(unpooled)
    return tokens
