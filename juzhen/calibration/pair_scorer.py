"""Scores of new pairs or of a table, by one encoder or two fused runs, raw or as probabilities."""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.backends.names import BackendName
from juzhen.core.atomic_write import require_room, write_text
from juzhen.core.calibration_files import Calibration, Fusion, is_fusion
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.safe_open import csv_text
from juzhen.core.text import counted

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np

    from juzhen.data.readers import FileTable
    from juzhen.data.tables import TableReading


SAME = "same"
"""Column of decisions: 1 where the two sentences count as the same, 0 where not."""


@dataclass
class Scorer:
    """The pair scorer of `juzhen score`, with its options. Creating one does not load torch.

    Args:
        encoder: Run, folder or built-in name. None with `fuse`.
        fuse: Two runs whose scores are fused.
        calibration: File of `juzhen calibrate`.
        scaling: "temperature" or "platt". None: the scores themselves.
        backend: Such as "torch" or "onnx".
        cache: Folder of cached embeddings.
        batch_tokens: Tokens of a batch, padding included.
        decide: Also decide whether a pair counts as the same.
        threshold: Threshold of the decision: a score, or a set.
        truncate_dim: Keep the first dimensions only. None keeps all.

    Raises:
        UserError: --fuse and --calibration that do not match, or weights that the file was not fitted on.
    """

    encoder: str | None
    fuse: Sequence[str] | None
    calibration: Path | None
    scaling: str | None
    backend: str
    cache: Path | None
    batch_tokens: int
    decide: bool = False
    threshold: str | None = None
    truncate_dim: int | None = None
    fitted: Calibration | Fusion | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.encoder is None and self.fuse is None:
            raise UserError('expected a run or an encoder: juzhen score <run or folder> "句子一" "句子二"')
        self.decide = self.decide or self.threshold is not None
        if self.truncate_dim is not None and (
            self.fuse is not None or self.decide or self.calibration is not None
        ):
            raise UserError(
                "--truncate-dim: thresholds, calibrations and fusions are of scores of whole embeddings"
            )
        if self.calibration is None:
            for name, command in (("fuse", "fuse"), ("scaling", "calibrate")):
                if getattr(self, name) is not None:
                    raise UserError(f"--{name} needs --calibration FILE, which juzhen {command} writes")
        elif self.fuse is not None:
            self.fitted = Fusion.read(self.calibration)
            self.fitted.require(self.fuse)
            if self.cache is not None or self.backend != BackendName.TORCH:
                raise UserError(
                    "--fuse: scores with two runs, without --cache and --backend. Leave these out"
                )
        elif is_fusion(self.calibration):
            raise UserError(f"--calibration {self.calibration}: was fitted for two runs. Type --fuse RUN RUN")
        else:
            assert self.encoder is not None
            self.fitted = Calibration.read(self.calibration)
            from juzhen.encoders.resolve_path import encoder_folder  # loads numpy

            self.fitted.require(encoder_folder(self.encoder))

    def scores(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        progress: bool,
        columns: Sequence[str] = (),
        source: str = "",
    ) -> "np.ndarray":
        """Return one score for each pair, by the encoder or the two runs.

        Args:
            first: First text of each pair.
            second: Second text of each pair.
            progress: Show a progress bar.
            columns: Names of the texts in the table `source`.
            source: Name of the table in messages.

        Returns:
            float array (pairs,).

        Raises:
            UserError: A cross-encoder that reads such pairs in one order.
        """
        from juzhen.backends import Deferred
        from juzhen.core.examples import TEXT_COLUMNS, Kind
        from juzhen.encoders.embedding_cache import EmbeddingCache
        from juzhen.families.registry import PairScorer

        options: dict[str, Any] = {"batch_tokens": self.batch_tokens, "show_progress": progress}
        if self.fuse is not None:
            assert isinstance(self.fitted, Fusion)
            return PairScorer(*self.fuse, fusion=self.fitted)(first, second, **options)
        family, encoder = self._loaded
        asks_vectors = self.cache or self.truncate_dim or self.backend != BackendName.TORCH
        if not family.has_embeddings and asks_vectors:
            raise UserError(
                f"{self.encoder} holds {family.described}, which has no embeddings: leave out --cache, --backend and "
                "--truncate-dim"
            )
        for kind in (Kind.NLI_PAIR, Kind.RETRIEVAL):
            if {*columns} == {*TEXT_COLUMNS[kind]}:
                family.require_order(encoder, source, kind, False)
        if family.has_embeddings:
            options["truncate_dim"] = self.truncate_dim
            options["backend"] = Deferred(encoder, self.backend)
            options["cache"] = None if self.cache is None else EmbeddingCache(self.cache)
        return encoder.score(list(zip(first, second, strict=True)), **options)

    def words(self, first: str, second: str, *, top: int = 10) -> str:
        """Return the tokens of a pair's score with their parts.

        Args:
            first: First text.
            second: Second text.
            top: Number of tokens, largest part first.

        Returns:
            Lines for the terminal.

        Raises:
            UserError: The encoder has no weights of tokens.
        """
        encoder: Any = None if self.fuse is not None else self._loaded[1]
        if not hasattr(encoder, "words"):
            raise UserError(
                f"--words: {self.encoder} has no token weights. Leave --words out, or take a sparse encoder"
            )
        parts = encoder.words(first, second, top)
        return "\n".join(f"{part:8.4f} {token}" for token, part in parts) or "no token in common"

    def shown(self, scores: "np.ndarray") -> "np.ndarray":
        """Return the scores, or probabilities of label 1 if --calibration or --scaling request them.

        Args:
            scores: Scores of the encoder, (pairs,).

        Returns:
            Array of the same shape.
        """
        import numpy as np
        from scipy.special import expit

        method = self.scaling or (None if self.fuse is not None or self.fitted is None else "platt")
        if method is None:
            return scores
        assert self.fitted is not None  # --scaling needs --calibration
        return expit(self.fitted.logits(np.asarray(scores, dtype=np.float64), method))

    @cached_property
    def limit(self) -> float:
        """Lowest score of an equal pair: --threshold, or the fitted threshold.

        Raises:
            UserError: Both are missing.
        """
        with suppress(ValueError):
            value = float(self.threshold or "")
            from juzhen.encoders.thresholds import require_reachable

            return require_reachable("threshold", value, self.fuse or self._loaded[1])
        if self.fitted is not None:
            if self.fitted.threshold is None or self.threshold is not None:
                raise UserError(
                    f"{self.fitted.path}: no decision threshold in this file. Type --threshold 0.7, or fit "
                    "again. The file is of an earlier version, or no threshold beat the majority class"
                )
            return self.fitted.threshold
        _, encoder = self._loaded
        return float(encoder.threshold(self.threshold))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from juzhen.families.registry import family_of, open_weights

        assert self.encoder is not None
        encoder = open_weights(self.encoder)
        return family_of(encoder), encoder


