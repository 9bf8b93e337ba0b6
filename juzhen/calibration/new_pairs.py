"""Scores of new pairs: of one encoder or of two runs fused, as they are or as probabilities; of a table of pairs."""

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.backends.names import BackendName
from juzhen.core.csv_rows import csv_text
from juzhen.core.errors import UserError, nearest
from juzhen.core.fitted import Calibration, Fusion, is_fusion
from juzhen.core.numerals import is_position
from juzhen.core.owned import require_ours
from juzhen.core.texts import short, text_fault
from juzhen.core.whole import write_text

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np

    from juzhen.data.readers import FileTable


SAME = "same"
"""Column of decisions: 1 where the two sentences count as the same, 0 where not."""


@dataclass
class Scorer:
    """What scores pairs, as the options of `juzhen score` say it.

    Raises UserError where --fuse and --calibration do not belong together, and for weights that were not fitted on.
    To make one needs no torch.
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
                raise UserError("--fuse scores with two runs as they are: leave out --cache and --backend")
        elif is_fusion(self.calibration):
            raise UserError(f"--calibration {self.calibration}: is of two runs; name both: --fuse RUN RUN")
        else:
            assert self.encoder is not None
            self.fitted = Calibration.read(self.calibration)
            self.fitted.require(self.encoder)

    def scores(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        progress: bool,
        columns: Sequence[str] = (),
        source: str = "",
    ) -> "np.ndarray":
        """One for each pair, as the encoder or the two runs give it.

        columns  their names in the table `source`. Raises UserError where a cross-encoder reads such pairs in one order
        """
        from juzhen.backends import Deferred
        from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
        from juzhen.encoders.embedding_cache import EmbeddingCache
        from juzhen.families import PairScorer

        options: dict[str, Any] = {"batch_tokens": self.batch_tokens, "show_progress": progress}
        if self.fuse is not None:
            assert isinstance(self.fitted, Fusion)
            return PairScorer(*self.fuse, fusion=self.fitted)(first, second, **options)
        family, encoder = self._loaded
        asks_vectors = self.cache or self.truncate_dim or self.backend != BackendName.TORCH
        if not family.has_embeddings and asks_vectors:
            raise UserError(
                f"{self.encoder} holds {_kind(encoder)}, which has no embeddings: leave out --cache, --backend and "
                "--truncate-dim"
            )
        for kind in (Kind.NLI_PAIR, Kind.RETRIEVAL):
            if {*columns} == {*TEXT_COLUMNS[kind]}:
                family.require_order(encoder, source, kind, False)
        if family.has_embeddings:
            options["truncate_dim"] = self.truncate_dim
            options["backend"] = Deferred(encoder, self.backend)
            options["cache"] = None if self.cache is None else EmbeddingCache(self.cache)
        if family.cuts:
            texts = {"text_a": list(first), "text_b": list(second)}
            examples = Examples.from_texts("file", "test", kind=Kind.SCORED_PAIR, texts=texts)
            cut = family.cut(encoder, examples)
            if cut.cut:  # their scores are those of their beginnings
                print(
                    f"{cut} are longer than the {cut.max_length} tokens that the encoder reads, and are cut there",
                    file=sys.stderr,
                )
        return encoder.score(list(zip(first, second, strict=True)), **options)

    def words(self, first: str, second: str, *, top: int = 10) -> str:
        """The tokens of the score of a pair, each with its part. Raises UserError where it is of no such parts."""
        encoder: Any = None if self.fuse is not None else self._loaded[1]
        if not hasattr(encoder, "words"):
            raise UserError(
                f"--words: {self.encoder} has no weights of tokens; leave it out, or take a sparse encoder"
            )
        parts = encoder.words(first, second, top)
        return "\n".join(f"{part:8.4f} {token}" for token, part in parts) or "no token in common"

    def shown(self, scores: "np.ndarray") -> "np.ndarray":
        """The scores, or probabilities of label 1 where --calibration or --scaling ask for them."""
        import numpy as np
        from scipy.special import expit

        method = self.scaling or (None if self.fuse is not None or self.fitted is None else "platt")
        if method is None:
            return scores
        assert self.fitted is not None  # --scaling needs --calibration
        return expit(self.fitted.logits(np.asarray(scores, dtype=np.float64), method))

    @cached_property
    def limit(self) -> float:
        """The score from which on a pair counts as the same: --threshold, or what was fitted.

        Raises UserError where there is none.
        """
        with suppress(ValueError):
            if math.isfinite(value := float(self.threshold or "nan")):
                return value
        if self.fitted is not None:
            if self.fitted.threshold is None or self.threshold is not None:
                raise UserError(
                    f"{self.fitted.path}: holds no threshold to decide by; give one, such as --threshold 0.7, or fit "
                    "again: it is of an earlier version, or no score does better than one answer for all"
                )
            return self.fitted.threshold
        _, encoder = self._loaded
        return float(encoder.threshold(self.threshold))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The family and the encoder."""
        from juzhen.families import find_family

        assert self.encoder is not None
        family = find_family(self.encoder)
        return family, family.load(self.encoder)


