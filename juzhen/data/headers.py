"""What the columns of a table are: their names in Chinese and English, its header, the words of its labels, and the
formats of other tools.

Those are FlagEmbedding, ms-swift, and the columns of sentence-transformers. Each becomes a table with the fields of a
kind (`juzhen.core.kinds`) as columns, and a row for each positive. Rows keep the lines of the file. A string instead of
a list would be read character by character. It is a fault with its line.
"""

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import (
    NLI_CLASSES,
    TARGET_COLUMN,
    TEACHER_SCORE,
    TEXT_COLUMNS,
    Kind,
    negative_columns,
)
from juzhen.core.text import counted, short, text_fault
from juzhen.data.readers import FileTable

log = logging.getLogger(__name__)

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
CHINESE = re.compile("[\u3400-\u9fff]")

ID_NAMES = re.compile(
    r"(?i)(q|s|a|d|p|c|pair|row|sentence|text|doc|document|passage|corpus|query|question|answer|item|faq|user|product)?"
    r"[_ -]?(id|idx|index|no\.?)\d?|unnamed.*"
    r"|(?!.*(label|class|categ|intent|topic|domain|score|grade|gold|target|same|sentiment|emotion)).*[_ -](id|idx)\d?"
    r"|(?!.*(标签|标注|类别|分类|意图|主题|领域|情感))[\u3400-\u9fff]{0,4}(编号|序号|行号|id)"
)
"""Columns that number rows or name them. `label_id` holds classes."""
TOPIC_NAMES = re.compile(
    r"(?i).*(intent|class|category|topic|domain|sentiment|emotion|情感|类别|分类|意图|主题|领域).*"
)
TARGET_NAMES = re.compile(
    r"(?i).*(label|score|same|similarity|grade|gold|target|duplicate|标签|标注|分数|得分|相似度|是否).*|"
    + TOPIC_NAMES.pattern.removeprefix("(?i)")
)
POSITIVE_NAMES = re.compile(
    r"(?i).*(positive|正例|正样本|答案|回答|答复|回复|answer|passage|document|response|reply|completion).*"
    r"|(.*[_\W])?(pos|docs?|chosen)([_\W\d].*)?"
)
NEGATIVE_NAMES = re.compile(r"(?i).*(negative|负例|负样本|反例).*|(.*[_\W])?(negs?|rejected)([_\W\d].*)?")
HYPOTHESIS_NAMES = re.compile(r"(?i).*(hypothesis|假设).*")
STANDARD_NAMES = re.compile(r"(?i).*(标准|standard|canonical|(^|[\W_])std).*")
VARIANT_NAMES = re.compile(
    r"(?i).*(相似|相近|近似|同义|扩展|改写|variant|similar|paraphrase|rewrit|extended).*"
)
TEXT_NAMES = re.compile(
    r"(?i).*(text|sent|quer|question|anchor|title|premise|hypothesis).*"
    r"|.{0,3}(问题|问法|问句|问|句子|句|文本|内容|标题|前提|假设)[\dA-D甲乙一二]?|[qsa]\d?"
)

WORD = re.compile(
    "text|sent(ence)?|query|queries|q(uest(ion)?)?|anchor|title|content|body|premise|hypothesis|passage|doc(ument)?"
    "|paragraph|a(ns(wer)?)?|reply|replies|response|completion|pos(itive)?|neg(ative)?|hard|label|score|gold|target|source"
    "|src|tgt|sim(ilar(ity)?)?|same|duplicate|is|are|class|category|intent|topic|domain|sentiment|emotion|id|idx|index|row"
    "|pair|qid|sid|input|output|instruction|prompt|user|assistant|customer|human|bot|agent|chosen|rejected|original"
    "|paraphrase|rewritten|rewrite|utterance|first|second|left|right|b|en|zh|cn|english|chinese|faq|std|standard"
    "|ext(ended)?|key|value|summary|abstract|description|comment|review|tag|grade|rating|relevance|relevant|match(ed)?"
    "|name|context|candidate|ref(erence)?|translation|synonym|variant|keyword|problem|solution|complaint|resolution|request"
)
"""English words of column names."""

