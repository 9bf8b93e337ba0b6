"""The OpenAPI document: bodies as pydantic describes them, narrowed to what the models that are served can answer."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from juzhen.serving.models import ServedModels


def body_schemas(kinds: Sequence[type[BaseModel]], models: ServedModels) -> dict[str, Any]:
    """Schema of each body by name. `prompt_name` lists the prompts, `filter` the metadata of the index; what the server
    cannot do has its default alone."""
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    prompts = sorted({name for each in models.embedders.values() for name in each.encoder.prompts.texts})
    facts: dict[str, Any] = {"fields": [], "modes": [], "passages": False}
    if models.corpus is not None:
        facts = models.corpus.index.facts()
    fields, can = facts["fields"], {"rerank": models.reranker is not None, "per_document": facts["passages"]}
    for schema in schemas["$defs"].values():
        properties = schema.get("properties", {})
        if "prompt_name" in properties:
            _narrow(properties["prompt_name"], {"type": "string", "enum": prompts} if prompts else None)
        if "filter" in properties:
            (values,) = (option for option in properties["filter"]["anyOf"] if option["type"] == "object")
            names = {"propertyNames": {"enum": list(fields)}}
            _narrow(properties["filter"], {**values, **names} if fields else None)
        for name in properties.keys() & {"dimensions", "output_dimension"}:
            most = max(each.encoder.dim for each in models.embedders.values())
            properties[name]["anyOf"][0]["maximum"] = most
        for name in properties.keys() & can:
            properties[name] |= {} if can[name] else {"const": False}
        if "mode" in properties and facts["modes"]:
            properties["mode"]["enum"] = list(facts["modes"])
    return dict(schemas["$defs"])


def _narrow(field: dict[str, Any], option: dict[str, Any] | None) -> None:
    """Leaves `option` or null as what a field may be."""
    field["anyOf"] = [*([option] if option else []), {"type": "null"}]
