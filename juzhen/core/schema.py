"""Schema language of configurations and files, by pydantic, and the messages about values that do not fit."""

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, overload

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass as described
from pydantic_core import ArgsKwargs, CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from juzhen.core.errors import UserError, nearest
from juzhen.core.text import short

T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)


def _spelt(text: str) -> str:
    """The text, unless it has a lone surrogate, which JSON can spell and no terminal or file can take."""
    text.encode()
    return text


LARGEST = 1e100
"""Largest number: squares and sums of such numbers can be computed."""


class _Finite:
    """A number. An int stays an int."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.float_schema(allow_inf_nan=False, ge=-LARGEST, le=LARGEST)


Text = Annotated[str, AfterValidator(_spelt)]
Number = Annotated[float | int, _Finite()]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""Values of a JSON file, perhaps a stranger's: a text, a finite number, an integer of 64 bits."""

SCHEMA = ConfigDict(extra="forbid", coerce_numbers_to_str=True, use_enum_values=True)
"""Rules of descriptions: unknown keys are refused, numbers become texts where texts are expected, enums are texts."""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
def configuration(kind: Kind) -> Kind:
    """Make a class a dataclass with the rules of `SCHEMA`, for which a value that does not fit is a ConfigError.

    Descriptions of its fields are added to a docstring without Args, so that `help()` shows them.

    Args:
        kind: Class with annotated fields, whose defaults may be `Field`.

    Returns:
        The class as a dataclass with keyword arguments only.
    """
    made: Any = described(config=SCHEMA, kw_only=True)(kind)
    build, about = made.__init__, inspect.cleandoc(kind.__doc__ or "")
    if "Args:" not in about:
        fields: Mapping[str, Any] = vars(made)["__pydantic_fields__"]
        args = [f"    {name}: {field.description}" for name, field in fields.items() if field.description]
        made.__doc__ = "\n".join([about, "", "Args:", *args])

    @wraps(build)
    def checked(self: Any, **values: Any) -> None:
        try:
            build(self, **values)
        except ValidationError as error:
            raise explained(error, made) from error
        _refuse_misread(values, self)

    made.__init__ = checked
    return cast(Kind, made)


STRICT = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
"""Rules of a class's keys: values are passed on as they are, without conversion."""


@dataclass(frozen=True, eq=False)
class Among:
    """`Annotated[str, Among(TABLE)]`: a name of a table, as the table is when the value is read.

    Args:
        names: The allowed names.
    """

    names: Collection[str]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.known, core_schema.str_schema())

    def known(self, name: Any) -> Any:
        """Check a value against the table. Pydantic calls it.

        Args:
            name: Value as given.

        Returns:
            The same name.

        Raises:
            PydanticCustomError: The name is not in the table.
        """
        if not isinstance(name, str) or name not in self.names:
            listed = ", ".join(map(repr, self.names))
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": listed})
        return name


class ConfigError(UserError):
    """A mistake at one key of a configuration. `key` lets the caller find where it was set.

    Args:
        message: The message.
        key: The key. None: the key that the message begins with, as in "seed=x: …".
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        match = re.match(r"(\w[\w.-]*(?:\[\d+\])?)[=:]", message)
        self.key = (match[1] if match else "") if key is None else key


@overload
def validated(kind: type[T], values: Any, key: str = "", *, where: str = "") -> T: ...
@overload
def validated(kind: Any, values: Any, key: str = "", *, where: str = "") -> Any: ...
def validated(kind: Any, values: Any, key: str = "", *, where: str = "") -> Any:
    """Build an object of a described type from plain values.

    Args:
        kind: Type that pydantic knows, such as a class with `configuration`.
        values: Plain values, as read from YAML or JSON.
        key: Dotted key of the object in its configuration, for the message. "" at the top.
        where: File, for the message. "" for none.

    Returns:
        The object.

    Raises:
        ConfigError: The first value that does not fit.
    """
    try:
        checked = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise explained(error, kind, key, where=where) from error
    _refuse_misread(values, checked, key, where=where)
    return checked


def _refuse_misread(values: Any, checked: Any, key: str = "", *, where: str = "") -> None:
    for path, value, expected in _misread(values, checked, key):
        text = str(value).lower() if isinstance(value, bool) else value
        raise ConfigError(f"{f'{where}: ' if where else ''}{path}={text}: expected {expected}", path)


def fitting(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values after validation by a model.

    Args:
        model: Model of pydantic with a field for each name.
        values: Name → value. The other fields take their defaults.

    Returns:
        The names of `values` with their converted values.

    Raises:
        ConfigError: The first value that does not fit.
    """
    try:
        checked = model.model_validate(dict(values))
    except ValidationError as error:
        raise explained(error, model) from error
    return {name: getattr(checked, name) for name in values}