PARTS = (
    "问题|问法|问句|提问|问|答案|回答|答复|回复|答|句子|句对|语句|句|文本|内容|标题|正文|前提|假设|段落|文档|文章|摘要|描述|说法|话术|例句"
    "|正例|负例|反例|样本|标签|标注|分数|得分|评分|相似度|类别|分类|意图|主题|领域|情感|序号|编号|行号|名称|关键词|原文|译文|翻译|对话|输入|输出"
    "|指令|查询|检索词|备注|来源|是否.{0,6}|类型|咨询|诉求|需求|表述|表达|改写|同义词|解决方案|处理方法|处理意见|结果"
)
QUALITIES = (
    "用户|客户|顾客|标准|相似|相近|近似|同义|相关|扩展|原始|原|候选|匹配|参考|正确|错误|正|负|反|难|第|源|目标|中文|英文|左|右|上|下|前|后|历史"
    "|知识|常见|业务|机器人|人工|客服|坐席|待|对应|推荐|典型|主|子|新|旧|的"
)
CHINESE_NAME = re.compile(
    rf"(?:(?:{QUALITIES}|[一二三两12AB甲乙])*(?:{PARTS})){{1,3}}(?:{QUALITIES})*[\s_-]*[\dA-Za-z一二三甲乙]{{0,2}}"
)
"""Chinese words of column names: a noun, and its qualities."""

LABEL_WORDS = re.compile(
    r"(?i)true|false|yes|no|same|different|是|否|对|错|真|假|(不|非|不太)?(相同|相似|同义|一致|匹配|等价)|不同|√|×"
    r"|entail(s|ment)?|neutral|contradict(s|ion|ory)?|蕴[含涵]|中[立性]|矛盾"
)
"""Labels of pairs. A first row with such a cell is a row like the others, unless numbers are below it."""

SENTENCE_SIGNS = re.compile("[？?。！!，,；;：:…]")
SHAPE = re.compile(r"[A-Za-z_][\w.()/-]*[ -]?[\w.()/-]{0,20}|[\u3400-\u9fff][\u3400-\u9fff\w()（）/_-]{0,7}")
"""Shape of names that no list has: two words of Latin letters, or up to eight Chinese characters."""

NUMBERED = re.compile(r"(.{0,12}?)[ _-]?(1|a|甲|一)\n\1[ _-]?(2|b|乙|二)(\n.*)*", re.IGNORECASE)
"""Names that differ by a number or a letter, one in a line."""

FEW_ROWS = 10
"""With fewer rows the lengths of cells mean nothing."""


def is_name(cell: str) -> bool:
    """True for a cell that consists only of words of column names.

    Args:
        cell: Such as 问题1 or sentence_a.

    Returns:
        False for a cell with another word, or with more than 4 words.

    Example:
        >>> [is_name(cell) for cell in ("标准问题", "sentence_1", "userQuery", "怎么还款", "how to ask a question")]
        [True, True, True, False, False]
    """
    if ID_NAMES.fullmatch(cell) or CHINESE_NAME.fullmatch(cell):
        return True
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cell)
    words = [word.rstrip("0123456789") for word in re.split(r"[\s_\-./()]+", spaced.lower()) if word]
    return 0 < len(words) <= 4 and all(
        not word or WORD.fullmatch(word) or WORD.fullmatch(word.removesuffix("s")) for word in words
    )


def role(name: str) -> int:
    """Return the order of a text column with such a name.

    Args:
        name: Name of a column.

    Returns:
        1 for positives and hypotheses, 2 for negatives, else 0.
    """
    if NEGATIVE_NAMES.fullmatch(name):
        return 2
    return int(bool(POSITIVE_NAMES.fullmatch(name) or HYPOTHESIS_NAMES.fullmatch(name)))


def direction(name: str) -> int:
    """Return the order of a column of positive pairs: standard questions, their variants, answers.

    Args:
        name: Name of a column.

    Returns:
        A number that sorts columns. It is 2 and above for answers.

    >>> sorted(["答案", "相似问", "标准问"], key=direction)
    ['标准问', '相似问', '答案']
    """
    return 2 * role(name) + bool(VARIANT_NAMES.fullmatch(name)) - bool(STANDARD_NAMES.fullmatch(name))


