"""The page of result.json, from the class that writes it and the form that readers ask for."""

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from juzhen.core.result import FORMAT_VERSION, Result, ResultForm, Score
from juzhen.core.schema import Number, Text, Whole
from tools.docs.columns import named_lines
from tools.docs.markup import code, plain, table

PLACES = {"scores": "split/dataset/metric", "untrained": "split/dataset/metric", "data": "split/dataset"}
"""Key → what the keys below it are spelt like, where they are not free."""

WORDS = {
    Text: "text",
    bool: "true or false",
    Whole: "whole number",
    Number: "number",
    NoneType: "null",
}
HEAD = f"""\
---
search: {{boost: 0.4}}
---
# result.json

Every stage of a run ends with a `result.json` in its folder: all that was measured, and what it takes to get the
same numbers again. `juzhen table` and `juzhen report` read nothing else.
[`Result.read`][juzhen.core.result.Result] reads one, files of older versions too; the format has version
{FORMAT_VERSION}. Other keys may be there as well.

```python
from pathlib import Path

from juzhen.core.result import Result

for path in sorted(Path("runs").glob("*/result.json")):
    result = Result.read(path)
    print(result.name, {{key: score.value for key, score in result.scores.items()}})
```

## Keys
"""


def page() -> str:
    meanings = {name: about for kind in (Result, Score) for name, about in named_lines(kind.__doc__ or "")}
    rows = []
    for key, type_name, required in entries(ResultForm):
        # Told are the keys of a result, and of a score in it.
        is_told = "." not in key or re.fullmatch(r"scores\.<[^>]+>\.\w+", key)
        meaning = meanings.get(key.rpartition(".")[2], "") if is_told else ""
        rows.append((code(key), type_name, "yes" if required else "", plain(meaning)))
    return f"{HEAD}\n{table(('key', 'type', 'required', 'meaning'), rows)}"


def entries(form: type, parent: str = "", required: bool = True) -> Iterator[tuple[str, str, bool]]:
    """Dotted key, type in words, and whether it must be there, of every key at any depth."""
    kinds = get_type_hints(form, include_extras=True)
    for key in sorted(kinds, key=lambda key: key not in form.__required_keys__):
        kind = get_args(kinds[key])[0] if get_origin(kinds[key]) is NotRequired else kinds[key]
        path = f"{parent}.{key}".lstrip(".")
        must = required and key in form.__required_keys__
        yield path, words_of(kind), must
        for child, below in _inner(kind, path):
            yield from entries(child, below, must)


def words_of(kind: Any) -> str:
    if kind in WORDS:
        return WORDS[kind]
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(words_of, get_args(kind)))
    return f"list: {words_of(get_args(kind)[0])}" if get_origin(kind) is list else "object"


def _inner(kind: Any, parent: str) -> Iterator[tuple[type, str]]:
    """The objects that a value holds, with the parent of their keys."""
    parts = get_args(kind)
    if is_typeddict(kind):
        yield kind, parent
    elif get_origin(kind) is dict:
        name = PLACES.get(re.split(r"\W", parent)[-1], "name")
        yield from _inner(parts[1], f"{parent}.<{name}>")
    elif get_origin(kind) in (Union, UnionType):
        for option in parts:
            yield from _inner(option, parent)
    elif get_origin(kind) is list:
        yield from _inner(parts[0], f"{parent}[]")