def score_table(
    scorer: Scorer, path: Path, reading: "TableReading", *, output: Path | None, score_column: str
) -> Path:
    """Add one column to a table of pairs, or two with --decide, and return the path of the new file.

    The file is written completely or not at all.

    Args:
        scorer: The encoder or the two runs.
        path: File of the table.
        reading: How to read the table. Its columns are the two texts.
        output: Default: <file>.scored next to the input in its format, or .csv for Excel, parquet and Arrow.
            UTF-8, with a byte order mark if the input was not plain UTF-8.
        score_column: Name of the new column.

    Returns:
        Path of the new file.

    Raises:
        UserError: A file that cannot be read, an irregular row, or an empty text.
    """
    from juzhen.core.paths import suffix_of
    from juzhen.data.readers import plain_name
    from juzhen.data.row_kinds import pair_columns, text_cells
    from juzhen.data.tables import (
        DELIMITERS,
        JSON,
        column_values,
        good_texts,
        names_of,
        read_own_table,
        with_split_cells,
    )

    suffix = suffix_of(path)
    suffix = suffix if suffix in (*DELIMITERS, *JSON) else ".csv"
    output = output or path.with_name(f"{plain_name(path)}.scored{suffix}")
    if output.exists() and output.samefile(path):
        raise UserError(f"--output {output}: this is also the input file. Give another one")
    if suffix_of(output) not in ("", *DELIMITERS, *JSON):
        raise UserError(f"--output {output}: unknown suffix. Give a name that ends in .csv, .tsv or .jsonl")
    check_overwritable(output)
    require_room(output.absolute().parent)
    table = read_own_table(path, reading)
    new_names = [score_column, SAME] if scorer.decide else [score_column]
    names = [*(table.names or ()), *new_names]
    if twice := [name for name in new_names if names.count(name) > 1]:
        raise UserError(
            f"{path}: there is a column {twice[0]} already. Rename it, or type --score-column predicted"
        )
    names = pair_columns(text_cells(table, reading))
    places = [names_of(table).index(name) for name in names]
    table = with_split_cells(table, places, reading.split_cells)
    rows, faults = good_texts(table, places, reading)
    columns = [column_values(table, place) for place in range(len(table.columns))]
    columns = [[values[row] for row in rows] for values in columns]
    for note in table.notes:
        print(f"note: {note}", file=sys.stderr)
    left_out = (
        f"; {counted(len(faults), 'faulty rows are left out', 'faulty row is left out')}" if faults else ""
    )
    print(
        f"{path}: {counted(len(rows), 'rows')}; {table.format}; {names[0]} is compared with {names[1]}{left_out}",
        file=sys.stderr,
    )
    first, second = (columns[place] for place in places)
    scores = scorer.scores(first, second, progress=True, columns=names, source=str(path))
    # The shortest digits that are read back as the same number: fewer would tie scores that lie close together.
    columns.append(
        [float(value) if suffix_of(output) in JSON else str(value) for value in scorer.shown(scores)]
    )
    if scorer.decide:
        columns.append([int(score >= scorer.limit) for score in scores])
    header = [*table.names, *new_names] if table.names else []
    write_text(output, _scored_text(table, header, columns, suffix_of(path), suffix_of(output)))
    return output


def _scored_text(
    table: "FileTable", header: Sequence[str], columns: Sequence[Sequence[Any]], read: str, written: str
) -> str:
    """Return the table text with further columns: unchanged format if possible, else that of the suffix."""
    from juzhen.data.tables import DELIMITERS, JSON, as_text

    rows = zip(*columns, strict=True)
    if written in JSON:
        names = header or [str(number) for number in range(1, len(columns) + 1)]
        records = (dict(zip(names, row, strict=True)) for row in rows)
        return "".join(f"{json.dumps(record, ensure_ascii=False, default=str)}\n" for record in records)
    cells = [[cell if isinstance(cell, str) else as_text(cell) for cell in row] for row in rows]
    cells = [[*header], *cells] if header else cells
    delimiter = table.delimiter if read == written else DELIMITERS.get(written, ",")[0]
    if read == written and not table.quoted:
        text = "".join(f"{delimiter.join(row)}\n" for row in cells)
    else:
        text = csv_text(cells, delimiter=delimiter)
    return f"\ufeff{text}" if table.needs_mark else text