def language_of(columns: Iterable[Sequence[str]]) -> Literal["zh", "en", "en-zh"]:
    """Return the language of text columns, as a description of a set names it.

    Args:
        columns: Texts of each column. A column is Chinese if more than a tenth of its texts have a Chinese character.

    Returns:
        `en-zh` if columns differ. Texts in other languages count as English.

    Example:
        >>> language_of([["今天"], ["tomorrow"]]), language_of([["today"]])
        ('en-zh', 'en')
    """
    chinese = {
        sum(CHINESE.search(text) is not None for text in texts) > 0.1 * len(texts) for texts in columns
    }
    return "en-zh" if len(chinese) > 1 else "zh" if True in chinese else "en"


def share_of_numbers(values: Sequence[str]) -> float:
    """Return the share of numbers among cells.

    Args:
        values: Cells that are not empty.

    Returns:
        A share from 0 to 1. 0 without cells.
    """
    return float(np.mean([NUMBER.fullmatch(value) is not None for value in values])) if len(values) else 0.0


def are_numbers(values: Sequence[str], *, above: float) -> bool:
    """True if `share_of_numbers` is larger than a share. Reads no further than it must.

    Args:
        values: Cells that are not empty.
        above: Share from 0 to 1. An equal share is not enough.

    Returns:
        False without cells.

    >>> are_numbers(["1", "2", "三"], above=0.5), are_numbers([], above=0.5)
    (True, False)
    """
    left = total = len(values)
    for value in values:
        if NUMBER.fullmatch(value) is None:
            left -= 1
            if not left / total > above:
                return False
    return total > 0


