"""An extension of Griffe, which reads the sources for mkdocstrings: docstrings become Markdown."""

from typing import Any

from griffe import Extension, Object

from tools.docs.columns import as_markdown


class ColumnsAsLists(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
