"""A sentence and a changed form of it, as the pair that a sentence encoder learns from when there are no pairs."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from encoders.text_collate import TextCollator
from encoders.token_table import TokenTable
from encoders.views import TokenViews
from encoders.views_text import TextViews
from schema.batch import Batch, Tokens
from schema.examples import Examples, Kind

ANCHOR, POSITIVE = range(2)


class ViewCollator(TextCollator):
    """In training, makes a positive pair of each sentence: the sentence, and what the views make of it.

    What is drawn depends on the seed, the number of the batch and the number of the sentence alone. When nothing is
    learnt, batches are those of every other encoder.

    tokenize        texts → their token numbers; may keep them
    tokenize_fresh  the same for texts that are seen once and not worth keeping
    changes_anchor  the anchor is changed as well, by draws of its own
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], TokenTable | Sequence[Sequence[int]]],
        pack: Callable[[TokenTable], Tokens],
        *,
        tokenize_fresh: Callable[[Sequence[str]], TokenTable | Sequence[Sequence[int]]],
        text_views: TextViews,
        token_views: TokenViews,
        changes_anchor: bool,
        seed: int,
    ) -> None:
        super().__init__(tokenize, pack)
        self._tokenize_fresh = tokenize_fresh
        self._text_views = text_views
        self._token_views = token_views
        self._sides = (ANCHOR, POSITIVE) if changes_anchor else (POSITIVE,)
        self._seed = seed
        self._translated: set[str] = set()

    def training_batch(self, examples: Examples, rows: np.ndarray, *, index: int) -> Batch:
        """The Batch of the given rows, which is the `index`-th of the stage."""
        numbers = examples.columns["text"][rows].astype(np.int64)
        count = len(numbers)
        tokens = self.token_lists(examples)[numbers]
        sides = {side: self._changed(examples, numbers, tokens, index, side) for side in self._sides}
        return Batch(
            task=examples.name,
            kind=Kind.POSITIVE_PAIR,
            tokens=self._pack(TokenTable.joined([sides.get(ANCHOR, tokens), sides[POSITIVE]])),
            # Two views are two texts, even where nothing was changed: each has a number of its own.
            sentence_ids=torch.from_numpy(np.concatenate([2 * numbers, 2 * numbers + 1])),
            columns={"anchor": torch.arange(count), "positive": torch.arange(count, 2 * count)},
            targets=None,
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )

    def _changed(
        self, examples: Examples, numbers: np.ndarray, tokens: TokenTable, index: int, side: int
    ) -> TokenTable:
        """Tokens of the sentences as the views change them."""
        generators = [np.random.default_rng([self._seed, index, number, side]) for number in numbers.tolist()]
        token_lists = list(tokens)
        if self._text_views:
            self._require_translations(examples)
            texts = [examples.sentences[number] for number in numbers]
            changed = [self._text_views(text, one) for text, one in zip(texts, generators, strict=True)]
            places = [place for place, text in enumerate(texts) if changed[place] != text]
            fresh = TokenTable.of(self._tokenize_fresh([changed[place] for place in places]))
            for place, ids in zip(places, fresh, strict=True):
                token_lists[place] = ids
        return TokenTable.of(
            [self._token_views(ids, one) for ids, one in zip(token_lists, generators, strict=True)]
        )

    def _require_translations(self, examples: Examples) -> None:
        """Once per set: a file that translates none of it is a mistake and not a view."""
        if self._text_views.translations is not None and examples.name not in self._translated:
            self._text_views.translations.require(examples.name, examples.sentences)
            self._translated.add(examples.name)