def is_header(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """True if the first row of a table names its columns. Cells have no spaces around them.

    It does if it has a word above numbers, if all its cells are column names, or if no cell looks like those below it.

    Args:
        first: The first row.
        columns: The cells below it, column by column.

    Returns:
        False for a row with a number or with a label, and if nothing decides.
    """
    names = [name for name in first if name]
    if not names or (len({*names}) < len(names) and not all(map(is_name, names))):
        return False
    if [*first] in ([*map(str, range(len(first)))], ["", *map(str, range(len(first) - 1))]):
        return True  # pandas numbers columns without names
    if any(NUMBER.fullmatch(cell) for cell in first):
        return False
    filled = [(name, [cell for cell in cells if cell]) for name, cells in zip(first, columns, strict=True)]
    filled = [(name, values) for name, values in filled if name and values]
    texts = [(name, values) for name, values in filled if share_of_numbers(values) <= 0.9]
    if any(LABEL_WORDS.fullmatch(name) for name, _ in texts):
        return False
    if len(texts) < len(filled):  # a word above numbers
        return True
    if any(name in values and len({*values}) < len(values) / 5 for name, values in texts):
        return False  # a class that many rows have
    if all(map(is_name, names)) or NUMBERED.fullmatch("\n".join(name for name, _ in texts)):
        return True
    return len(texts) > 1 and all(is_name(name) or _stands_out(name, values) for name, values in texts)


def _stands_out(name: str, values: Sequence[str]) -> bool:
    """True for a cell that looks like none below it.

    It is in Latin letters above Chinese, it is above short classes that repeat and is not one of them, or it is shorter
    than all.
    """
    if not SHAPE.fullmatch(name) or SENTENCE_SIGNS.search(name) or name in values:
        return False
    if name.isascii() and np.mean([CHINESE.search(value) is not None for value in values]) > 0.5:
        return True
    counts = Counter(values)
    if 1 < len(counts) <= 10 and min(counts.values()) > 1 and max(map(len, counts)) <= 10:
        return True
    return len(values) >= FEW_ROWS and len(name) < float(np.quantile([*map(len, values)], 0.02))


LABELS = ("label", "labels", "score", "scores")
"""Columns that sentence-transformers takes for gold values. All others are texts, in their order."""
MEDIA = re.compile(r"(positive_|negative_)?(images|videos|audios)")


class RowError(Exception):
    """The reason why a line of the file is not a row."""


@dataclass(frozen=True)
class ForeignRow:
    """A line of the file. `texts` are anchor and positives. Each positive becomes a row with the same negatives.

    Args:
        anchor: The anchor.
        positives: Its positives.
        negatives: Its negatives.
        scores: A teacher's scores of all positives and then of all negatives. None: the line has none.
        label: Gold value of a pair. None: it has none.
    """

    anchor: str
    positives: list[str]
    negatives: list[str]
    scores: list[float] | None = None
    label: Any = None


def format_of(table: FileTable) -> tuple[str, Kind] | None:
    """Return the tool that wrote a table, by its columns and most of its rows, and the kind of the rows, or None.

    Args:
        table: Table with column names.

    Returns:
        "ms_swift" or "flag_embedding", and the kind of its rows. None for another tool.
    """
    names = table.names or ()
    if {"messages", "positive_messages"} <= {*names}:
        labels = sum(record.get("label") is not None for record in _records(table))
        if 2 * labels > len(table.lines):
            return "ms_swift", Kind.SCORED_PAIR
        format, negatives = "ms_swift", "negative_messages"
    elif {"query", "pos"} <= {*names}:
        lists = sum(
            isinstance(record[key], list)
            for record in _records(table)
            for key in ("pos", "neg")
            if key in record
        )
        if not lists:
            return None
        format, negatives = "flag_embedding", "neg"
    else:
        return None
    with_negatives = sum(bool(record.get(negatives)) for record in _records(table))
    return format, Kind.TRIPLET if 2 * with_negatives > len(table.lines) else Kind.POSITIVE_PAIR


def as_fields(
    table: FileTable,
    format: str,
    kind: Kind,
    *,
    num_negatives: int | None = None,
    teacher_scores: bool | None = None,
    tell: Callable[[str], None] = log.info,
) -> FileTable:
    """Return the table with the fields of a kind as columns.

    Args:
        table: The table.
        format: A name of FORMATS.
        kind: Kind of the rows.
        num_negatives: Negatives of each row: the first ones, repeated if there are fewer. None: all, and a row with
            fewer than others has empty cells.
        teacher_scores: False: they are not read. True: each row must have them. None: they are read if the file has
            them.
        tell: Gets a sentence if rows have different numbers of negatives.

    Returns:
        A table of columns such as text_a and text_b. Faulty rows are listed in `faults`.

    Raises:
        UserError: Rows of another kind, or scores that the kind cannot hold.
    """
    read, rows, line_numbers, faults = FORMATS[format], list[ForeignRow](), list[int](), dict(table.faults)
    for line, record in zip(table.lines.tolist(), _records(table), strict=True):
        try:
            row = read(record)
            _require_kind(row, kind, scores=teacher_scores)
        except RowError as fault:
            faults.setdefault(line, str(fault))
        else:
            rows.append(row if teacher_scores is not False else replace(row, scores=None))
            line_numbers.append(line)
    scored = [row.scores is not None for row in rows]
    if any(scored) and not all(scored):
        without = next(line for line, is_scored in zip(line_numbers, scored, strict=True) if not is_scored)
        raise UserError(
            f"{table.at(without)}: no scores of a teacher, and other rows have them. Fix the file, or set "
            "teacher_scores: false in the layout"
        )
    counts = [len(row.negatives) for row in rows] or [1]
    if kind is Kind.TRIPLET and num_negatives is None and min(counts) < max(counts):
        tell(f"{table.place}: rows have {min(counts)} to {max(counts)} negatives, and all of each are read")
    count = (num_negatives or max(counts)) if kind is Kind.TRIPLET else 0
    return _flat(table, rows, line_numbers, faults, kind, count, again=num_negatives is not None)


def _records(table: FileTable) -> Iterator[dict[str, Any]]:
    columns = [values.to_pylist() if hasattr(values, "to_pylist") else values for values in table.columns]
    names = table.names or []
    return (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))


