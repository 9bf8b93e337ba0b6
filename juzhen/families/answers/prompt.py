"""The text that asks a language model about a query and a document, and its token numbers.

Each side is tokenised once, together with its part of the text around it. The tokens of a pair are those of
both sides. A check of tokenizer and text makes sure that these are the tokens of the whole text.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Int
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Side
from juzhen.core.text import short
from juzhen.encoders.asymmetric import ROLES
from juzhen.encoders.folder_settings import ANOTHER, naming
from juzhen.encoders.pair_encoder import PairTemplate
from juzhen.encoders.tokens import TokenTable, runs, tokenized

LINES = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
CHAT = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    f"{LINES}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
"""Instruction of Qwen3-Reranker (Zhang et al. 2025, https://arxiv.org/abs/2506.05176, section 2)."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"

PLACES = ("instruction", "query", "document")
MARKS = {"query": "queryplaceofapair", "document": "documentplaceofapair"}
Format = Literal["flat", "structured", "plain"]
"""A chat template takes the content of a message as a text, or as a list of parts · pairs are read without one."""

ENDS = ("a", "Z", "7", "今", "!", ".", "-", "\n", " ", "”", "\t", ">", "é")
"""Characters at the ends of texts that a tokenizer might join to their neighbours."""


def chat_template(text: str) -> str:
    """The Jinja template of a text with the places {query} and {document}, and {instruction} where one may be given.

    Args:
        text: Holds {query} before {document}, each once.

    Returns:
        A template of messages with the roles system, query and document.

    Raises:
        UserError: The text has no place for both, in this order.
    """
    parts = _pieces(text)
    roles = {"instruction": "system", "query": "query", "document": "document"}
    content = '{{%- for message in messages if message.role == "{role}" -%}}{{{{- message.content -}}}}{{%- endfor -%}}'
    return "".join(
        content.format(role=roles[part])
        if is_place
        else "{{- " + json.dumps(part, ensure_ascii=False) + " -}}"
        for part, is_place in parts
        if part
    )


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, and whether each is the name of a place."""
    pieces, remainder = [], text
    while slots := [(remainder.find(f"{{{name}}}"), name) for name in PLACES if f"{{{name}}}" in remainder]:
        start, name = min(slots)
        pieces += [(remainder[:start], False), (name, True)]
        remainder = remainder[start + len(name) + 2 :]
    if unknown := [name for name in re.findall(r"\{(\w+)\}", text) if name not in PLACES]:
        raise UserError(
            f"template={short(repr(text))}: no place {{{unknown[0]}}}. {nearest(unknown[0], PLACES)}"
        )
    names = [name for name, is_place in pieces if is_place and name != "instruction"]
    if names != ["query", "document"]:
        raise UserError(
            f"template={short(repr(text))}: expected the places {{query}} and then {{document}}, each once"
        )
    return [*pieces, (remainder, False)]


@dataclass(frozen=True)
class AnswerPrompt:
    """`before query between document after`, tokenised in two parts.

    Attributes:
        before, between, after: Parts of the text around query and document.
        cut: Number of characters of `between` tokenised with the query.
        format: As in a chat template.
        tail: The last tokens, which are equal for all documents.
        fixed: Number of tokens of the text without query and document.
        margins, num_special: As in `PairTemplate`. The text around a side counts as part of the side.
    """

    before: str
    between: str
    after: str
    cut: int
    format: Format
    tail: Int[np.ndarray, "tokens"]
    fixed: int
    margins: tuple[int, int] = (0, 0)
    num_special: int = 0

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerBase, instruction: str | None, *, format: Format | None = None
    ) -> "AnswerPrompt":
        """Build the prompt from the tokenizer's chat template.

        Args:
            tokenizer: Its chat template is read.
            instruction: Goes into the template. None: no instruction.
            format: None: as the template takes it.

        Returns:
            Text around query and document, with the tokens after a truncated pair.

        Raises:
            UserError: A template without places for both texts, or whose tokens do not split into two parts.
        """
        label = tokenizer.name_or_path or "this encoder"
        if not isinstance(tokenizer.chat_template, str):
            raise UserError(f"{label}: has no chat template that puts a query and a document in their places")
        formats: tuple[Format, ...] = ("flat", "structured") if format is None else (format,)
        for name in formats:
            with naming(f"{label}: its chat template cannot be filled in", ANOTHER):
                text = _rendered(tokenizer, instruction, MARKS["query"], MARKS["document"], name)
            if all(text.count(mark) == 1 for mark in MARKS.values()):
                break
        else:
            raise UserError(
                f"{label}: its chat template does not hold query and document once each. Give the text as template"
            )
        before, slots, remainder = text.partition(MARKS["query"])
        between, also, after = remainder.partition(MARKS["document"])
        if not slots or not also:
            raise UserError(
                f"{label}: its chat template must have the query before the document. Give another template"
            )
        for end in ENDS:
            pair = f"{end}x{end}", f"{end}y{end}"
            if _rendered(tokenizer, instruction, *pair, name) != before + pair[0] + between + pair[1] + after:
                raise UserError(
                    f"{label}: its chat template changes texts ({end!r} at their ends). Give another template"
                )
        cut = _place_to_cut(tokenizer, before, between, after, label)
        short_ids, long_ids = (
            _ids(tokenizer, [before + filler + between + filler + after])[0] for filler in ("0", "1 2 3 4")
        )
        backwards = zip(short_ids[::-1], long_ids[::-1], strict=False)
        shared = next((count for count, (a, b) in enumerate(backwards) if a != b), 0)
        tail = np.array(short_ids[len(short_ids) - shared :], dtype=np.int32)
        fixed = len(_ids(tokenizer, [before + between + after])[0])
        return cls(before, between, after, cut, name, tail, fixed)

    def around(self, text: str, *, is_query: bool) -> str:
        """Put the text around one side that is tokenised with it.

        Args:
            text: A query or a document.
            is_query: True for a query.

        Returns:
            The text with its part of the prompt.
        """
        if is_query:
            return self.before + text + self.between[: self.cut]
        return self.between[self.cut :] + text + self.after

    def lengths(
        self, first: np.ndarray, second: np.ndarray, *, max_length: int
    ) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]:
        """Remaining tokens of each side. The document is truncated first, then the query, and never the tail.

        Args:
            first: Number of tokens of each query with the text around it.
            second: Number of tokens of each document with the text around it.
            max_length: Tokens of a pair.

        Returns:
            Tokens of the queries, and of the documents with the tail.
        """
        is_cut = first + second >= max_length
        room = np.where(is_cut, np.minimum(first, max_length - len(self.tail)), first)
        return room, np.where(is_cut, max_length - room, second)

    def join(
        self, first: TokenTable, second: TokenTable, *, max_length: int
    ) -> tuple[TokenTable, TokenTable]:
        """Token numbers of each pair, and their segments, which are 0.

        Args:
            first: Tokens of the queries with the text around them.
            second: Tokens of the documents with the text around them.
            max_length: Tokens of a pair. Longer pairs are truncated as by `lengths`.

        Returns:
            Token ids of the pairs, and zeros of the same lengths.
        """
        counts = self.lengths(first.lengths, second.lengths, max_length=max_length)
        is_cut = first.lengths + second.lengths >= max_length  # as sentence-transformers counts
        ends = np.cumsum(counts[0] + counts[1])
        starts = ends - counts[0] - counts[1]
        ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
        copied = counts[1] - np.where(is_cut, len(self.tail), 0)
        for table, targets, numbers in ((first, starts, counts[0]), (second, starts + counts[0], copied)):
            ids[runs(targets, numbers)] = table.ids[runs(table.starts, numbers)]
        lasts = ends[is_cut] - len(self.tail)
        ids[runs(lasts, np.full(len(lasts), len(self.tail)))] = np.tile(self.tail, len(lasts))
        return TokenTable(ids, starts, ends), TokenTable(np.zeros_like(ids), starts, ends)


@dataclass(frozen=True)
class PlainPair(PairTemplate):
    """The two texts of a pair with the special tokens of the tokenizer alone, and an instruction before the first.

    Args:
        instruction: Text before the first text of a pair. "" for none.
        fixed: Number of tokens besides the two texts.
    """

    instruction: str = ""
    fixed: int = 0
    format: ClassVar[Format] = "plain"

    @classmethod
    def around_pairs(cls, tokenizer: PreTrainedTokenizerBase, instruction: str | None) -> "PlainPair":
        """Build the prompt from the tokenizer's own treatment of pairs.

        Args:
            tokenizer: Puts its special tokens around a pair.
            instruction: Text before each query. None: no instruction.

        Returns:
            The prompt with `instruction` before the query.
        """
        template = PairTemplate.of(tokenizer, apart=False)
        before = _ids(tokenizer, [instruction or ""])[0]
        settings = vars(template) | {"margins": (0, 0), "instruction": instruction or ""}
        return cls(**settings, fixed=template.num_special + len(before))

    def around(self, text: str, *, is_query: bool) -> str:
        """The tokenised text of a side, without special tokens.

        Args:
            text: A query or a document.
            is_query: True for a query. The instruction comes before it.

        Returns:
            The text that is tokenised.
        """
        return self.instruction + text if is_query else text


def _rendered(
    tokenizer: PreTrainedTokenizerBase, instruction: str | None, query: str, document: str, format: Format
) -> str:
    contents = {"system": instruction, "query": query, "document": document}
    messages: list[Any] = [
        {"role": role, "content": text if format == "flat" else [{"type": "text", "text": text}]}
        for role, text in contents.items()
        if text is not None
    ]
    return str(tokenizer.apply_chat_template(messages, tokenize=False))


def _ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    options: dict[str, Any] = {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False, **options)["input_ids"]


def _place_to_cut(
    tokenizer: PreTrainedTokenizerBase, before: str, between: str, after: str, label: str
) -> int:
    """Find where to split the text between the sides so that the parts have the tokens of the whole text.

    It must be right for any two sides. The tokenizer must begin a new word there, because tokens do not cross
    word borders. Raises UserError if no such place exists.
    """
    pairs = [("a", "b"), *((f"x{end}", "y") for end in ENDS), *(("x", f"{end}y{end}") for end in ENDS)]
    wholes = [before + query + between + document + after for query, document in pairs]
    allowed = set(range(len(between) + 1)) if tokenizer.is_fast else set()
    readers: tuple[Callable[..., list[Any]], ...] = (_words, _ids)
    for read in readers:
        expected = read(tokenizer, wholes) if allowed else []
        for cut in sorted(allowed):
            firsts = read(tokenizer, [before + query + between[:cut] for query, _ in pairs])
            seconds = read(tokenizer, [between[cut:] + document + after for _, document in pairs])
            if any(a + b != full for a, b, full in zip(firsts, seconds, expected, strict=True)):
                allowed.remove(cut)
    if not allowed:
        raise UserError(
            f"{label}: its tokenizer joins query and document across {short(repr(between))}. Put a special token, or a "
            "sign such as > between them in the template"
        )
    return min(allowed, key=lambda position: abs(position - len(between) / 2))


def _words(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[str]]:
    """Split texts as the first step of the tokenizer does: special tokens, and pieces of the rest."""
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    added = re.compile("(" + "|".join(map(re.escape, tokenizer.get_added_vocab())) + ")")
    return [
        [
            word
            for number, part in enumerate(added.split(text) if tokenizer.get_added_vocab() else [text])
            if part
            for word in (
                [part] if number % 2 or splitter is None else [w for w, _ in splitter.pre_tokenize_str(part)]
            )
        ]
        for text in texts
    ]


class SideReader:
    """Tokenises the documents or queries of a `GenerativeReranker`. `CachedTokenizer` accepts it.

    Args:
        encoder: Its tokenizer, max_length and template are read on each call.
        is_query: Read queries. False: documents.
    """

    sides = ROLES
    unpooled = 0

    def __init__(self, encoder: Any, *, is_query: bool = False) -> None:
        self._encoder = encoder
        self._is_query = is_query

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self._encoder.inner.tokenizer

    @property
    def max_length(self) -> int:
        return self._encoder.inner.max_length

    @property
    def prompt(self) -> str:
        """Key of cached tokens."""
        return f"a side between {self._encoder.template.around(chr(0), is_query=self._is_query)}"

    def reading(self, side: Side) -> "SideReader":
        """Return the reader of another side.

        Args:
            side: Side of the texts.

        Returns:
            A reader for that side. The same object if the role does not change.
        """
        is_query = ROLES[side] == Side.QUERY
        return self if is_query == self._is_query else SideReader(self._encoder, is_query=is_query)

    def tokenize(self, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable:
        """Tokenize each text with the text around it.

        Args:
            texts: Queries or documents. They may be empty.
            progress: Show a progress bar. None: on a terminal, after some seconds.

        Returns:
            At most `max_length` tokens of each text.
        """
        around = self._encoder.template.around

        def read(portion: Sequence[str]) -> TokenTable:
            rows = _ids(self.tokenizer, [around(text, is_query=self._is_query) for text in portion])
            return TokenTable.of([row[: self.max_length] for row in rows])

        return tokenized(texts, read, progress=progress)
