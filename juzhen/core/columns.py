"""Checks of input: texts, pairs and numbers from lists, arrays and table columns, and NaN in computed numbers.

Columns are read by position, whatever labels they carry. Mappings, sets, whole tables, and one text instead of several
are refused: Python can iterate over each of them, so they would be scored as something else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from juzhen.core.errors import UserError
from juzhen.core.text import is_unseen, short, text_fault

HALF_A_PAIR = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which no tokenizer accepts."""

EXAMPLE = '("今天天气很好", "今天是个好天气")'


def as_column(values: Any, name: str) -> list[Any]:
    """Return the values of a list, array, Series, Arrow column or generator by position.

    Args:
        values: The column.
        name: Name of the argument, for the message.

    Returns:
        Values of Python, in their order.

    Raises:
        UserError: Not a column.
    """
    columns = table_columns(values)
    if columns is not None:
        remedy = f"one column of it, such as table[{columns[0]!r}]" if columns else "a list"
        raise UserError(f"{name}: got {described(values)}, which is a table. Expected {remedy}")
    if isinstance(values, str):
        raise UserError(f"{name}: got one text. Expected a list: [{short(repr(values))}]")
    no_column = isinstance(values, Mapping | set | frozenset | bytes | bytearray)
    if no_column or not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        raise UserError(f"{name}: got {described(values)}. Expected a list{_remedy(values)}")
    if hasattr(values, "to_pylist"):  # an Arrow array: faster than one value at a time
        return values.to_pylist()
    column = [*values]
    if {*map(type, column)} <= {str}:
        return column
    return [value.as_py() if hasattr(value, "as_py") else value for value in column]


def table_columns(values: Any) -> list[str] | None:
    """Return the column names of a table of pandas, polars, Arrow, datasets or numpy.

    Args:
        values: Anything.

    Returns:
        None if it is not a table.
    """
    for attribute in ("column_names", "columns"):  # of the class: a Series may have a row with that label
        if hasattr(type(values), attribute):
            if getattr(values, attribute) is None:  # of a stream whose columns nobody has seen
                return None
            return [str(name) for name in getattr(values, attribute)]
    names = getattr(getattr(values, "dtype", None), "names", None)
    return None if names is None else list(names)


def as_list_of(values: Any, name: str, *kinds: type, way: str) -> list[Any]:
    """Return the values of a column of objects of some classes.

    Args:
        values: A list, a column of a table, or another column that `as_column` reads.
        name: Name of the argument, for the message.
        *kinds: Accepted classes.
        way: Advice at the end of the message, without full stop.

    Returns:
        The values in their order.

    Raises:
        UserError: A value has another class.
    """
    column = as_column(values, name)
    if strange := [value for value in column if not isinstance(value, kinds)]:
        raise UserError(f"{name}: {type(strange[0]).__name__} does not belong in this list. {way}.")
    return column


def as_text_list(texts: Iterable[str], name: str = "texts", *, may_be_empty: bool = False) -> list[str]:
    """Return texts by position.

    Args:
        texts: A list, an array, or a column of pandas, polars or Arrow.
        name: Name of the argument for messages.
        may_be_empty: Accept empty texts.

    Returns:
        The texts, in their order.

    Raises:
        UserError: Not a column, or a value in it is not a text.
    """
    column = as_column(texts, name)
    check_texts(column, called=f"{name}: text", may_be_empty=may_be_empty)
    return column


def as_texts(
    texts: str | Iterable[str], name: str = "texts", *, may_be_empty: bool = False
) -> tuple[list[str], bool]:
    """Return texts as a list, whether one or several are given.

    Args:
        texts: A single text, or a column as of `as_text_list`.
        name: Name of the argument for messages.
        may_be_empty: Accept empty texts.

    Returns:
        The texts, and True if the argument was a single text.

    Raises:
        UserError: Neither a text nor a column of texts.
    """
    text = _unpacked(texts)
    column, is_one = ([text], True) if isinstance(text, str) else (as_column(texts, name), False)
    check_texts(column, called="text" if name == "texts" else f"{name}: text", may_be_empty=may_be_empty)
    return column, is_one


def _unpacked(text: Any) -> Any:
    """The text in a cell of an Arrow column, or in an array without axes. Anything else as it is."""
    if hasattr(text, "as_py"):
        return text.as_py()
    return text.item() if isinstance(text, np.ndarray) and not text.ndim else text