def score_table(
    scorer: Scorer,
    path: Path,
    *,
    columns: Sequence[str] | None,
    header: bool,
    quoted: bool,
    output: Path | None,
    score_column: str,
) -> Path:
    """Writes a table of pairs with one more column, or two with --decide, and gives its path; complete or not there.

    columns  of the two texts; None: sentence1 and sentence2, or the first two where there is no header
    output   None: <file>.scored.tsv or .csv beside the file; UTF-8, with a mark where the file was not plain UTF-8

    Raises UserError for a file that cannot be read, a row that is not like the others and an empty sentence.
    """
    from juzhen.data.readers import DELIMITERS, read_own_table

    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix in DELIMITERS), None)
    if suffix is None:
        raise UserError(
            f"--file {path}: expected one of {', '.join(DELIMITERS)}, or one with .gz or .zst behind it"
        )
    quoted = quoted or suffix == ".csv"
    output = output or path.with_name(f"{path.name.split(suffix)[0]}.scored{suffix}")
    if output.exists() and output.samefile(path):
        raise UserError(f"--output {output}: this is the file that is read; give another one")
    require_ours(output)
    table = read_own_table(path, header=header, quoted=quoted)
    for line, reason in sorted(table.faults.items())[:1]:
        raise UserError(f"{table.at(line)}: {reason}")
    new_names = [score_column, SAME] if scorer.decide else [score_column]
    if twice := [name for name in new_names if name in (table.names or ())]:
        raise UserError(
            f"{path}: there is a column {twice[0]} already; rename it, or type --score-column predicted"
        )
    names = columns or (("sentence1", "sentence2") if header else ("0", "1"))
    first, second = _text_columns(table, names, are_default=not columns)
    scores = scorer.scores(first, second, progress=True, columns=columns or (), source=str(path))
    # The shortest digits that are read back as the same number: fewer would tie scores that lie close together.
    added = [[str(value) for value in scorer.shown(scores)]]
    if scorer.decide:
        added.append([str(int(score >= scorer.limit)) for score in scores])
    rows = list(zip(*table.columns, *added, strict=True))
    if table.names:
        rows.insert(0, (*table.names, *new_names))
    delimiter = DELIMITERS[suffix]
    plain = "" if quoted else "".join(f"{delimiter.join(row)}\n" for row in rows)
    text = csv_text(rows, delimiter=delimiter) if quoted else plain
    write_text(output, f"\ufeff{text}" if table.needs_mark else text)
    return output


def _text_columns(table: "FileTable", names: Sequence[str], *, are_default: bool) -> list[Sequence[str]]:
    from juzhen.data.verify import listed, place_in

    header = table.names or [str(position) for position in range(len(table.columns))]
    if names[0] == names[1]:
        raise UserError(f"--columns {' '.join(names)}: expected two columns; a sentence with itself scores 1")
    columns = []
    for name in names:
        if name not in header and not (is_position(name) and int(name) < len(header)):
            hint = nearest(name, map(short, header))
            hint = hint if hint.startswith("did you mean") else f"known: {listed(header)}"
            pair = ", or, if the first line is a pair already, type --no-header"
            raise UserError(
                f"{table.place}: no column {name}; {hint}. Choose with --columns A B"
                f"{pair if table.names and are_default else ''}"
            )
        position = place_in(header, name, table.place) if name in header else int(name)
        for line, text in zip(table.lines, table.columns[position], strict=True):
            if fault := text_fault(text):
                raise UserError(f"{table.at(int(line))}: the sentence in column {name} {fault}")
        columns.append(table.columns[position])
    return columns


def _kind(encoder: Any) -> str:
    """What an encoder without embeddings of texts is, for messages."""
    kinds = {
        "multi_vector": "an encoder of token vectors",
        "sparse": "a sparse encoder",
        "generative_reranker": "a reranker",
    }
    return kinds.get(encoder.family, "a cross-encoder")
