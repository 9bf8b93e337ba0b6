"""`juzhen encode`: embeddings of the texts of a file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.cli.options import (
    AS_IT_LOOKS,
    BATCH_TOKENS,
    Backend,
    BatchTokens,
    Cache,
    Encoder,
    LongTexts,
    Overlap,
    TableOptions,
    TruncateDim,
    encoding_options,
    require_one_way,
)
from juzhen.core.atomic_write import atomic_write, require_room
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.machine import without_hub
from juzhen.core.safe_open import require_file
from juzhen.core.text import counted
from juzhen.core.text_warnings import collected


def encode(
    encoder: Encoder,
    file: Annotated[
        Path,
        Argument(
            help="texts: .txt with one per line, or a table: .csv, .tsv, .jsonl, .parquet, .xlsx, also "
            ".gz or .zst. - reads standard input"
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        Option(metavar="FILE.npy", help="where to write", show_default="<file>.npy next to the file"),
    ] = None,
    truncate_dim: TruncateDim = None,
    precision: Annotated[
        Literal["float32", "int8", "binary"], Option(help="format of the output")
    ] = "float32",
    ranges: Annotated[
        Path | None,
        Option(
            metavar="FILE.npy",
            help="ranges for int8, for example of a corpus",
            show_default="computed from these texts",
        ),
    ] = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    backend: Backend = BackendName.TORCH,
    cache: Cache = None,
    workers: Annotated[int | None, Option(min=1, help="number of processes", show_default="1")] = None,
    prompt_name: Annotated[str | None, Option(help="name of a prompt, such as query or passage")] = None,
    prompt: Annotated[
        str | None, Option(metavar="TEXT", help="prompt text before every line ('' for none)")
    ] = None,
    table: TableOptions = AS_IT_LOOKS,
    long_texts: LongTexts = "cut",
    overlap: Overlap = None,
    cut_report: Annotated[
        Path | None,
        Option(metavar="FILE.tsv", help="list truncated lines: number, tokens, lost tokens"),
    ] = None,
) -> None:
    """Writes the embeddings of the texts of a file as a NumPy array, float32, one row per text.

    --precision int8 writes one byte per dimension and FILE.ranges.npy with the ranges. binary writes one bit per
    dimension, 1 if the value is above 0.

    Truncated texts are counted, and the first ones are listed by line. In a table the column `text` is read, or the
    only column.

    juzhen encode runs/NAME lines.txt
    juzhen encode runs/NAME faq.csv --columns text=问题
    juzhen encode runs/NAME reports.txt --long-texts chunk
    cut -f2 pairs.tsv | juzhen encode runs/NAME - --output firsts.npy
    """
    from juzhen.data.readers import plain_name
    from juzhen.data.tables import require_fields, sound_texts

    is_stream = str(file) == "-"
    if is_stream and output is None:
        raise UserError("-: standard input has no file name. Name the output: --output FILE.npy")
    output = output or Path(f"{file.parent / plain_name(file)}.npy")
    kept_ranges = output.with_name(f"{output.name.removesuffix('.npy')}.ranges.npy")
    writes_ranges = precision == "int8" and ranges is None
    if ranges is not None and precision != "int8":
        raise UserError("--ranges needs --precision int8. Add it, or leave --ranges out")
    require_one_way(backend, workers)
    if overlap is not None and long_texts == "cut":
        raise UserError("--overlap needs --long-texts chunk. Add it, or leave --overlap out")
    if cut_report is not None and long_texts != "cut":
        raise UserError("--cut-report: --long-texts chunk truncates nothing. Leave out one of them")
    check_overwritable(
        output, *([kept_ranges] if writes_ranges else []), *([cut_report] if cut_report else [])
    )
    if output.suffix not in ("", ".npy"):
        raise UserError(f"--output {output}: a NumPy array is written. Give a name that ends in .npy")
    require_room(output.absolute().parent)
    ends = None if ranges is None else _byte_ranges(ranges)
    reading = table.reading
    require_fields(reading, "text")
    content = _standard_input() if is_stream else None
    read, texts, line_numbers, faults = sound_texts(file, reading, content=content)
    print("".join(f"note: {note}\n" for note in read.notes), end="", file=sys.stderr)
    without_hub()
    import numpy as np

    from juzhen.encoders import load_encoder
    from juzhen.encoders.search import quantize

    loaded = load_encoder(encoder).eval()
    if prompt_name is not None or prompt is not None:
        loaded = loaded.with_prompt(prompt_name, prompt)
    loaded = loaded.with_long_texts(long_texts, overlap)
    with collected() as seen:
        embeddings = loaded.encode(
            texts,
            truncate_dim=truncate_dim,
            workers=workers,
            **encoding_options(loaded, backend, batch_tokens, workers, cache),
        )
    seen.counts.clear()  # the lines are named below
    seen.show()
    arrays = {output: embeddings}
    if precision != "float32":
        quantized = quantize(embeddings, precision, ranges=ends)
        arrays = {output: quantized.codes}
        if writes_ranges and quantized.ranges is not None:
            arrays[kept_ranges] = quantized.ranges
    for path, array in arrays.items():
        with atomic_write(path, "wb") as stream:
            np.save(stream, array)
    lost = loaded.lost_tokens(texts)
    if cut_report is not None:
        _write_cut_report(cut_report, lost, loaded.max_length, line_numbers)
    if line := _cut_lines(lost, loaded.max_length, line_numbers):
        print(line, file=sys.stderr)
    if loaded.score_head is not None:
        print(
            "pairs of this encoder are scored by uᵀWv and not by the cosine of these: juzhen score",
            file=sys.stderr,
        )
    kind = "" if precision == "float32" else f", in {precision}"
    if faults:
        print(
            f"left out: {counted(len(faults), 'faulty rows')}, the first in line {min(faults):,}",
            file=sys.stderr,
        )
    print(
        f"{counted(len(embeddings), 'embeddings')} of {embeddings.shape[1]} dimensions{kind}: {output}",
        file=sys.stderr,
    )


def _byte_ranges(path: Path) -> Any:
    """Read the lowest and highest value of each dimension, as `--precision int8` writes them."""
    import numpy as np

    try:
        found = np.load(require_file(path), allow_pickle=False)
    except (ValueError, EOFError):
        found = np.empty(0)
    if found.ndim != 2 or len(found) != 2 or found.dtype.kind != "f":
        raise UserError(
            f"--ranges {path}: not ranges of int8. Give a .ranges.npy of juzhen encode --precision int8."
        )
    return found


SHOWN = 5
"""Truncated lines to list."""


def _standard_input() -> bytes:
    """Read bytes, because a text stream of Python also ends lines at carriage returns."""
    stream = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read().encode() if stream is None else stream.read()


def _cut_lines(lost: Any, max_length: int, line_numbers: Sequence[int]) -> str | None:
    """Return a line about truncated texts, or None if there are none.

    Args:
        lost: Number of truncated tokens of each text.
        max_length: Longest text of the encoder, in tokens.
        line_numbers: Line of each text in its file.

    Returns:
        The line, or None.
    """
    cut = [number for number, count in zip(line_numbers, lost.tolist(), strict=True) if count]
    if not cut:
        return None
    named = ", ".join(f"{number:,}" for number in cut[:SHOWN]) + (", …" if cut[SHOWN:] else "")
    return (
        f"{len(cut):,} of {len(lost):,} lines are longer than {max_length} tokens and were truncated: {named}. "
        "--cut-report FILE lists them; --long-texts chunk reads them whole"
    )


def _write_cut_report(path: Path, lost: Any, max_length: int, line_numbers: Sequence[int]) -> None:
    rows = [
        f"{number}\t{max_length + count}\t{count}\n"
        for number, count in zip(line_numbers, lost.tolist(), strict=True)
        if count
    ]
    with atomic_write(path, "w") as stream:
        stream.write("line\ttokens\tlost\n" + "".join(rows))