def as_vectors(values: Any) -> np.ndarray | None:
    """Convert embeddings to float32.

    Args:
        values: An array, a tensor on any device, sparse or not, or a list of them.

    Returns:
        (rows, dim), or (dim,) for a single embedding. None for anything else, such as booleans.
    """
    if isinstance(values, list) and values and all(getattr(value, "ndim", 0) == 1 for value in values):
        return np.stack([np.asarray(as_vectors(value), dtype=np.float32) for value in values])
    if hasattr(values, "detach"):
        values = values.detach().to_dense().cpu()
        values = (values.float() if values.is_floating_point() else values).numpy()
    is_numbers = isinstance(values, np.ndarray) and values.dtype.kind in "fiu"
    return np.asarray(values, dtype=np.float32) if is_numbers else None


def as_text(text: Any, name: str, *, may_be_empty: bool = False) -> str:
    """Return a single text.

    Args:
        text: A text of Python, numpy or Arrow.
        name: Name of the argument for messages.
        may_be_empty: Accept an empty text.

    Returns:
        A string of Python.

    Raises:
        UserError: Anything else.
    """
    if not isinstance(_unpacked(text), str):
        raise UserError(f"{name}: expected one text, got {described(text)}{_remedy(text)}")
    return as_texts(text, name, may_be_empty=may_be_empty)[0][0]


def as_pairs(pairs: Iterable[tuple[str, str]] | tuple[str, str]) -> tuple[list[str], list[str], bool]:
    """Split pairs into their first and second texts.

    Args:
        pairs: Pairs, or a single pair: a tuple, list or array of two texts.

    Returns:
        First texts, second texts, and True for a single pair.

    Raises:
        UserError: An item is not a pair of texts.
    """
    is_rows = isinstance(pairs, np.ndarray) and pairs.ndim == 2
    rows: list[Any] = np.asarray(pairs).tolist() if is_rows else as_column(pairs, "pairs")
    is_one = isinstance(pairs, tuple | list | np.ndarray) and len(rows) == 2 and _are_texts(rows)
    each = [_as_pair(pair, position) for position, pair in enumerate([rows] if is_one else rows)]
    first, second = ([pair[side] for pair in each] for side in (0, 1))
    check_texts(first, called="the first text of pair")
    check_texts(second, called="the second text of pair")
    return first, second, is_one


def side_by_side(first: Any, second: Any) -> Any:
    """Combine two sides into pairs: two texts into one pair, two columns row by row.

    Args:
        first: A text, or a column of texts.
        second: As many texts, or None.

    Returns:
        A tuple of two texts, or a list of such tuples. `first` without a second side.

    Raises:
        UserError: The sides have different lengths.
    """
    if second is None:
        return first
    (left, is_one), (right, is_other_one) = as_texts(first), as_texts(second)
    if is_one != is_other_one or len(left) != len(right):
        raise UserError(
            f"score: {len(left):,} and {len(right):,} texts do not form pairs. Give two texts, or two lists of "
            "one length. Similarity gives each text with each"
        )
    return (left[0], right[0]) if is_one else list(zip(left, right, strict=True))


def _as_pair(pair: Any, position: int) -> Sequence[Any]:
    two = pair
    if not isinstance(pair, tuple | list) or not _are_texts(pair):
        try:
            two = as_column(pair, "pair")
        except UserError:
            two = ()
    if len(two) != 2:
        raise UserError(f"pair {position} is {described(pair)}. Expected two texts, for example {EXAMPLE}")
    return two


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def check_texts(
    texts: Sequence[str], *, called: str = "text", start: int = 0, may_be_empty: bool = False
) -> None:
    """Refuse the first text that cannot be encoded.

    Args:
        texts: The texts.
        called: Name of one of them, for the message.
        start: Number of the first one.
        may_be_empty: Accept empty texts.

    Raises:
        UserError: A value is not a string, is empty, or holds half a surrogate pair.
    """
    if {*map(type, texts)} <= {str}:  # one look at all of them is many times as fast
        together, firsts = "".join(texts), {text[:1] for text in texts}
        is_seen = may_be_empty or not ("" in firsts or "\0" in together or any(map(is_unseen, firsts)))
        if (
            is_seen
            and not HALF_A_PAIR.search(together)
            and (may_be_empty or not any(map(str.isspace, firsts)))
        ):
            return
    for position, text in enumerate(texts, start=start):
        if not isinstance(text, str):
            raise UserError(f"{called} {position} is {described(text)}. Expected a string{_remedy(text)}")
        if not may_be_empty and (not text or text.isspace()):
            raise UserError(f"{called} {position} is empty. An empty sentence has no embedding")
        if HALF_A_PAIR.search(text) or (not may_be_empty and ("\0" in text or is_unseen(text))):
            raise UserError(f"{called} {position} {text_fault(text)}. Leave it out, or clean it")


