"""`juzhen score`: similarity of sentence pairs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.calibration.pair_scorer import Scorer, score_table
from juzhen.cli.options import (
    BATCH_TOKENS,
    Backend,
    BatchTokens,
    Cache,
    TableOptions,
    TruncateDim,
    refuse_file_names,
)
from juzhen.core.errors import UserError, command
from juzhen.core.machine import without_hub
from juzhen.core.paths import is_table

if TYPE_CHECKING:  # it loads numpy
    from juzhen.data.tables import TableReading


@dataclass(frozen=True)
class PairTableOptions(TableOptions):
    """Options of a verb that reads a table of pairs."""

    columns: Annotated[
        list[str] | None,
        Option(
            metavar="FIELD=COLUMN,… or COLUMN COLUMN…",
            help="the two text columns, by name or by number from 1: text_a=问题,text_b=相似问, or 问题 相似问",
            show_default="recognised",
        ),
    ] = None  # type: ignore[assignment]

    @property
    def reading(self) -> "TableReading":
        from juzhen.data.tables import TableReading, parse_columns

        return TableReading(**vars(self) | {"columns": parse_columns(self.columns, ("text_a", "text_b"))})


AS_PAIRS_LOOK = PairTableOptions()


def score(
    encoder: Annotated[str | None, Argument(help="run folder, or folder of an encoder")] = None,
    sentences: Annotated[list[str] | None, Argument(help="the two sentences of a pair")] = None,
    *,
    file: Annotated[
        Path | None,
        Option(
            help="table of pairs: .csv, .tsv, .txt, .jsonl, .parquet, .xlsx, in UTF-8, UTF-16, GBK or Big5"
        ),
    ] = None,
    table: PairTableOptions = AS_PAIRS_LOOK,
    output: Annotated[
        Path | None,
        Option(help="where to write", show_default="<file>.scored next to the file, in its format"),
    ] = None,
    score_column: Annotated[str, Option(help="name of the new column")] = "score",
    truncate_dim: TruncateDim = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    backend: Backend = BackendName.TORCH,
    cache: Cache = None,
    fuse: Annotated[
        tuple[str, str] | None,
        Option(metavar="RUN RUN", help="score with two fused runs instead of one (needs --calibration)"),
    ] = None,
    calibration: Annotated[
        Path | None,
        Option(
            help="calibration-<set>.json of juzhen calibrate, to print the probability of label 1 · with "
            "--fuse, fusion-<set>.json of juzhen fuse, with the weights of both runs"
        ),
    ] = None,
    scaling: Annotated[
        Literal["temperature", "platt"] | None,
        Option(
            help="method that turns a score into a probability", show_default="platt, or none with --fuse"
        ),
    ] = None,
    decide: Annotated[
        bool,
        Option(
            "--decide", help="decide whether two texts mean the same (a file gets a column `same`, 1 or 0)"
        ),
    ] = False,
    threshold: Annotated[
        str | None,
        Option(
            metavar="NUMBER|SET",
            help="decision threshold: a score, or a set with a fitted threshold",
            show_default="from --calibration, or from the run, for its training set",
        ),
    ] = None,
    words: Annotated[
        bool, Option("--words", help="list the tokens of a sparse encoder's score with their parts")
    ] = False,
) -> None:
    """Scores sentence pairs with a trained encoder.

    A bi-encoder's score is the cosine of the two embeddings, from −1 to 1. A run with a bilinear form scores by any
    number. A cross-encoder's score is its logit. After training with bce or ce, 0 means undecided. A sparse encoder's
    score is the dot product, 0 or above. --calibration turns the score into the probability of label 1. --fuse combines
    two runs. --file adds a column to a table of pairs. --decide compares the score with a threshold that was fitted on
    dev.

    juzhen score runs/NAME "今天天气很好" "今天是个好天气"
    juzhen score runs/NAME --decide --file pairs.tsv
    """
    pair = [*(sentences or ())]
    if fuse is not None and encoder is not None:  # beside --fuse all words are sentences
        pair, encoder = [encoder, *pair], None
    if encoder is not None and is_table(encoder) and file is None:
        run = next((word for word in pair if not is_table(word)), "runs/NAME")
        raise UserError(f"{encoder}: a table. Type {command('juzhen', 'score', run, '--file', encoder)}")
    scorer = Scorer(
        encoder, fuse, calibration, scaling, backend, cache, batch_tokens, decide, threshold, truncate_dim
    )
    if pair and file is not None:
        raise UserError("--file FILE takes the place of the two sentences. Leave out one of them")
    if pair:
        refuse_file_names(pair, "--file FILE scores a table of pairs")
        table.reading.require_unread("a pair")
        if output is not None or score_column != "score":
            raise UserError("--output, --score-column: for the pairs of --file FILE. Leave them out")
    elif not score_column.strip() or not score_column.isprintable():
        raise UserError(f"--score-column {score_column!r}: expected the name of a column, in one line")
    without_hub()
    if file is None and len(pair) == 2:
        tokens = [scorer.words(*pair)] if words else []
        scores = scorer.scores(pair[:1], pair[1:], progress=False)
        numbers = scorer.shown(scores)
        line = f"{numbers[0]:.4f}"
        if scorer.decide:
            line += f" {'same' if scores[0] >= scorer.limit else 'different'} ("
            line += f"score {scores[0]:.4f}, " if numbers is not scores else ""
            line += f"same from {scorer.limit:.4f} on)"
        print(line, *tokens, sep="\n")
    elif words:
        raise UserError("--words shows the tokens of one pair. Give two sentences")
    elif file is not None:
        written = score_table(scorer, file, table.reading, output=output, score_column=score_column)
        print(f"written to {written}", file=sys.stderr)
    else:
        raise UserError(
            f'expected two sentences, not {len(pair)} (juzhen score <run or folder> "句子一" "句子二"), or a file '
            "(juzhen score <run or folder> --file pairs.tsv)"
        )