def _require_kind(row: ForeignRow, kind: Kind, *, scores: bool | None) -> None:
    """Raises RowError for a row of another kind, and for data of it that would be lost."""
    target = TARGET_COLUMN.get(kind)
    if kind not in (Kind.TRIPLET, Kind.POSITIVE_PAIR) and not (target and len(TEXT_COLUMNS[kind]) == 2):
        raise RowError(f"rows of this format are not a {kind}. Set kind: triplet or positive_pair")
    if target and row.label is None:
        raise RowError(f"no label, which a {kind} has. Set kind: triplet or positive_pair")
    if target and row.negatives:
        raise RowError(f"negatives, which a {kind} does not have. Set kind: triplet")
    if row.label is not None and not target:
        raise RowError(f"a label, which a {kind} does not have. Set kind: labelled_pair or scored_pair")
    if kind is Kind.TRIPLET and not row.negatives:
        raise RowError("no negative. Set kind: positive_pair to read positives alone")
    if kind is not Kind.TRIPLET and row.scores is not None and scores is not False:
        raise RowError(
            f"scores of a teacher, and a {kind} has no place for them. Set kind: triplet with negatives, or "
            "teacher_scores: false in the layout to leave them out"
        )
    if scores and row.scores is None:
        raise RowError("no scores of a teacher, and the layout has teacher_scores: true")


def _flat(
    table: FileTable,
    rows: Sequence[ForeignRow],
    line_numbers: Sequence[int],
    faults: dict[int, str],
    kind: Kind,
    count: int,
    *,
    again: bool,
) -> FileTable:
    """A row of the table for each positive of a row."""
    fields, target = list(TEXT_COLUMNS[kind]), TARGET_COLUMN.get(kind)
    fields += negative_columns(count)[1:]
    is_scored = bool(rows) and rows[0].scores is not None
    names = fields + [TEACHER_SCORE.format(field) for field in fields[1:] if is_scored]
    names += [target] if target else []
    cells, of_rows = list[list[Any]](), list[int]()
    for row, line in zip(rows, line_numbers, strict=True):
        negatives = _of_count(row.negatives, count, again=again)
        for number, positive in enumerate(row.positives):
            cell: list[Any] = [row.anchor, positive, *negatives]
            if row.scores is not None:
                of_negatives = row.scores[len(row.positives) :]
                cell += [row.scores[number], *_of_count(of_negatives, count, again=again)]
            cells.append(cell + ([row.label] if target else []))
            of_rows.append(line)
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in names]
    return replace(
        table, names=names, columns=columns, lines=np.asarray(of_rows, np.int32), faults=faults, classes={}
    )


def _of_count(values: Sequence[Any], count: int, *, again: bool) -> list[Any]:
    """The first `count` values. If there are fewer, they are repeated, or None is added."""
    return [
        values[number % len(values)] if again or number < len(values) else None for number in range(count)
    ]


def _flag_embedding(record: Mapping[str, Any]) -> ForeignRow:
    """Columns `query`, `pos`, `neg`, and for a teacher `pos_scores`, `neg_scores`.

    A `prompt` is put before its query.
    """
    positives, negatives = _texts(record, "pos"), _texts(record, "neg", may_lack=True)
    scores = None
    if record.get("pos_scores") is not None or record.get("neg_scores") is not None:
        scores = _numbers(record, "pos_scores", len(positives)) + _numbers(
            record, "neg_scores", len(negatives)
        )
    prompt = _text(record.get("prompt") or "", "prompt", may_be_empty=True)
    return ForeignRow(prompt + _text(record.get("query"), "query"), positives, negatives, scores)


def _ms_swift(record: Mapping[str, Any]) -> ForeignRow:
    """Columns `messages`, `positive_messages`, `negative_messages` and, for pairs, `label`."""
    if media := next((key for key in record if MEDIA.fullmatch(key) and record[key]), None):
        raise RowError(f"{media}: only texts are read")
    anchor = _message(record.get("messages"), "messages")
    positives = _messages(record.get("positive_messages"), "positive_messages")
    negatives = _messages(record.get("negative_messages") or [], "negative_messages")
    if not positives:
        raise RowError("positive_messages is empty")
    return ForeignRow(anchor, positives, negatives, label=record.get("label"))


def _messages(value: Any, key: str) -> list[str]:
    conversations = _as_list(value, key, "conversations, each of them a list")
    return [_message(messages, f"{key}[{number}]") for number, messages in enumerate(conversations)]


