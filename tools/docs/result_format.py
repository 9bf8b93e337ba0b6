"""The page of result.json, from the class that writes it and the form that readers ask for."""

import re
from collections.abc import Iterator
from typing import Any

from juzhen.core.result import FORMAT_VERSION, Result, Score
from juzhen.core.result_shape import RESULT
from juzhen.core.shape import Entries, Object
from tools.docs.columns import named_lines
from tools.docs.markup import code, plain, table

PLACES = {"scores": "split/dataset/metric", "untrained": "split/dataset/metric", "data": "split/dataset"}
"""Key → what the keys below it are spelt like, where they are not free."""

WORDS = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    list: "list",
    dict: "object",
    type(None): "null",
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
    for key, type_name, required in entries(RESULT):
        # Told are the keys of a result, and of a score in it.
        is_told = "." not in key or re.fullmatch(r"scores\.<[^>]+>\.\w+", key)
        meaning = meanings.get(key.rpartition(".")[2], "") if is_told else ""
        rows.append((code(key), type_name, "yes" if required else "", plain(meaning)))
    return f"{HEAD}\n{table(('key', 'type', 'required', 'meaning'), rows)}"


def entries(shape: Object, parent: str = "", required: bool = True) -> Iterator[tuple[str, str, bool]]:
    """Dotted key, type in words, and whether it must be there, of every key at any depth."""
    for keys, must in ((shape.required, True), (shape.optional, False)):
        for key, inner in keys.items():
            path = f"{parent}.{key}".lstrip(".")
            yield path, words_of(inner), required and must
            for child, below in _inner(inner, path):
                yield from entries(child, below, required and must)


def words_of(shape: Any) -> str:
    if isinstance(shape, tuple):
        return " or ".join(map(words_of, shape))
    if isinstance(shape, list):
        return f"list: {words_of(shape[0])}"
    return "object" if isinstance(shape, Object | Entries) else WORDS[shape]


def _inner(shape: Any, parent: str) -> Iterator[tuple[Object, str]]:
    """The objects that a value holds, with the parent of their keys."""
    if isinstance(shape, Object):
        yield shape, parent
    elif isinstance(shape, Entries):
        name = PLACES.get(re.split(r"\W", parent)[-1], "name")
        yield from _inner(shape.values, f"{parent}.<{name}>")
    elif isinstance(shape, tuple):
        for option in shape:
            yield from _inner(option, parent)
    elif isinstance(shape, list):
        yield from _inner(shape[0], f"{parent}[]")
