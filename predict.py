"""Scores sentence pairs with a trained encoder: `python predict.py <run or folder> "句子一" "句子二"`.

With --file it adds a column to a table of pairs. The score is the cosine of the two embeddings, −1 to 1; of a
cross-encoder it is the logit, any number, 0 where it is undecided after training with bce or ce.
"""

import argparse
import csv
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schema.caches import caches_below
from schema.config import BackendName, backend_name
from schema.errors import UserError, exit_status, nearest
from schema.whole import write_text

if TYPE_CHECKING:  # both load torch or numpy, and --help should not wait for them
    from datamodules.readers import Table
    from encoders import SentenceEncoder


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit status: 0, or 2 for a mistake of the user."""
    options = _parser().parse_args(arguments)
    caches_below(options.cache)
    return exit_status(lambda: _score(options))


def _score(options: argparse.Namespace) -> None:
    backend_name(options.backend, key="--backend")
    if options.file is None and len(options.sentences) == 2:
        print(f"{score_pair(options):.4f}")
    elif options.file is not None and not options.sentences:
        print(f"written to {score_file(options)}", file=sys.stderr)
    else:
        raise UserError(
            "expected two sentences, or --file pairs.tsv:\n"
            '  python predict.py <run or folder> "句子一" "句子二"\n'
            "  python predict.py <run or folder> --file pairs.tsv"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="predict.py",
        description="Scores sentence pairs with a trained encoder; the score is the cosine, −1 to 1, or the logit of "
        "a cross-encoder, any number.",
    )
    parser.add_argument("encoder", help="run folder, or folder of an encoder")
    parser.add_argument("sentences", nargs="*", help="the two sentences of a pair")
    parser.add_argument("--file", type=Path, help="table of pairs: .tsv or .csv, also .gz or .zst")
    parser.add_argument(
        "--columns",
        nargs=2,
        metavar="COLUMN",
        help="the two text columns: names, or positions from 0 (default: sentence1 sentence2, or 0 1)",
    )
    parser.add_argument("--no-header", action="store_true", help="the first line is a pair already")
    parser.add_argument("--quoted", action="store_true", help='fields may be wrapped in double quotes ("")')
    parser.add_argument("--output", type=Path, help="default: <file>.scored.tsv or .csv beside the file")
    parser.add_argument("--score-column", default="score", help="name of the new column (default: score)")
    parser.add_argument("--batch-tokens", type=int, default=16384, help="tokens at a time (default: 16384)")
    parser.add_argument(
        "--backend",
        default=BackendName.TORCH,
        help=f"what computes the embeddings: {', '.join(BackendName)} (default: {BackendName.TORCH})",
    )
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep embeddings here for the next time")
    return parser


def score_pair(options: argparse.Namespace) -> float:
    """Similarity of two sentences."""
    first, second = options.sentences
    return float(_scores([first], [second], options, progress=False)[0])


def score_file(options: argparse.Namespace) -> Path:
    """Writes the file with one more column and gives its path. The file is complete or not there.

    Raises UserError for a file that cannot be read, a row that is not like the others and an empty sentence.
    """
    from datamodules.readers import DELIMITERS, read_table

    path = options.file
    if not path.is_file():
        raise UserError(f"--file {path}: no such file")
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix in DELIMITERS), None)
    if kind is None:
        raise UserError(
            f"--file {path}: expected one of {', '.join(DELIMITERS)}, or one of them with .gz or .zst"
        )
    output = options.output or path.with_name(f"{path.name.split(kind)[0]}.scored{kind}")
    table = read_table(path, header=not options.no_header, quoted=options.quoted)
    for line, reason in sorted(table.faults.items())[:1]:
        raise UserError(f"{table.at(line)}: {reason}")
    first, second = _text_columns(table, options)
    scores = _scores(first, second, options, progress=True)
    names = [*table.names, options.score_column] if table.names else None
    columns = [*table.columns, [f"{score:.6f}" for score in scores]]
    _write_table(output, names, columns, delimiter=DELIMITERS[kind], quoted=options.quoted)
    return output


def _text_columns(table: "Table", options: argparse.Namespace) -> list[Sequence[str]]:
    """The two columns of sentences, none of them empty."""
    names = table.names or [str(position) for position in range(len(table.columns))]
    wanted = options.columns or (("0", "1") if options.no_header else ("sentence1", "sentence2"))
    if table.names and options.score_column in table.names:
        raise UserError(
            f"{options.file}: there is a column {options.score_column} already; "
            "name the new one with --score-column predicted"
        )
    columns = []
    for name in wanted:
        if name not in names and not (name.isdigit() and int(name) < len(names)):
            raise UserError(
                f"{options.file}: no column {name}; {nearest(name, names)}. Choose with --columns A B"
            )
        position = names.index(name) if name in names else int(name)
        for line, text in zip(table.lines, table.columns[position], strict=True):
            if not text.strip():
                raise UserError(f"{table.at(int(line))}: the sentence in column {name} is empty")
        columns.append(table.columns[position])
    if not len(table.lines):
        raise UserError(f"{options.file}: no rows below the header")
    return columns


def _scores(
    first: Sequence[str], second: Sequence[str], options: argparse.Namespace, *, progress: bool
) -> Sequence[float]:
    # An encoder is a folder here, the hub is never asked. transformers reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from encoders import load_encoder
    from encoders.joint_bundle import is_joint

    if is_joint(options.encoder):
        return _joint_scores(first, second, options, progress=progress)
    return _cosines(load_encoder(options.encoder), first, second, options, progress=progress)


def _joint_scores(
    first: Sequence[str], second: Sequence[str], options: argparse.Namespace, *, progress: bool
) -> Sequence[float]:
    if options.cache is not None or options.backend != BackendName.TORCH:
        raise UserError(
            f"{options.encoder} holds a cross-encoder, which has no embeddings: leave out --cache and --backend"
        )
    from encoders.joint_bundle import load_joint_encoder

    encoder = load_joint_encoder(options.encoder)
    return encoder.scores(first, second, batch_tokens=options.batch_tokens, progress=progress)


def _cosines(
    encoder: "SentenceEncoder",
    first: Sequence[str],
    second: Sequence[str],
    options: argparse.Namespace,
    *,
    progress: bool,
) -> Sequence[float]:
    import numpy as np

    from encoders.embedding_cache import EmbeddingCache

    embeddings = encoder.embed(
        [*first, *second],
        batch_tokens=options.batch_tokens,
        progress=progress,
        backend=options.backend,
        cache=None if options.cache is None else EmbeddingCache(options.cache),
    )
    embeddings /= np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.einsum("rd,rd->r", embeddings[: len(first)], embeddings[len(first) :])


def _write_table(
    path: Path, names: list[str] | None, columns: list[Sequence[str]], *, delimiter: str, quoted: bool
) -> None:
    """No half file is ever seen."""
    text = io.StringIO()
    rows = zip(*columns, strict=True)
    if quoted:
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerows([names] if names else [])
        writer.writerows(rows)
    else:
        text.writelines(f"{delimiter.join(row)}\n" for row in ([names] if names else []))
        text.writelines(f"{delimiter.join(row)}\n" for row in rows)
    try:
        write_text(path, text.getvalue())
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
