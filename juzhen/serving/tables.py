"""A file of pairs for the page: read as every verb reads a table (`juzhen.data.tables`), and answered as rows of texts.

Nothing of it is kept. What can unpack to much more than it is (parquet, Arrow, .gz, .zst) is not read here.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from juzhen.core.errors import UserError
from juzhen.data.row_kinds import find_columns, pair_columns, text_cells
from juzhen.data.tables import DELIMITERS, EXCEL, JSON, TableReading, read_own_table
from juzhen.serving.errors import RequestError, naming, written

CONTENT_TYPE = "application/octet-stream"
"""No form of a foreign page can send it without being allowed to."""

FORMATS = (*DELIMITERS, *JSON, EXCEL)
MOST_ROWS = 20_000
MOST_CHARACTERS = 2**23
"""Of all cells together."""
MOST_BYTES = 2**26
"""That a file of Excel may unpack to, whatever its size."""

READERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tables")
"""One file at a time: others wait."""


def add_tables(app: FastAPI) -> None:
    """The path /table, which the page alone asks."""

    @app.post("/table", include_in_schema=False)
    async def table(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            raise RequestError(415, f"expected the bytes of a file: Content-Type: {CONTENT_TYPE}")
        asked, content = request.query_params, await request.body()
        header = {"0": False, "1": True}.get(asked.get("header", ""))
        read = asyncio.get_running_loop().run_in_executor(
            READERS, read_pairs, asked.get("name", ""), content, header, asked.get("sheet") or None
        )
        return await written(await read)


def read_pairs(name: str, content: bytes, header: bool | None, sheet: str | None) -> dict[str, Any]:
    """What the page shows of a file: names, cells, and which columns are the two texts and the label.

    Raises RequestError for a file that cannot be read, or that has too many rows.
    """
    path: Any = PurePosixPath(name.replace("\\", "/").rpartition("/")[2])
    if path.suffix.lower() not in FORMATS:
        expected = ", ".join(FORMATS)
        raise RequestError(
            400, f"{path.name or 'name'}: this format is not read here; expected {expected}", param="name"
        )
    reading = TableReading(header=header, sheet=sheet, spell=lambda _, value: f"choosing {value}")
    with naming("name"):
        table = read_own_table(path, reading, content=content, most_bytes=MOST_BYTES)
        if len(table.lines) > MOST_ROWS:
            raise UserError(
                f"{path}: {len(table.lines):,} rows; at most {MOST_ROWS:,} are scored here. For more type juzhen score "
                "--file"
            )
        raw = text_cells(table, reading)
        if (size := sum(int(raw.cells[name].str.len().sum()) for name in raw.names)) > MOST_CHARACTERS:
            raise UserError(
                f"{path}: {size:,} characters; at most {MOST_CHARACTERS:,}. Type juzhen score --file"
            )
    try:
        chosen, unclear = [raw.names.index(name) for name in pair_columns(raw)], None
    except UserError as error:
        chosen, unclear = [0, min(1, len(raw.names) - 1)], str(error)
    gold = find_columns(raw)[1]
    line, fault = min(raw.faults.items(), default=(0, ""))
    return {
        "name": path.name,
        "format": table.format,
        "header": None if path.suffix.lower() in JSON else bool(table.names),
        "names": raw.names if table.names else [""] * len(raw.names),
        "rows": raw.cells.to_numpy().tolist(),
        "columns": {"a": chosen[0], "b": chosen[1], "gold": -1 if gold is None else raw.names.index(gold)},
        "unclear": unclear,
        "sheets": [*table.sheets],
        "left_out": {"rows": len(raw.faults), "first": f"{table.at(line)}: {fault}" if fault else ""},
    }
