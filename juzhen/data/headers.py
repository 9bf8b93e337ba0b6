"""Column names in Chinese and English, and detection of a table's header."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
CHINESE = re.compile("[\u3400-\u9fff]")

ID_NAMES = re.compile(
    r"(?i)((q|s|a|pair|row|sentence|text)?[_-]?(id|idx|index|no\.?)\d?)|unnamed.*|序号|编号|行号"
)
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
    """True for a cell that consists of words of column names alone.

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


def language_of(columns: Iterable[Sequence[str]]) -> Literal["zh", "en", "en-zh"]:
    """Return the language of text columns, as a description of a set names it.

    >>> language_of([["今天"], ["tomorrow"]]), language_of([["today"]])
    ('en-zh', 'en')
    """
    chinese = {
        sum(CHINESE.search(text) is not None for text in texts) > 0.1 * len(texts) for texts in columns
    }
    return "en-zh" if len(chinese) > 1 else "zh" if True in chinese else "en"


def share_of_numbers(values: Sequence[str]) -> float:
    """Return the share of numbers. Pass cells that are not empty."""
    return float(np.mean([NUMBER.fullmatch(value) is not None for value in values])) if len(values) else 0.0


def are_numbers(values: Sequence[str], *, above: float) -> bool:
    """True if `share_of_numbers` is larger than a share. Reads no further than it must.

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