def _misread(values: Any, checked: Any, key: str) -> Iterator[tuple[str, Any, str]]:
    """Key, value and expected type where pydantic takes true for 1, or 8.0 for 8.

    Raises ConfigError if two keys of a mapping are the same text, of which pydantic takes the last.
    """
    if isinstance(values, Mapping):
        if len(set(map(str, values))) < len(values):
            raise ConfigError(f"{key}: a key is there twice, as a number and as a text. Keep one", key)
        inner = checked if isinstance(checked, Mapping) else vars(checked)
        for name, value in values.items():  # a key of a mapping may have become a text
            yield from _misread(value, inner.get(name, inner.get(str(name))), f"{key}.{name}".lstrip("."))
    elif isinstance(values, list | tuple) and isinstance(checked, list | tuple):
        for number, (value, item) in enumerate(zip(values, checked, strict=True)):
            yield from _misread(value, item, f"{key}[{number}]")
    elif isinstance(checked, int) and type(values) in (bool, float) and not isinstance(checked, bool):
        yield key, values, "a whole number"
    elif isinstance(checked, float) and isinstance(values, bool):
        yield key, values, "a number"


def explained(error: ValidationError, kind: type, key: str = "", *, where: str = "") -> ConfigError:
    """Turn pydantic's first error into `key=value: expected …`. An unknown key goes before other errors.

    Args:
        error: Error of pydantic.
        kind: Type that was validated, for the names of its keys.
        key: Dotted key of the object in its configuration. "" at the top.
        where: File, for the message. "" for none.

    Returns:
        An error to raise, which knows the key.
    """
    details = error.errors(include_url=False)
    unknown = [
        detail for detail in details if detail["type"] in ("unexpected_keyword_argument", "extra_forbidden")
    ]
    chosen = (unknown or details)[0]
    path = dotted(chosen["loc"], key)
    line, is_rule = _line(chosen, path, kind), chosen["type"] == "value_error"
    named = (
        re.match(r"[^\s=:]+", line) if is_rule and isinstance(chosen["input"], Mapping | ArgsKwargs) else None
    )
    return ConfigError(f"{where}: {line}" if where else line, named[0] if named else path)


def dotted(loc: Sequence[str | int], key: str = "") -> str:
    """Return pydantic's path of a value as a configuration writes it: `optimizer.betas[0]`.

    Args:
        loc: Keys and list positions, from the outside. Parts that pydantic adds are left out.
        key: Dotted key in front. "" at the top.

    Returns:
        The dotted key.
    """
    for part in loc:
        if part != "[key]" and not re.search(r"[^\w.-]", str(part)):
            key = f"{key}[{part}]" if isinstance(part, int) else f"{key}.{part}"
    return key.lstrip(".")


