"""Input files are opened here and nowhere else: what is no regular file is refused at once, and nobody waits for it.

To open a named pipe waits for whoever writes into it, a device may never end, and a file of some lines may spell out
more than fits in the memory. Libraries that open files themselves get a path that `require_file` has seen.
"""

import csv
import errno
import io
import json
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
"""Values that a YAML file may spell out with its aliases: nine lines of them can say 10^9."""

SORTS = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def require_file(path: str | Path) -> Path:
    """The path of a regular file. Raises OSError, with the path, for all else, and FileNotFoundError for nothing."""
    _require_regular(os.stat(path).st_mode, path)
    return Path(path)


def open_regular_file(path: str | Path) -> BufferedReader:
    """A regular file, to be read. Errors: as `require_file`."""
    require_file(path)
    # Without waiting, should a pipe have come in its place since.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | Path) -> bytes:
    """The content of a regular file. Errors: as `require_file`."""
    with open_regular_file(path) as file:
        return file.read()


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """The same as text, with line feeds for all ends of lines. Raises UnicodeDecodeError, a ValueError, too."""
    text = read_bytes(path).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: str | Path) -> Any:
    """The content of a JSON file. Raises OSError as `require_file`, and ValueError for what is no JSON."""
    return parse_json(read_text(path))


def parse_json(text: str | bytes) -> Any:
    """The value of a text of JSON. Raises ValueError for what is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets in brackets, hundreds deep") from None


def read_shaped(path: str | Path, kind: Any, remedy: str) -> Any:
    """Read a JSON file that is indexed afterwards.

    Args:
        path: The file.
        kind: The type of what it holds, as of `require_form`.
        remedy: What to do about a file that holds something else.

    Raises:
        OSError: As of `require_file`.
        UserError: No JSON, or a value of another shape, naming the file and the place.
    """
    try:
        content = read_json(path)
        from juzhen.core.schema import require_form  # pydantic takes longer than `import juzhen`

        require_form(content, kind, "its content")
    except ValueError as error:
        raise UserError(f"{path}: {error}. {remedy}.") from error
    return content


class _KeysOnce(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """Refuses a key that stands in a mapping twice, of which YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise ValueError(f"line {node.start_mark.line + 1}: the key {twice[0]} is there twice")
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> Any:
    """The content of a YAML file. Raises UserError, with the path, where it is none."""
    try:
        text = read_text(path)
        _require_few_nodes(text)
        return yaml.load(text, Loader=_KeysOnce)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: no YAML that can be read: {' '.join(str(error).split())[:300]}") from error


def require_yaml(path: str | Path) -> None:
    """Raises UserError for a file that cannot be read without harm; whether it is YAML, its reader says."""
    try:
        _require_few_nodes(read_text(path))
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


def _require_few_nodes(text: str) -> None:
    """Raises ValueError for a text whose aliases spell out more than MOST_NODES values."""
    if "*" not in text or "&" not in text:
        return
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = MOST_NODES + 1  # of one that holds itself
            parts = node.value if isinstance(node, yaml.CollectionNode) else []
            parts = [side for pair in parts for side in pair] if isinstance(node, yaml.MappingNode) else parts
            sizes[id(node)] = 1 + sum(map(size, parts))
        return sizes[id(node)]

    if size(yaml.compose(text, Loader=yaml.SafeLoader)) > MOST_NODES:
        raise ValueError(
            f"its aliases spell out more than {MOST_NODES:,} values, or a value that holds itself"
        )


def _require_regular(mode: int, path: str | Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, where a file is expected", str(path))
    if not stat.S_ISREG(mode):
        sort = next((name for holds, name in SORTS.items() if holds(mode)), "something else")
        raise OSError(errno.EINVAL, f"{sort}, where a file is expected", str(path))


def csv_rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Names of the columns, and line and values of each row; a value that a row lacks is "".

    Raises UserError for a file that is no CSV in UTF-8, and for a row with more values than there are names.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start + 1} is not UTF-8; expected a CSV file in UTF-8"
        ) from error
    reader = csv.DictReader(io.StringIO(text.replace("\r\n", "\n"), newline="\n"), restval="")
    try:
        names = list(reader.fieldnames or [])
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: no CSV ({short(str(error))})") from error
    for line, row in rows:
        if None in row:  # where DictReader puts what has no name
            raise UserError(f"{path}, line {line}: more values than the {len(names)} names of the first line")
    return names, rows


def csv_text(rows: Iterable[Iterable[object]], *, delimiter: str = ",") -> str:
    """The rows as CSV, that of the names first where there is one; lines end in a line feed alone."""
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()
