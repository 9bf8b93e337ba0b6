"""Words for keys whose values are text: `name=1234e56` means what was typed, not the number 1.234e+59."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from conf.declared import TABLE
from conf.job import JobConfig
from juzhen.core.opened import read_json

NUMBER = re.compile(
    r"[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?|[+-]?inf|[+-]?nan|true|false", re.I
)
"""What Hydra reads as a number, or as true or false."""

ELEMENT = re.compile(r"(?:^|(?<=[\[,]))([^\[\],]+)(?=[\],]|$)")
"""A value, or one of those of a sweep or a list."""


def as_typed(words: Sequence[str]) -> list[str]:
    """The words of a command line, with quotes around what would be read as a number though its key holds text.

    >>> as_typed(["name=1234e56", "seed=1", "run_dir=7e3,out"])
    ['name="1234e56"', 'seed=1', 'run_dir="7e3",out']
    """
    return [_quoted(word) for word in words]


def _quoted(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals or set("'\"(){}") & set(value) or not NUMBER.search(value) or not _is_text(key.lstrip("+")):
        return word
    quoted = ELEMENT.sub(lambda found: f'"{found[1]}"' if NUMBER.fullmatch(found[1]) else found[1], value)
    return f"{key}={quoted}"


def _is_text(key: str) -> bool:
    """Whether what a dotted key holds is text, or a list of texts."""
    kind: Any = JobConfig
    words = key.split(".")
    for word in words:
        if _is_union(kind):
            kind = next(one for one in get_args(kind) if one is not NoneType)
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            if kind is Any:  # of a model, a loss, a callback
                return words[-1] in _texts_of_classes()
            continue
        kind = _hints(kind).get(word) if isinstance(kind, type) and get_origin(kind) is None else None
        if kind is None:
            return False
    return set(_leaves(kind)) <= {str, NoneType}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


@cache
def _texts_of_classes() -> frozenset[str]:
    """Settings of models, losses and callbacks that hold text in every class which has them."""
    texts: dict[str, bool] = {}
    for entry in read_json(TABLE).values():
        for name, kinds in entry["settings"].items():
            is_text = "text" in kinds and not {"a number", "a whole number", "true or false"} & set(kinds)
            texts[name] = texts.get(name, True) and is_text
    return frozenset(name for name, is_text in texts.items() if is_text)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _leaves(kind: Any) -> Iterator[Any]:
    if _is_union(kind) or get_origin(kind) is list:
        for inner in get_args(kind):
            yield from _leaves(inner)
    else:
        yield kind
