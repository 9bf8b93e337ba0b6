"""Sentences that are changed while they are learnt from: how, and which of those of rows whose labels stay."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.core.examples import Examples, Side
from juzhen.core.paths import BUILTIN
from juzhen.core.safe_open import read_bytes, read_text
from juzhen.core.text import split_lines
from juzhen.encoders.folder_settings import naming
from juzhen.encoders.masking import continues_word
from juzhen.encoders.tokens import TokenTable, special_around

TEXT_VIEWS = ("translation", "synonym", "sentence_order")
"""Changes of the text, which is then tokenised again."""

SHARES = ("delete", "repeat", "cutoff", "synonym")
"""Changes whose size is a share of the words."""


@dataclass(frozen=True)
class Views:
    """Changes of a sentence, and their strength.

    `sentence_order` permutes the sentences of a text and has no number. A word is a hanzi, or a Latin word or number
    with all its tokens.

    Attributes:
        names: Changes in their order. Changes of the text precede changes of the tokens. Translation is first.
        delete: Probability that a word is dropped (Wei and Zou 2019, https://arxiv.org/abs/1901.11196).
        repeat: Probability that a word is doubled (Wu et al. 2022, https://arxiv.org/abs/2109.04380).
        cutoff: Share of the words in a dropped run (Shen et al. 2020, https://arxiv.org/abs/2009.13818).
        shuffle: Window in which words are permuted (over whole sentences: Yan et al. 2021,
            https://arxiv.org/abs/2105.11741).
        synonym: Probability that a word of the lexicon is replaced.
        translations: File of round-trip translations, one of which replaces the sentence. None for no file.
        group: Key of the configuration for messages.

    Raises:
        UserError: An unknown change, changes in the wrong order, or a missing file of translations.
    """

    names: tuple[str, ...]
    delete: float
    repeat: float
    cutoff: float
    shuffle: int
    synonym: float
    translations: str | None
    group: str = "model"

    def __post_init__(self) -> None:
        key = f"{self.group}.views={list(self.names)}"
        for name in self.names:
            require_choice(f"{self.group}.views", name, VIEWS)
        if (order := sorted(self.names, key=_rank)) != list(self.names):
            raise UserError(
                f"{key}: {', '.join(TEXT_VIEWS)} change the text and must come first, translation before the others. "
                f"Type [{','.join(order)}]."
            )
        for name in SHARES:
            require_number(f"{self.group}.{name}", getattr(self, name), 0, 1, open_low=True, open_high=True)
        require_number(f"{self.group}.shuffle", self.shuffle, 2)
        if "translation" in self.names and not Path(self.translations or "").expanduser().is_file():
            raise UserError(
                f"{self.group}.translations={self.translations or 'null'}: no such file. Expected a table, each line a "
                "text, a tab and its translation there and back"
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any], *, group: str = "model") -> "Views":
        """Read the changes from a configuration.

        Args:
            settings: `views` and the strength of each change, of a model or of the augmentation.
            group: Group of these keys, for messages.

        Returns:
            The changes with their strengths.
        """
        keys = ("delete", "repeat", "cutoff", "shuffle", "synonym", "translations")
        return cls(tuple(settings["views"]), **{key: settings[key] for key in keys}, group=group)

    @property
    def of_text(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in TEXT_VIEWS)

    @property
    def of_tokens(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in TEXT_VIEWS)


def _rank(name: str) -> int:
    """Position of a change in the only possible order: 0 reads the original text, 1 any text."""
    return {"translation": 0}.get(name, 1 if name in TEXT_VIEWS else 2)


def delete(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Drop each word with probability `share`, and keep at least one.

    Args:
        numbers_of_words: Number of each word, in the order of the sentence. At least one.
        share: Between 0 and 1.
        generator: Source of the draws.

    Returns:
        The numbers kept, in their order. At least one.
    """
    is_kept = generator.random(len(numbers_of_words)) >= share
    is_kept[generator.integers(len(numbers_of_words))] |= not is_kept.any()
    return numbers_of_words[is_kept]


def repeat(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Each word twice with probability `share`.

    Args:
        numbers_of_words: Number of each word, in the order of the sentence.
        share: Between 0 and 1.
        generator: Source of the draws.

    Returns:
        The numbers in their order, a repeated one twice in a row.
    """
    return np.repeat(numbers_of_words, 1 + (generator.random(len(numbers_of_words)) < share))


def cutoff(numbers_of_words: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Drop a random run of words, and keep at least one: span cutoff (Shen et al. 2020, https://arxiv.org/abs/2009.13818).

    Their token cutoff removes single words anywhere, as `delete` does here. No word is replaced by a mask.

    Args:
        numbers_of_words: Number of each word, in the order of the sentence. At least one.
        share: Length of the run as a share of the words.
        generator: Source of the draws.

    Returns:
        The numbers outside the run, in their order.
    """
    size = min(round(share * len(numbers_of_words)), len(numbers_of_words) - 1)
    start = int(generator.integers(len(numbers_of_words) - size + 1))
    return np.delete(numbers_of_words, slice(start, start + size))


def shuffle(numbers_of_words: np.ndarray, window: int, generator: np.random.Generator) -> np.ndarray:
    """Permute words within windows. The end of the first window is drawn, so that no position is always a border.

    Args:
        numbers_of_words: Number of each word, in the order of the sentence.
        window: Words of a window, at least 2.
        generator: Source of the draws.

    Returns:
        All numbers, permuted.
    """
    windows = (np.arange(len(numbers_of_words)) + generator.integers(window)) // window
    return numbers_of_words[np.lexsort((generator.random(len(numbers_of_words)), windows))]


TOKEN_VIEWS: dict[str, Callable[[np.ndarray, Any, np.random.Generator], np.ndarray]] = {
    "delete": delete,
    "repeat": repeat,
    "cutoff": cutoff,
    "shuffle": shuffle,
}
"""Name in `model.views` → function of word numbers, which are chosen and ordered."""

VIEWS = (*TOKEN_VIEWS, *TEXT_VIEWS)


class TokenViews:
    """Changes of tokens. Nothing is tokenized again, so token tables stay the same.

    Args:
        views: Changes and their strength. Those of the text are ignored.
        tokenizer: Its vocabulary decides the bounds of words.
        max_length: Tokens of a sentence, special tokens included. Tokens that repetition pushes beyond it are
            truncated.
        prompt: Prompt of every sentence, which is not changed.
    """

    def __init__(
        self, views: Views, tokenizer: PreTrainedTokenizerBase, *, max_length: int, prompt: str = ""
    ) -> None:
        self._changes = [(TOKEN_VIEWS[name], getattr(views, name)) for name in views.of_tokens]
        self._before, self._after = special_around(tokenizer, prompt=prompt)
        self._room = max_length - self._before - self._after
        numbers = tokenizer.get_vocab()
        self._continues = np.zeros(max(numbers.values()) + 1, dtype=bool)
        self._continues[[number for token, number in numbers.items() if continues_word(token, numbers)]] = (
            True
        )

    def __call__(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The tokens of a changed sentence, between the special tokens of `ids`."""
        last = len(ids) - self._after
        body = ids[self._before : last]
        if not len(body) or not self._changes:
            return ids
        begins = ~self._continues[body]
        begins[0] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(body))
        numbers_of_words = np.arange(len(starts))
        for change, amount in self._changes:
            numbers_of_words = change(numbers_of_words, amount, generator)
        pieces = np.concatenate([body[starts[word] : ends[word]] for word in numbers_of_words])
        return np.concatenate([ids[: self._before], pieces[: self._room], ids[last:]])


LEXICON = BUILTIN / "lexicon"

_SENTENCE_END = re.compile(
    r"[。！？；…]+[”’」』）》]*\s*"  # Chinese
    r"|(?:(?<=[a-z0-9]{2})\.|[!?;])[.!?;]*[\"'”’)\]]*\s+"  # Latin: not the points of U.S. and Dr.
    r"|\n+"
)

_RUN = re.compile(r"[A-Za-z]+|[\u4e00-\u9fff]+")


class Synonyms:
    """Chinese and English words with the same meaning.

    In Chinese, which has no spaces, the longest known word is matched from left to right. Latin words match as whole
    words in any case, and the replacement keeps a leading capital.

    Attributes:
        groups: Words with the same meaning. A word is in one group only.
    """

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._others: dict[str, list[str]] = {}
        for group in groups:
            for word in group:
                self._others[word] = [other for other in group if other != word]
        self._longest = max(map(len, self._others), default=0)

    def __len__(self) -> int:
        return len(self._others)

    def replaced(self, text: str, generator: np.random.Generator, share: float) -> str:
        """Replace known words by synonyms.

        Args:
            text: Chinese, English or both. Other signs stay.
            generator: Source of the draws.
            share: Probability that a known word is replaced.

        Returns:
            The text with synonyms. It may equal the original.
        """

        def run(match: re.Match[str]) -> str:
            return "".join(self._drawn(word, share, generator) for word in self._words(match[0]))

        return _RUN.sub(run, text)

    def _drawn(self, word: str, share: float, generator: np.random.Generator) -> str:
        synonyms = self._others.get(word.lower())
        if synonyms is None or generator.random() >= share:
            return word
        other = synonyms[int(generator.integers(len(synonyms)))]
        return other.capitalize() if word[0].isupper() else other

    def _words(self, run: str) -> list[str]:
        """Words of a run: a Latin run is one word, a run of hanzi is split into known words and single characters."""
        if run.isascii():
            return [run]
        parts, start = [], 0
        while start < len(run):
            sizes = range(min(self._longest, len(run) - start), 1, -1)
            size = next((size for size in sizes if run[start : start + size] in self._others), 1)
            parts.append(run[start : start + size])
            start += size
        return parts


@cache
def builtin_synonyms() -> Synonyms:
    """The lexicon that comes with juzhen: a line is a group, its words separated by tabs.

    Returns:
        Groups of synonyms, read once.
    """
    rows = [line for path in sorted(LEXICON.glob("*.tsv")) for line in read_text(path).split("\n")]
    return Synonyms(line.split("\t") for line in rows if line and not line.startswith("#"))


class Translations:
    """Sentences that were translated into another language and back.

    The file is UTF-8 without a header: text, tab, translation, and more translations after further tabs. A text may
    have several lines.

    Args:
        path: The file.
        group: Key of the configuration that names the file, for messages.

    Raises:
        UserError: A line without a translation.
    """

    def __init__(self, path: str | Path, *, group: str = "model") -> None:
        self.path = Path(path).expanduser()
        self.group = group
        self._of: dict[str, list[str]] = {}
        with naming(f"{group}.translations={path}"):
            rows = split_lines(read_bytes(self.path).decode("utf-8-sig"))
        for number, line in enumerate(rows, start=1):
            text, *translations = (part.strip() for part in line.split("\t"))
            if not line.strip():
                continue
            if not text or not translations or not all(translations):
                raise UserError(
                    f"{path}:{number}: expected a text, a tab and its translation there and back, got {line[:60]!r}"
                )
            self._of.setdefault(text, []).extend(translations)

    def drawn(self, text: str, generator: np.random.Generator) -> str:
        """Draw a translation of the text. The text itself is returned if the file lacks it.

        Args:
            text: As in the file, without blanks around it.
            generator: Source of the draw.

        Returns:
            One of the translations in the file, or `text`.
        """
        translations = self._of.get(text)
        return text if translations is None else translations[int(generator.integers(len(translations)))]

    def require(self, name: str, texts: Iterable[str]) -> None:
        """Raise UserError if the file has no text of a set.

        Args:
            name: Name of the set, for the message.
            texts: Texts of the set. They are read up to the first known one.

        Raises:
            UserError: The file has none of the texts.
        """
        example = ""
        for text in texts:
            if text in self._of:
                return
            example = example or text
        first = next(iter(self._of), "")
        raise UserError(
            f"{self.group}.translations={self.path}: has no sentence of {name}, such as {example[:30]!r}. Its first "
            f"text is {first[:30]!r}. Translate the sentences of {name}, or leave translation out of {self.group}.views"
        )


class TextViews:
    """The changes of texts that a configuration asks for, in its order.

    Args:
        views: Changes and their strength. Those of the tokens are ignored.
    """

    def __init__(self, views: Views) -> None:
        self.translations: Translations | None = None
        self._changes: list[Callable[[str, np.random.Generator], str]] = []
        for name in views.of_text:
            if name == "translation":
                self.translations = Translations(cast(str, views.translations), group=views.group)
                self._changes.append(self.translations.drawn)
            elif name == "synonym":
                self._changes.append(partial(builtin_synonyms().replaced, share=views.synonym))
            else:
                self._changes.append(reordered)

    def __bool__(self) -> bool:
        return bool(self._changes)

    def __call__(self, text: str, generator: np.random.Generator) -> str:
        for change in self._changes:
            text = change(text, generator)
        return text


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without the blanks around them.

    Args:
        text: Chinese or English. A sentence ends with its punctuation, or with the line.

    Returns:
        The sentences in their order. A text of blanks has none.

    Example:
        >>> sentences_of("今天下雨。“走吧！”他说 Dr. Li came. We left")
        ['今天下雨。', '“走吧！”', '他说 Dr. Li came.', 'We left']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces = [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


def reordered(text: str, generator: np.random.Generator) -> str:
    """Permute the sentences of a text. A single sentence is returned unchanged.

    Args:
        text: A last sentence without punctuation gets a full stop.
        generator: Source of the order.

    Returns:
        The sentences in random order, with a space after those that end with an ASCII sign.
    """
    pieces = sentences_of(text)
    if len(pieces) < 2:
        return text
    if pieces[-1][-1].isalnum():  # it may come to stand before another one
        pieces[-1] += "." if pieces[-1][-1].isascii() else "。"
    shuffled = [pieces[number] for number in generator.permutation(len(pieces))]
    return "".join(piece + " " * piece[-1].isascii() for piece in shuffled).rstrip()


DRAWS = 2
"""Last number of the seed, so that nothing is drawn here that a ViewCollator draws."""


class SentenceChanges:
    """Configured changes: first of texts, which are tokenized again, then of their tokens.

    Args:
        tokenize: Tokenizer without a cache, because changed texts are read once.
        text_views: Changes of texts.
        token_views: Changes of tokens.
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
        """Return the tokens of changed sentences. Each sentence has its own generator."""
        token_lists = list(tokens)
        if self._text_views:
            self._require_translations(examples)
            texts = [examples.sentences[number] for number in numbers]
            changed = [
                self._text_views(text, generator) for text, generator in zip(texts, generators, strict=True)
            ]
            rows = [row for row, text in enumerate(texts) if changed[row] != text]
            fresh = self._tokenize([changed[row] for row in rows]) if rows else []
            for row, ids in zip(rows, TokenTable.of(fresh), strict=True):
                token_lists[row] = ids
        return [
            self._token_views(ids, generator) for ids, generator in zip(token_lists, generators, strict=True)
        ]

    def _require_translations(self, examples: Examples) -> None:
        """Once per set: a file that translates none of it is a mistake and not a view."""
        if self._text_views.translations is not None and examples.name not in self._translated:
            self._text_views.translations.require(examples.name, examples.sentences)
            self._translated.add(examples.name)


class Augmentation:
    """Changes each sentence of a training batch with a probability.

    The draw depends only on the seed, the batch number and the sentence number. A resumed run draws the same, and so
    does each of several processes. A sentence that occurs twice in a batch is changed in the same way. A changed
    sentence keeps its number, so losses still recognise equal texts.

    Args:
        changes: Changes of the sentence after its prompt.
        probability: Share of the sentences to change.
        sets: Names of the sets to change. None changes all.
        seed: Seed of the draws.
        of_sides: Changes of queries and of documents with their own prompts.
    """

    def __init__(
        self,
        changes: SentenceChanges,
        *,
        probability: float,
        sets: Collection[str] | None,
        seed: int,
        of_sides: Mapping[int, SentenceChanges] = MappingProxyType({}),
    ) -> None:
        self._changes = {Side.EVERY: changes, **of_sides}
        self._probability = probability
        self._sets = sets
        self._seed = seed

    def __call__(
        self, examples: Examples, numbers: np.ndarray, tokens: TokenTable, *, index: int, sides: np.ndarray
    ) -> TokenTable:
        """Return the tokens of sentences in the `index`-th batch of the stage.

        Args:
            examples: Rows with the table of sentences.
            numbers: Numbers of the sentences.
            tokens: Their original tokens.
            index: Number of the batch.
            sides: Side of each sentence.
        """
        if self._sets is not None and examples.name not in self._sets:
            return tokens
        generators = [
            np.random.default_rng([self._seed, index, number, DRAWS]) for number in numbers.tolist()
        ]
        chosen = [row for row, generator in enumerate(generators) if generator.random() < self._probability]
        token_lists = list(tokens)
        for side in np.unique(sides).tolist():
            rows = [row for row in chosen if sides[row] == side]
            of_rows = [generators[row] for row in rows]
            changed = self._changes[side](examples, numbers[rows], tokens[rows], of_rows)
            for row, ids in zip(rows, changed, strict=True):
                token_lists[row] = ids
        return TokenTable.of(token_lists)