def as_numbers(**columns: Any) -> list[np.ndarray]:
    """Return columns of numbers as arrays (rows,) by position. Booleans become 0 and 1.

    Args:
        **columns: Name, for messages → values of a list, an array, or a column of pandas, polars or Arrow.

    Returns:
        One array for each argument, in their order.

    Raises:
        UserError: Not a column of numbers, or columns of different lengths.
    """
    arrays = {}
    for name, values in columns.items():
        array = np.asarray(values)
        if table_columns(values) is not None or array.ndim != 1 or array.dtype.kind not in "fiubO":
            raise UserError(f"{name}: expected a column of numbers, got {described(values)}")
        arrays[name] = array.astype(np.float64) if array.dtype.kind in "bO" else array
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{len(array):,} {name}" for name, array in arrays.items())
        raise UserError(f"{lengths}: expected as many of each, row by row")
    return list(arrays.values())


def as_plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers and lists of numpy as those of Python, anything else as its text.

    Args:
        value: A value that `json` does not know. NA and NaT of pandas become null.
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)


def described(value: object) -> str:
    """Describe a value for a message.

    Args:
        value: Any object.

    Returns:
        Its class with an article, and its shortened `repr` in parentheses.
    """
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind} ({short(repr(value))})"


def _remedy(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return '. Decode it first: text.decode("utf-8")'
    is_missing = (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"
    )
    return ". Remove missing values first, for example with column.dropna()" if is_missing else ""


def sound_rows(
    numbers: Float[np.ndarray, "rows *dim"], *, may_be_zero: bool = True
) -> Bool[np.ndarray, "rows"]:
    """Find the rows that can be compared: their squared length is a finite float32 number.

    One pass finds NaN, infinity, and vectors so long that normalising them would give zeros.

    Args:
        numbers: Vectors, or one number a row.
        may_be_zero: False refuses a row of zeros, too.

    Returns:
        True for each row that can be compared.
    """
    rows = numbers[:, None] if numbers.ndim == 1 else numbers
    with np.errstate(all="ignore"):
        lengths = np.einsum("rd,rd->r", rows, rows)
    return np.isfinite(lengths) & (may_be_zero | (lengths > 0))


def require_finite(
    numbers: Float[np.ndarray, "rows *dim"],
    texts: Sequence[Any],
    *,
    owners: Int[np.ndarray, "rows"] | None = None,
    key: str = "text",
    giver: str = "the encoder",
    may_be_zero: bool = True,
) -> None:
    """Check numbers that were computed from texts.

    Args:
        numbers: One row for each text, or several.
        texts: Texts, or pairs of texts.
        owners: Index of each row's text. None: one row for each text.
        key: Name of one of `texts`, for the message.
        giver: Name of the model, for the message.
        may_be_zero: As of `sound_rows`.

    Raises:
        UserError: A row with NaN or infinity. The message has its text.
    """
    if not (sound := sound_rows(numbers, may_be_zero=may_be_zero)).all():
        row = int(sound.argmin())
        raise UserError(
            f"{key}={short(repr(texts[row if owners is None else int(owners[row])]))}: {giver} gives NaN or "
            f"infinity ({int((~sound).sum()):,} of {len(sound):,} rows). Compute in float32, or replace the weights."
        )


def require_finite_weights(
    tensors: Iterable[tuple[str, Any]], source: object, *, remedy: str = "Copy the weights again"
) -> None:
    """Check named torch tensors for NaN and infinity.

    Args:
        tensors: Names and tensors.
        source: The file or folder they come from.
        remedy: Advice to the user.

    Raises:
        UserError: A tensor with NaN or infinity. The message has its name.
    """
    for name, values in tensors:
        if values.is_floating_point() and not values.isfinite().all():
            raise UserError(f"{source}: {name} holds NaN or infinite numbers. {remedy}.")