def _message(value: Any, key: str) -> str:
    """The text of a conversation of one message, with a system instruction and a space before it."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise RowError(
            f'{key} is {_what(value)}, expected a list of messages such as {{"role": …, "content": …}}'
        )
    system = [message for message in value if message.get("role") == "system"]
    messages = [message for message in value if message.get("role") != "system"]
    if len(messages) != 1 or len(system) > 1:
        raise RowError(f"{key} has {len(messages)} messages besides the system's, expected one")
    texts = [_text(message.get("content"), f"{key}.content") for message in (*system, *messages)]
    return " ".join(texts)


def _sentence_transformers(record: Mapping[str, Any]) -> ForeignRow:
    """Texts in the order of the columns, whatever their names, and a label, a margin, or a teacher's scores."""
    gold = [key for key in record if key in LABELS]
    if len(gold) > 1:
        raise RowError(f"{' and '.join(gold)}: expected one column of gold values")
    texts = [key for key in record if key not in LABELS]
    if len(texts) < 2:
        raise RowError(f"{counted(len(texts), 'columns')} of texts, expected two at least")
    anchor, positive, *negatives = (_text(record[key], key) for key in texts)
    value = record[gold[0]] if gold else None
    if not gold:
        return ForeignRow(anchor, [positive], negatives)
    if not isinstance(value, list) and not negatives:
        return ForeignRow(anchor, [positive], [], label=value)
    # MarginMSE: one margin per negative, the positive's score less the negative's, or all scores.
    is_margins = not isinstance(value, list) or len(value) == len(negatives)
    values = value if isinstance(value, list) else [value]
    scores = _numbers({gold[0]: values}, gold[0], len(negatives) if is_margins else 1 + len(negatives))
    return ForeignRow(
        anchor, [positive], negatives, [0.0, *(-margin for margin in scores)] if is_margins else scores
    )


FORMATS: dict[str, Callable[[Mapping[str, Any]], ForeignRow]] = {
    "flag_embedding": _flag_embedding,
    "ms_swift": _ms_swift,
    "sentence_transformers": _sentence_transformers,
}
"""`format` of a layout → parser of a line."""
TOOLS = {
    "flag_embedding": "FlagEmbedding",
    "ms_swift": "ms-swift",
    "sentence_transformers": "sentence-transformers",
}
"""`format` → name of the tool."""


def _text(value: Any, key: str, *, may_be_empty: bool = False) -> str:
    if value == "" and may_be_empty:
        return ""
    if fault := text_fault(value):
        raise RowError(f"{key} {fault}")
    return str(value)


def _texts(record: Mapping[str, Any], key: str, *, may_lack: bool = False) -> list[str]:
    value = record.get(key)
    if value is None and may_lack:
        return []
    texts = _as_list(value, key, "texts")
    if not texts and not may_lack:
        raise RowError(f"{key} is an empty list")
    return [_text(text, f"{key}[{number}]") for number, text in enumerate(texts)]


def _numbers(record: Mapping[str, Any], key: str, count: int) -> list[float]:
    value = record.get(key)
    if value is None and not count:
        return []
    numbers = _as_list(value, key, f"{count} numbers")
    wrong = next(
        (v for v in numbers if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v)),
        None,
    )
    if wrong is not None or len(numbers) != count:
        fault = f"{_what(wrong)} in it" if wrong is not None else f"{len(numbers)} numbers"
        raise RowError(f"{key} has {fault}, expected {count} finite numbers, one for each text")
    return [float(number) for number in numbers]


