"""Scores sentence pairs with a trained encoder: `juzhen score <run or folder> "句子一" "句子二"`.

With --file it adds a column to a table of pairs. The score is the cosine of the two embeddings, −1 to 1, or the learnt
form of a run with model.score=bilinear, any number; of a cross-encoder it is the logit, any number, 0 where it is
undecided after training with bce or ce. With --calibration it is the probability of label 1, and with --fuse one score
of two runs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.backends.names import BackendName, backend_name
from juzhen.calibration.new_pairs import add_fitted, check_fitted, fused_scores, scaled
from juzhen.cli.arguments import BATCH_TOKENS, VerbParser
from juzhen.cli.encode import add_backend
from juzhen.core.caches import caches_below
from juzhen.core.csv_rows import csv_text
from juzhen.core.errors import UserError, nearest
from juzhen.core.network import without_hub
from juzhen.core.numerals import is_position
from juzhen.core.owned import require_ours
from juzhen.core.texts import short, text_fault
from juzhen.core.whole import write_text, writing_to

if TYPE_CHECKING:  # it loads numpy, and --help should not wait for that
    import numpy as np

    from juzhen.data.readers import FileTable
    from juzhen.encoders import CrossEncoder, SentenceEncoder

OWN_CACHES = True


def run(
    encoder: str | Path | None = None,
    sentences: Sequence[str] = (),
    *,
    file: Path | None = None,
    columns: Sequence[str] | None = None,
    no_header: bool = False,
    quoted: bool = False,
    output: Path | None = None,
    score_column: str = "score",
    batch_tokens: int = BATCH_TOKENS,
    backend: str = BackendName.TORCH,
    cache: Path | None = None,
    fuse: Sequence[str | Path] | None = None,
    calibration: Path | None = None,
    scaling: str | None = None,
) -> None:
    """Prints the score of two sentences, or writes `file` with one more column and says where.

    Raises UserError for a file that cannot be read, a row that is not like the others and an empty sentence.
    """
    options = argparse.Namespace(**locals(), fitted=None)
    caches_below(cache)
    backend_name(options.backend, key="--backend")
    check_fitted(options)
    if options.encoder is None and options.fuse is None:
        raise UserError('expected a run or an encoder: juzhen score <run or folder> "句子一" "句子二"')
    if options.file is None and len(options.sentences) == 2:
        first, second = options.sentences
        print(f"{_scores([first], [second], options, progress=False)[0]:.4f}")
    elif options.file is not None and not options.sentences:
        print(f"written to {score_file(options)}", file=sys.stderr)
    else:
        raise UserError(
            'expected two sentences (juzhen score <run or folder> "句子一" "句子二"), or a file '
            "(juzhen score <run or folder> --file pairs.tsv)"
        )


def parser() -> VerbParser:
    parser = VerbParser(
        "score",
        description="Scores sentence pairs with a trained encoder; the score is the cosine, −1 to 1, or the logit of "
        "a cross-encoder, any number.",
    )
    parser.add_argument("encoder", nargs="?", help="run folder, or folder of an encoder")
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
    parser.add_argument("--score-column", help="name of the new column (default: score)")
    parser.add_batch_tokens()
    add_backend(parser)
    add_fitted(parser)
    return parser


def score_file(options: argparse.Namespace) -> Path:
    """Writes the file with one more column and gives its path. It is complete or not there. Errors: as `run`."""
    from juzhen.data.readers import DELIMITERS, read_table

    path = options.file
    if not path.is_file():
        raise UserError(f"--file {path}: no such file{', but something else' if path.exists() else ''}")
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix in DELIMITERS), None)
    if kind is None:
        raise UserError(
            f"--file {path}: expected one of {', '.join(DELIMITERS)}, or one of them with .gz or .zst"
        )
    output = options.output or path.with_name(f"{path.name.split(kind)[0]}.scored{kind}")
    _check_output(output, options)
    require_ours(output)
    table = read_table(path, header=not options.no_header, quoted=options.quoted)
    for line, reason in sorted(table.faults.items())[:1]:
        raise UserError(f"{table.at(line)}: {reason}")
    first, second = _text_columns(table, options)
    scores = _scores(first, second, options, progress=True)
    # The shortest digits that are read back as the same number: fewer would tie scores that lie close together.
    rows = list(zip(*table.columns, map(str, scores), strict=True))
    if table.names:
        rows.insert(0, (*table.names, options.score_column))
    delimiter = DELIMITERS[kind]
    plain = "" if options.quoted else "".join(f"{delimiter.join(row)}\n" for row in rows)
    with writing_to(f"--output {output}"):
        write_text(output, csv_text(rows, delimiter=delimiter) if options.quoted else plain)
    return output


def _check_output(output: Path, options: argparse.Namespace) -> None:
    """Raises UserError for a place that must not be written to, and for a column that no table can have."""
    if output.exists() and output.samefile(options.file):
        raise UserError(f"--output {output}: this is the file that is read; give another one")
    name = options.score_column
    if not name.strip() or any(sign in name for sign in "\t\n\r,"):
        raise UserError(f"--score-column {name!r}: expected a name without tabs, commas and line ends")


def _text_columns(table: "FileTable", options: argparse.Namespace) -> list[Sequence[str]]:
    from juzhen.data.verify import place_in

    names = table.names or [str(position) for position in range(len(table.columns))]
    wanted = options.columns or (("0", "1") if options.no_header else ("sentence1", "sentence2"))
    if table.names and options.score_column in table.names:
        raise UserError(
            f"{options.file}: there is a column {options.score_column} already; "
            "name the new one with --score-column predicted"
        )
    if wanted[0] == wanted[1]:
        raise UserError(
            f"--columns {' '.join(wanted)}: expected two columns; a sentence with itself scores 1"
        )
    columns = []
    for name in wanted:
        if name not in names and not (is_position(name) and int(name) < len(names)):
            raise UserError(_no_column(name, names, table, options))
        position = place_in(names, name, str(options.file)) if name in names else int(name)
        for line, text in zip(table.lines, table.columns[position], strict=True):
            if fault := text_fault(text):
                raise UserError(f"{table.at(int(line))}: the sentence in column {name} {fault}")
        columns.append(table.columns[position])
    if not len(table.lines):
        raise UserError(f"{options.file}: no rows below the header")
    return columns


def _no_column(name: str, names: Sequence[str], table: "FileTable", options: argparse.Namespace) -> str:
    """What to type where a column is not there: without --columns the first line may be a pair already."""
    from juzhen.data.verify import listed

    hint = nearest(name, map(short, names))
    hint = hint if hint.startswith("did you mean") else f"known: {listed(names)}"
    told = f"{options.file}: no column {name}; {hint}. Choose with --columns A B"
    if table.names and not options.columns:
        told += ", or, if the first line is a pair already, type --no-header"
    return told


def _scores(
    first: Sequence[str], second: Sequence[str], options: argparse.Namespace, *, progress: bool
) -> "np.ndarray":
    without_hub()
    from juzhen.backends import Deferred
    from juzhen.core.examples import TEXT_COLUMNS, Kind
    from juzhen.encoders import CrossEncoder, SentenceEncoder
    from juzhen.encoders.embedding_cache import EmbeddingCache
    from juzhen.encoders.locate import is_cross_encoder

    if options.fuse is not None:
        return scaled(fused_scores(first, second, options, progress=progress), options)
    how: dict[str, Any] = {"batch_tokens": options.batch_tokens, "progress": progress}
    encoder: SentenceEncoder | CrossEncoder
    if is_cross_encoder(options.encoder):
        if options.cache is not None or options.backend != BackendName.TORCH:
            raise UserError(
                f"{options.encoder} holds a cross-encoder, which has no embeddings: leave out --cache and --backend"
            )
        encoder = CrossEncoder.load(options.encoder)
        for kind in (Kind.NLI_PAIR, Kind.RETRIEVAL) if options.columns else ():
            if {*options.columns} == {*TEXT_COLUMNS[kind]}:
                encoder.require_order(str(options.file), kind, False)
    else:
        encoder = SentenceEncoder.load(options.encoder)
        how["backend"] = Deferred(encoder, options.backend)
        how["cache"] = None if options.cache is None else EmbeddingCache(options.cache)
    _tell_cut(encoder, first, second)
    return scaled(encoder.score(list(zip(first, second, strict=True)), **how), options)


def _tell_cut(encoder: "SentenceEncoder | CrossEncoder", first: Sequence[str], second: Sequence[str]) -> None:
    """One line where sentences are longer than the encoder reads: their scores are those of their beginnings."""
    from juzhen.core.examples import Examples, Kind
    from juzhen.encoders.cut import cut_of

    texts = {"text_a": list(first), "text_b": list(second)}
    cut = cut_of(encoder, Examples.from_texts("file", "test", kind=Kind.SCORED_PAIR, texts=texts))
    if cut.cut:
        print(
            f"{cut} are longer than the {cut.max_length} tokens that the encoder reads, and are cut there",
            file=sys.stderr,
        )
