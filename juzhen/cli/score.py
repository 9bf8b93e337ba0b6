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
)
from juzhen.core.errors import UserError
from juzhen.core.process import without_hub

if TYPE_CHECKING:  # it loads numpy
    from juzhen.data.tables import TableReading


@dataclass(frozen=True)
class PairTableOptions(TableOptions):
    """Options of a verb that reads a table of pairs."""

    columns: Annotated[  # type: ignore[assignment]
        list[str] | None,
        Option(
            metavar="FIELD=COLUMN,… or COLUMN COLUMN…",
            help="the two text columns, by name, or by number from 1: text_a=问题,text_b=相似问, or 问题 相似问",
            show_default="as they look",
        ),
    ] = None

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
        Option(help="table of pairs: .csv, .tsv, .txt, .jsonl, .parquet, .xlsx; UTF-8, UTF-16 or GBK"),
    ] = None,
    table: PairTableOptions = AS_PAIRS_LOOK,
    output: Annotated[
        Path | None,
        Option(help="where to write", show_default="<file>.scored beside the file, of its format"),
    ] = None,
    score_column: Annotated[str, Option(help="name of the new column")] = "score",
    truncate_dim: TruncateDim = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    backend: Backend = BackendName.TORCH,
    cache: Cache = None,
    fuse: Annotated[
        tuple[str, str] | None,
        Option(metavar="RUN RUN", help="instead of one run: two as one score; needs --calibration"),
    ] = None,
    calibration: Annotated[
        Path | None,
        Option(
            help="calibration-<set>.json of juzhen calibrate: the score becomes the probability of label 1 · with "
            "--fuse, fusion-<set>.json of juzhen fuse: the weights of the two"
        ),
    ] = None,
    scaling: Annotated[
        Literal["temperature", "platt"] | None,
        Option(help="how a score becomes a probability", show_default="platt; with --fuse it stays a score"),
    ] = None,
    decide: Annotated[
        bool,
        Option(
            "--decide", help="also say whether the two mean the same; a file gets a column `same`, 1 or 0"
        ),
    ] = False,
    threshold: Annotated[
        str | None,
        Option(
            metavar="NUMBER|SET",
            help="the score from which on they do, or the set whose threshold is meant",
            show_default="as --calibration has it, or the run, of the set that it was trained on",
        ),
    ] = None,
    words: Annotated[
        bool, Option("--words", help="of a sparse encoder: also the tokens of the score, each with its part")
    ] = False,
) -> None:
    """Scores sentence pairs with a trained encoder.

    The score is the cosine of the two embeddings, −1 to 1, or of a run that learnt a bilinear form, any number; of a
    cross-encoder it is the logit, any number, 0 where it is undecided after training with bce or ce; of a sparse
    encoder it is the dot product, from 0 on. With --calibration it is the probability of label 1, and with --fuse one
    score of two runs. With --file a table of pairs gets one more column. --decide compares the score with the threshold
    that was fitted on a dev split.

    juzhen score runs/NAME "今天天气很好" "今天是个好天气"
    juzhen score runs/NAME --decide --file pairs.tsv
    """
    pair = [*(sentences or ())]
    if fuse is not None and encoder is not None:  # beside --fuse all words are sentences
        pair, encoder = [encoder, *pair], None
    scorer = Scorer(
        encoder, fuse, calibration, scaling, backend, cache, batch_tokens, decide, threshold, truncate_dim
    )
    without_hub()
    if file is None and len(pair) == 2:
        scores = scorer.scores(pair[:1], pair[1:], progress=False)
        numbers = scorer.shown(scores)
        line = f"{numbers[0]:.4f}"
        if scorer.decide:
            line += f" {'same' if scores[0] >= scorer.limit else 'different'} ("
            line += f"score {scores[0]:.4f}, " if numbers is not scores else ""
            line += f"same from {scorer.limit:.4f} on)"
        print(line)
        if words:
            print(scorer.words(*pair))
    elif words:
        raise UserError("--words shows the tokens of one pair; give two sentences")
    elif file is not None and not pair:
        written = score_table(scorer, file, table.reading, output=output, score_column=score_column)
        print(f"written to {written}", file=sys.stderr)
    else:
        raise UserError(
            'expected two sentences (juzhen score <run or folder> "句子一" "句子二"), or a file '
            "(juzhen score <run or folder> --file pairs.tsv)"
        )
