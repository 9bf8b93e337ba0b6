"""Sentences as views change them: first their texts, which are tokenised again, then their tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from juzhen.core.examples import Examples
from juzhen.encoders.token_table import TokenTable
from juzhen.encoders.views import TokenViews
from juzhen.encoders.views_text import TextViews


class SentenceChanges:
    """The changes that a configuration asks for.

    tokenize  token numbers of texts that are seen once and not worth keeping
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], TokenTable | Sequence[Sequence[int]]],
        *,
        text_views: TextViews,
        token_views: TokenViews,
    ) -> None:
        self._tokenize = tokenize
        self._text_views = text_views
        self._token_views = token_views
        self._translated: set[str] = set()

    def __call__(
        self,
        examples: Examples,
        numbers: np.ndarray,
        tokens: TokenTable,
        generators: Sequence[np.random.Generator],
    ) -> list[np.ndarray]:
        """Tokens of the sentences with these numbers, changed; each draws from a generator of its own."""
        token_lists = list(tokens)
        if self._text_views:
            self._require_translations(examples)
            texts = [examples.sentences[number] for number in numbers]
            changed = [self._text_views(text, one) for text, one in zip(texts, generators, strict=True)]
            places = [place for place, text in enumerate(texts) if changed[place] != text]
            fresh = self._tokenize([changed[place] for place in places]) if places else []
            for place, ids in zip(places, TokenTable.of(fresh), strict=True):
                token_lists[place] = ids
        return [self._token_views(ids, one) for ids, one in zip(token_lists, generators, strict=True)]

    def _require_translations(self, examples: Examples) -> None:
        """Once per set: a file that translates none of it is a mistake and not a view."""
        if self._text_views.translations is not None and examples.name not in self._translated:
            self._text_views.translations.require(examples.name, examples.sentences)
            self._translated.add(examples.name)
