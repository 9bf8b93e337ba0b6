"""An extension of Griffe, which reads the sources for mkdocstrings: older docstrings become Google style."""

from typing import Any

from griffe import Extension, Object

from tools.docs.markup import as_markdown


class ColumnsAsSections(Extension):
    """Rewrites docstrings with parameters in two columns."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            members = obj.members if obj.is_class else [each.name for each in getattr(obj, "parameters", ())]
            section = "Attributes" if obj.is_class else "Args"
            text = as_markdown(obj.docstring.value, [*members], section=section)
            obj.docstring.value = text.replace("\nExample:\n", "\nExamples:\n")  # the name that Griffe reads