def _line(detail: ErrorDetails, path: str, kind: type) -> str:
    value = detail["input"]
    match detail["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            name = str(detail["loc"][-1])
            return f"{path}: unknown key. {nearest(name.lower(), sibling_keys(kind, detail['loc']))}"
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return f"{path} is not set. For example: {path}=<value>"
        case "value_error":  # a rule of ours, which names its key if it is about a group
            message = str(detail["ctx"]["error"])
            if isinstance(value, Mapping | ArgsKwargs):
                return f"{path}.{message}".lstrip(".")
            return f"{path}={short(str(value))}: {message}"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else short(str(value))
    expected = re.sub(r"^\w+ should (be|have|match) ", "", detail["msg"]).partition(", unable")[0]
    expected = f"a number {expected}" if expected.startswith(("greater", "less")) else expected
    line = f"{path}={text}: expected {expected}"
    if isinstance(value, bool) and detail["type"] in ("string_type", "literal_error"):
        return f"{line}. In a file, write it in quotes: YAML reads yes, no, on and off as true and false"
    if detail["type"] in ("literal_error", "enum"):
        hint = nearest(str(value).lower(), re.findall(r"'([^']*)'", detail["ctx"]["expected"]))
        return f"{line}. {hint}" if hint.startswith("Did") else line
    if detail["type"].startswith("list_type"):
        return f"{line}, '{path}=[…]'"
    is_group = detail["type"].startswith(("dict", "dataclass"))
    return f"{path}={text}: a group of keys, not a choice. Type {path}.<key>=<value>" if is_group else line


def sibling_keys(kind: Any, loc: Sequence[str | int]) -> Iterable[str]:
    """Return the keys next to the last one of a path.

    Args:
        kind: Type that pydantic knows.
        loc: Keys from the outside. The last one may be unknown.

    Returns:
        Known keys of the object around it. Empty if it is not an object with fixed keys.
    """
    schema = TypeAdapter(kind).json_schema()
    node = schema
    for part in loc[:-1]:
        inner = node.get("properties", {}).get(str(part)) or node.get("additionalProperties")
        if not isinstance(inner, dict):
            return []
        inner = next((option for option in inner.get("anyOf", []) if option.get("type") != "null"), inner)
        node = schema["$defs"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
    return list(node.get("properties", {}))


EXPECTED = {
    "string": "a text",
    "value": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "less": "a whole number",
    "greater": "a whole number",
    "float": "a number",
    "finite": "a number",
    "list": "a list",
    "dict": "an object {…}",
    "none": "null",
}
"""First word of pydantic's error type → the expected value."""


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


OWN_FILES = {
    ("fitted", "run"): "a calibration, a file of juzhen calibrate",
    ("alpha", "runs"): "a fusion, a file of juzhen fuse",
    ("trained_on", "scores"): "a result, which belongs to a run",
    ("default", "sets"): "the thresholds of an encoder",
    ("key", "settings"): "the record of a job, which belongs to a run",
    ("is_decided", "lines"): "an answer of juzhen advise",
    ("judge", "sources"): "the settings of a mining",
    ("hidden_size", "model_type"): "a configuration, which belongs to an encoder",
}
"""Keys that a JSON file has → what it is."""


def own_file(value: Any, kind: Any = None) -> str | None:
    """Return a description of a JSON object that is a file of juzhen.

    Args:
        value: Parsed JSON.
        kind: Expected type, a TypedDict. Its own files are not described. None expects none.

    Returns:
        Such as "the thresholds of an encoder". None for other data.
    """
    expected = getattr(kind, "__annotations__", {})
    fitting = (name for keys, name in OWN_FILES.items() if {*keys} <= {*value} and not {*keys} <= {*expected})
    return next(fitting, None) if isinstance(value, dict) else None


def require_form(value: Any, kind: Any, place: str) -> None:
    """Check the structure of plain data, as JSON has them.

    Nothing is converted: an int is a number, and true is not. Objects may have keys that their type does not name.

    Args:
        value: The data.
        kind: A type of `typing.TypedDict`, `dict`, `list` and the texts and numbers of this file.
        place: Name of the data, for the message.

    Raises:
        ValueError: The first place with another structure.

    Example:
        >>> require_form({"scores": [1, "x"]}, dict[str, list[Number]], "file")
        Traceback (most recent call last):
        ValueError: file.scores[1] is 'x', expected a number
    """
    try:
        _reader(kind).validate_python(value, strict=True)
    except ValidationError as error:
        if other := own_file(value, kind):
            raise ValueError(f"{place} is {other}") from None
        found = [(*_found(value, detail["loc"], place), detail) for detail in error.errors(include_url=False)]
        path, inner, detail = max(found, key=lambda each: each[0].count(".") + each[0].count("["))
        there = [each for where, _, each in found if where == path]
        if lacking := [each["loc"][-1] for each in there if each["type"] == "missing"]:
            raise ValueError(f"{path} lacks {lacking[0]}") from None
        if detail["loc"][-1:] == ("[key]",):
            owner, key = path.rsplit(".", 1)[0], detail["loc"][-2]
            raise ValueError(f"{owner} has the key {short(repr(key))}, which does not belong there") from None
        kinds = [EXPECTED[each["type"].partition("_")[0]] for each in there]
        expected = " or ".join(dict.fromkeys(kinds))
        raise ValueError(f"{path} is {short(repr(inner))}, expected {expected}") from None


def _found(value: Any, loc: Sequence[str | int], place: str) -> tuple[str, Any]:
    """The value at pydantic's path, and the path. pydantic also puts the options of a union into it."""
    for part in loc:
        if isinstance(value, Mapping) and part in value:
            place, value = f"{place}.{short(str(part))}", value[part]
        elif isinstance(value, list) and isinstance(part, int):
            place, value = f"{place}[{part}]", value[part]
    return place, value
