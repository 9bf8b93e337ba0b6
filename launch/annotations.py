"""Compares plain values with type annotations that were read, not imported."""

import ast

from juzhen.core.errors import nearest
from launch.explain import ConfigError

SPOKEN = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
    "None": "null",
}


def check_value(key: str, value: object, annotation: ast.expr | None) -> None:
    """Raises ConfigError when a value of the configuration does not fit a parameter's annotation."""
    if annotation is None or fits(value, annotation):
        return
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        choices = [str(one) for one in _literals(annotation)]
        raise ConfigError(
            f"{key}={value}: expected {' or '.join(choices)}; {nearest(str(value).lower(), choices)}", key
        )
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else value
    raise ConfigError(f"{key}={shown}: expected {_spoken(annotation)}", key)


def _spoken(annotation: ast.expr) -> str:
    """The annotation in words; a whole number is not named beside a number."""
    words = [SPOKEN.get(name.strip(), name.strip()) for name in ast.unparse(annotation).split("|")]
    if SPOKEN["float"] in words:
        words = [word for word in words if word != SPOKEN["int"]]
    return " or ".join(dict.fromkeys(words))


def _literals(annotation: ast.Subscript) -> list[object]:
    chosen = ast.literal_eval(annotation.slice)
    return list(chosen) if isinstance(chosen, tuple) else [chosen]


def fits(value: object, annotation: ast.expr) -> bool:
    """Whether a plain value fits an annotation; one that no configuration can spell fits everything."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return fits(value, left) or fits(value, right)
        case ast.Constant(value=None):
            return value is None
        case ast.Subscript(value=ast.Name(id="Literal")):
            return value in _literals(annotation)
        case ast.Subscript(value=ast.Name(id="list" | "Sequence" | "tuple")):
            return isinstance(value, list)
        case ast.Name(id="bool"):
            return isinstance(value, bool)
        case ast.Name(id="str"):
            return isinstance(value, str)
        case ast.Name(id="int"):
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.Name(id="float"):
            return isinstance(value, int | float) and not isinstance(value, bool)
    return True
