"""Safe reading of input files: regular files only, YAML without bombs, each key once.

Opening a named pipe waits for its writer, and a device may never end. Every input file is therefore opened here.
Libraries that open files themselves get a path that `require_file` has checked.
"""

import csv
import errno
import io
import json
import math
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

import yaml

from juzhen.core.errors import UserError
from juzhen.core.text import short

MOST_NODES = 100_000
"""Most values of a YAML file with its aliases expanded: nine lines of aliases can stand for 10^9 values."""

SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def require_file(path: str | Path) -> Path:
    """Check that a path is a regular file, and return it.

    Args:
        path: Path as given. A link is followed.

    Returns:
        The same path.

    Raises:
        FileNotFoundError: The file is missing.
        OSError: A folder, a named pipe, a device or a socket. The message has the path.
    """
    _require_regular(os.stat(path).st_mode, path)
    return Path(path)


def open_regular_file(path: str | Path) -> BufferedReader:
    """Open a regular file to read its bytes.

    Args:
        path: Path as given. A link is followed.

    Returns:
        The open file, which the caller closes.

    Raises:
        FileNotFoundError: The file is missing.
        OSError: As `require_file`.
    """
    require_file(path)
    # A pipe may have replaced the file since: open without waiting, and look again.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | Path) -> bytes:
    """Read a regular file.

    Args:
        path: Path as given. A link is followed.

    Returns:
        All its bytes.

    Raises:
        FileNotFoundError: The file is missing.
        OSError: As `require_file`.
    """
    with open_regular_file(path) as file:
        return file.read()


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """Read a text file, with every line end as a line feed.

    Args:
        path: The file.
        encoding: Its encoding.

    Returns:
        The whole text.

    Raises:
        OSError: As `require_file`.
        UnicodeDecodeError: Other bytes, which is a ValueError.
    """
    text = read_bytes(path).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Args:
        path: File in UTF-8.

    Returns:
        Plain data.

    Raises:
        OSError: As `require_file`.
        ValueError: The file is not JSON, or not UTF-8.
    """
    return parse_json(read_text(path))


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


FINITE_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
"""Decoder without NaN, Infinity, and numbers that overflow such as 1e400. It is as fast as `json.loads`."""


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """Parse JSON.

    Args:
        text: Text, or bytes in UTF-8.
        finite: Refuse numbers that are not finite, in a text.

    Returns:
        Plain data.

    Raises:
        ValueError: The text is not JSON, its brackets are nested too deeply, or it has a number that is refused.
    """
    try:
        return FINITE_JSON.decode(text) if finite and isinstance(text, str) else json.loads(text)
    except RecursionError:
        raise ValueError("brackets in brackets, hundreds deep") from None


def read_shaped(path: str | Path, kind: Any, remedy: str) -> Any:
    """Read a JSON file and check its structure.

    Args:
        path: The file.
        kind: Type of its content, as of `require_form`.
        remedy: Advice to the user for a file with another content.

    Returns:
        Plain data of that structure.

    Raises:
        OSError: As of `require_file`.
        UserError: Not JSON, or another structure. The message has the file and the place in it.
    """
    try:
        content = read_json(path)
        from juzhen.core.schema import require_form  # pydantic takes longer to load than `import juzhen`

        require_form(content, kind, "its content")
    except ValueError as error:
        raise UserError(f"{path}: {error}. {remedy}.") from error
    return content


class _KeysOnce(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """Loader that refuses a repeated key. YAML itself takes the last value without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise ValueError(f"line {node.start_mark.line + 1}: the key {twice[0]} is there twice")
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file.

    Args:
        path: File in UTF-8.

    Returns:
        Plain data. None for an empty file.

    Raises:
        UserError: The file is not valid YAML, has a key twice, or its aliases expand to too many values.
        OSError: As `require_file`.
    """
    try:
        text = read_text(path)
        _require_few_nodes(text)
        return yaml.load(text, Loader=_KeysOnce)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            reason = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise UserError(f"{path}: not valid YAML ({reason}). Correct the file.") from error


def require_yaml(path: str | Path) -> None:
    """Check that a YAML file is safe to read. Its syntax is left to its reader.

    Args:
        path: File in UTF-8.

    Raises:
        UserError: Its aliases expand to too many values.
    """
    try:
        _require_few_nodes(read_text(path))
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return
    except ValueError as error:
        raise UserError(f"{path}: {error}. Write the values without aliases.") from error


def csv_rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Read a CSV file whose first line names the columns.

    Args:
        path: CSV file in UTF-8, with a byte-order mark or without.

    Returns:
        The names, and the line number and values of each row. A missing value is "".

    Raises:
        UserError: Not CSV in UTF-8, or a row with more values than names.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start + 1} is not UTF-8. Save the CSV file in UTF-8."
        ) from error
    reader = csv.DictReader(io.StringIO(text.replace("\r\n", "\n"), newline="\n"), restval="")
    try:
        names = list(reader.fieldnames or [])
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: not CSV ({short(str(error))}). Correct the line."
        ) from error
    for line, row in rows:
        if None in row:  # DictReader's key for values without a name
            raise UserError(
                f"{path}, line {line}: more values than the {len(names)} names of the first line. Put a text that "
                "holds a comma in quotes."
            )
    return names, rows


def csv_text(rows: Iterable[Iterable[object]], *, delimiter: str = ",") -> str:
    """Return rows as CSV. Lines end in a line feed.

    Args:
        rows: Rows of cells. None is written as an empty cell.
        delimiter: One character between cells. Cells with it are quoted.

    Returns:
        The text, with a line feed at the end of each line.
    """
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _require_few_nodes(text: str) -> None:
    """Raises ValueError if the aliases of a YAML text expand to more than MOST_NODES values."""
    if "*" not in text or "&" not in text:
        return
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = MOST_NODES + 1  # stays if the node contains itself
            parts = node.value if isinstance(node, yaml.CollectionNode) else []
            parts = [side for pair in parts for side in pair] if isinstance(node, yaml.MappingNode) else parts
            sizes[id(node)] = 1 + sum(map(size, parts))
        return sizes[id(node)]

    if size(yaml.compose(text, Loader=yaml.SafeLoader)) > MOST_NODES:
        raise ValueError(
            f"its aliases expand to more than {MOST_NODES:,} values, or to a value that holds itself"
        )


def _require_regular(mode: int, path: str | Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a folder", str(path))
    if not stat.S_ISREG(mode):
        sort = SPECIAL.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"{sort}, not a file", str(path))