def _as_list(value: Any, key: str, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise RowError(f"{key} is {_what(value)}, expected a list of {of}")
    return value


def _what(value: Any) -> str:
    if value is None:
        return "missing"
    return f"the text {short(value, 40)!r}" if isinstance(value, str) else short(repr(value), 40)


_ENTAILS = "entail(s|ment)?|蕴[含涵]"
YES = (
    "1|true|yes|y|t|same|similar|duplicate|paraphrase|equivalent|match(ed|es)?|positive|related|relevant|是|是的|对|相同|相似"
    f"|同义|真|一致|一样|匹配|等价|相关|重复|正例|正样本|√|✓|✔|✅|{_ENTAILS}"
)
NO = (
    "0|false|no|n|f|diff(erent)?|negative|否|不是|错|不同|假|负例|负样本|×|✗|✘|❌|"
    f"(不|非|不太|无|not[_ -]?|non[_ -]?|un|dis|dis-|ir|mis)({YES})"
)
NLI_WORDS = (_ENTAILS, "neutral|中[立性]", "contradict(s|ion|ory)?|矛盾")
"""Patterns of NLI labels."""
CLASS_LABELS = re.compile("|".join([YES, NO, *NLI_WORDS]))

NO_LABEL = ("-", "-1", "")
"""Labels of rows on which annotators did not agree. Such rows are left out."""

MOST_LABELS = 0.99
"""Share of class labels from which on other labels are faulty rows, and not grades."""


def settled_classes(
    read: Callable[[Iterable[str]], dict[str, str] | None],
    column: Iterable[str],
    share: float = MOST_LABELS,
) -> dict[str, str] | None:
    """Read the classes of a label column in which a few labels may be faulty.

    Args:
        read: `pair_classes` or `nli_classes`.
        column: The label of each row.
        share: Share of the labels that must be classes.

    Returns:
        Label → its class. None if the column has something else.

    >>> settled_classes(pair_classes, [*"01" * 100, "2"]), settled_classes(pair_classes, [*"0120"])
    ({'0': '0', '1': '1'}, None)
    """
    counts = Counter(column)
    counts.pop("", None)
    if classes := read(counts):
        return classes
    known = [*filter(is_label, counts)]
    classes = read(known) or {}
    is_settled = sum(counts[value] for value in classes) >= share * counts.total()
    return classes if is_settled and len({*classes.values()}) > 1 else None


def pair_classes(values: Iterable[str]) -> dict[str, str] | None:
    """Return label → "1" for equal meaning, "0" otherwise. None if the labels are not two classes.

    Args:
        values: Labels, each once or repeated. Empty ones are ignored.

    Returns:
        The class of each label. Of two integers the larger one is "1".

    >>> pair_classes(["是", "否"]), pair_classes(["0.5", "1.5"])
    ({'是': '1', '否': '0'}, None)
    """
    plain = {value: plain_label(value) for value in values if value}
    if plain and all(re.fullmatch(f"{YES}|{NO}", word) for word in plain.values()):
        return {value: "1" if re.fullmatch(YES, word) else "0" for value, word in plain.items()}
    numbers = sorted({float(word) for word in plain.values() if NUMBER.fullmatch(word)})
    if len(numbers) == 2 and len(plain) == 2 and all(number.is_integer() for number in numbers):
        return {value: str(int(float(word) == numbers[1])) for value, word in plain.items()}
    return None


def nli_classes(values: Iterable[str], texts: Sequence[str] = ()) -> dict[str, str] | None:
    """Return label → its NLI class. None if a label is not an NLI class, or if all are neutral.

    A small split may lack one of the classes.

    Args:
        values: The labels.
        texts: Names of the text columns. Below premise and hypothesis, 0, 1 and 2 are classes as in SNLI.

    Returns:
        Label → "entailment", "neutral" or "contradiction", without the labels in NO_LABEL.
    """
    plain = {value: plain_label(value) for value in values if plain_label(value) not in NO_LABEL}
    classes = {
        value: NLI_CLASSES[number]
        for value, word in plain.items()
        for number, pattern in enumerate(NLI_WORDS)
        if re.fullmatch(pattern, word)
    }
    is_numbered = {*plain.values()} == {"0", "1", "2"}
    if is_numbered and any("hypothesis" in name.lower() or "假设" in name for name in texts):
        classes = {value: NLI_CLASSES[int(word)] for value, word in plain.items()}
    found = {*classes.values()}
    return classes if len(found) > 1 and len(classes) == len(plain) else None


def plain_label(label: str) -> str:
    """Normalize a label for comparison.

    Args:
        label: Label as written.

    Returns:
        Lower case without spaces around it and without ".0" at its end.
    """
    return unicodedata.normalize("NFKC", label).strip().lower().removesuffix(".0")


def is_label(value: str) -> bool:
    """True for a word of equal meaning, of different meaning, or of an NLI class.

    Args:
        value: Label as written.

    Returns:
        False for numbers and for other words.
    """
    return CLASS_LABELS.fullmatch(plain_label(value)) is not None
