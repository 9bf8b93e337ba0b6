"""Verification that an export computes the same as the encoder: differences, correlation before and after, speed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.backends.names import MOST_DIFFERENCE
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.kinds import CORRELATIONS, MEASURES
from juzhen.core.machine import package_version, processor_name
from juzhen.core.text import counted, markdown_table
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, Source
from juzhen.encoders.backbone import evaluating
from juzhen.encoders.batch_invariance import embedding_alone
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import truncate_vectors, unit
from juzhen.export.formats import MOST_LOSS, Format
from juzhen.export.loaders import BATCH, ExportedModel
from juzhen.metrics.correlation import spearman

ROWS = 1000
"""Rows of a dev split that are scored where nothing is said."""

TIMED = 256
"""Texts whose encoding is timed."""

TIMED_AT_ONCE = 16
"""Of one call: states of short texts stay in a core's cache."""

ROUNDS = 3

PACKAGES = ("torch", "transformers", "tokenizers", "onnxruntime", "openvino", "sentence-transformers")
"""Whose versions a report has."""

LENGTHS = 40
"""Different lengths that are looked at, evenly in their logarithm."""

PASSAGE = (
    "今天天气很好，我们去公园散步。The price of 1 kg of rice rose by 3.5 % in June! "
    "怎么修改支付密码？原来的手机号已经不用了……"
    "Two dogs run through the tall grass near a river。会议改到下周三下午三点，请提前准备好本季度的报表（Q3）。"
)
ODD = ("\n", "\t今天  天气\n很好 ", "ＡＢＣ１２３", "😀👨‍👩‍👧", "é ﬁ ㍿", "𠮷野家", "ABC abc", "a" * 300)


@dataclass(frozen=True)
class Correlation:
    """Spearman × 100 of a set by the encoder and by the export, on the same rows.

    Args:
        rows: Number of rows.
        before: That of the encoder.
        after: That of the export.
        whole: Correlation with all dimensions of the encoder's embeddings, if the export has fewer.
    """

    rows: int
    before: float
    after: float
    whole: float | None = None

    @property
    def loss(self) -> float:
        return self.before - self.after


@dataclass(frozen=True)
class ExportReport:
    """Measurements of an export.

    Args:
        format: Format of the export.
        by: What computed the export, such as onnxruntime.
        lengths: Fewest and most tokens of the compared texts.
        texts: Number of compared texts.
        differences: Largest difference of a number of a unit embedding, or of a score relative to the largest score, by
            batch size and for texts with special tokens.
        worst: The text that differs most.
        correlations: Set → scores of encoder and export on it.
        speed: Texts per second of the encoder (`before`) and the export (`after`): interleaved, best rounds.
        versions: Package → version.

    Example:
        >>> report = export_encoder(encoder, "exports/onnx", Format.ONNX)  # doctest: +SKIP
        >>> max(report.differences.values())  # doctest: +SKIP
    """

    format: Format
    by: str
    lengths: tuple[int, int]
    texts: int
    differences: dict[str, float]
    worst: str
    correlations: dict[str, Correlation]
    speed: dict[str, float]
    versions: dict[str, str] = field(default_factory=dict)

    def fault(self) -> str | None:
        """Return why the export violates its format's bound, or None. Static tables have no bound.

        Returns:
            One sentence, or None.
        """
        if self.format is Format.STATIC:
            return None
        if self.format.is_quantised:
            name, worst = max(self.correlations.items(), key=lambda item: item[1].loss)
            if worst.loss > MOST_LOSS:
                return (
                    f"loses {worst.loss:.2f} points of Spearman on {name}, at most {MOST_LOSS} is the bound"
                )
            return None
        largest = max(self.differences.values())
        if not largest <= MOST_DIFFERENCE:
            return (
                f"differs from the encoder by {largest:.1e} (at most {MOST_DIFFERENCE:.0e} is rounding), most of all "
                f"on {self.worst[:40]!r}; juzhen verify says why where it knows"
            )
        return None

    def rows(self) -> list[list[str]]:
        """Rows of the table: quantity, encoder, export.

        Returns:
            Cells of each row, as text.
        """
        table = [
            [f"largest difference, {name}", "", f"{value:.1e}"] for name, value in self.differences.items()
        ]
        table += [
            [
                f"Spearman × 100, {name} ({counted(pair.rows, 'rows')})",
                f"{pair.before:.2f}",
                f"{pair.after:.2f}",
            ]
            for name, pair in self.correlations.items()
        ]
        table += [
            [f"the same, {name}, all numbers of the encoder", f"{pair.whole:.2f}", ""]
            for name, pair in self.correlations.items()
            if pair.whole is not None
        ]
        return [*table, ["texts/s", *(f"{self.speed[side]:,.0f}" for side in ("before", "after"))]]

    def markdown(self) -> str:
        """Return the measurement as a Markdown table.

        Returns:
            The table.
        """
        return markdown_table(["", "encoder", f"export, by {self.by}"], self.rows(), numbers=(1, 2))

    def words(self) -> str:
        """Describe the measurement in a sentence.

        Returns:
            One sentence.
        """
        return (
            f"{counted(self.texts, 'texts')} of {self.lengths[0]} to {self.lengths[1]} tokens and with special tokens, "
            f"compared with transformers, one text at a time. "
            f"{counted(torch.get_num_threads(), 'threads')} of {processor_name() or 'a CPU'}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the measurement with the number of threads and the processor.

        Returns:
            A dict for JSON.
        """
        return asdict(self) | {"threads": torch.get_num_threads(), "processor": processor_name()}


def prove(
    encoder: Any,
    opened: ExportedModel,
    format: Format,
    *,
    dim: int | None = None,
    sets: Sequence[DatasetConfig] = (),
    data_dir: str | Path = "data",
    limit: int = ROWS,
) -> ExportReport:
    """Compare an export with its encoder.

    Args:
        encoder: The encoder that was exported.
        opened: The export.
        format: Its format.
        dim: Dimension of the export.
        sets: Sets whose dev splits are scored before and after.
        data_dir: Folder of their files.
        limit: Rows of each set.

    Returns:
        The measurements.

    Raises:
        UserError: A set without pairs that have a gold value.

    Example:
        >>> prove(encoder, open_export("exports/onnx"), Format.ONNX).worst  # doctest: +SKIP
    """
    examples = [_dev_rows(config, data_dir, limit) for config in sets]
    texts, special = proof_texts(encoder.inner), special_texts(encoder.inner)
    ids = encoder.inner.tokenize([*texts, *special])
    if isinstance(encoder, PairEncoder):
        differences, worst = _pair_differences(encoder, opened, texts, special)
    elif format is Format.STATIC:
        differences, worst = {}, ""
    else:
        differences, worst = _differences(encoder, opened, texts, special, dim)
    return ExportReport(
        format,
        opened.by,
        (int(ids.lengths.min()), int(ids.lengths.max())),
        len(ids),
        differences,
        worst,
        {
            rows.name: _correlation(encoder, opened, rows, None if format is Format.STATIC else dim)
            for rows in examples
        },
        _speed(encoder, opened, examples[0] if examples else None, texts),
        {package: version for package in PACKAGES if (version := package_version(package))},
    )


def proof_texts(encoder: PooledEncoder) -> list[str]:
    """Return texts of one token up to more than the encoder's limit, taken from different parts of a passage.

    Args:
        encoder: Its `max_length` decides the longest text. Its tokenizer leaves no text empty.

    Returns:
        Texts from the shortest to the longest.
    """
    most = 4 * encoder.max_length
    sizes = np.unique(np.geomspace(1, most, LENGTHS).astype(int)).tolist()
    passage = PASSAGE * (most // len(PASSAGE) + 2)
    texts = [passage[number % len(PASSAGE) :][:size] for number, size in enumerate(sizes)]
    return _readable(encoder, texts)


def special_texts(encoder: PooledEncoder) -> list[str]:
    """Return texts that spell the encoder's special tokens, and unusual characters.

    Args:
        encoder: Its tokenizer names the special tokens.

    Returns:
        Texts for a comparison of tokenizers.
    """
    tokens = dict.fromkeys([*encoder.tokenizer.all_special_tokens, "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"])
    return _readable(encoder, [*(f"今天{token}天气 {token}" for token in tokens), *ODD])


def _readable(encoder: PooledEncoder, texts: Sequence[str]) -> list[str]:
    """Return the texts that are not empty after tokenization."""
    special = encoder.tokenizer.num_special_tokens_to_add()
    lengths = encoder.with_prompt(prompt="").tokenize(texts).lengths if encoder.prompt else None
    lengths = encoder.tokenize(texts).lengths if lengths is None else lengths
    return [
        text
        for text, length in zip(texts, lengths.tolist(), strict=True)
        if length > special and text.strip()
    ]


def reference(encoder: PooledEncoder, texts: Sequence[str], dim: int | None = None) -> np.ndarray:
    """Return unit embeddings computed by transformers, one text at a time.

    Args:
        encoder: The encoder, read in evaluation mode.
        texts: Texts without the prompt, which is added.
        dim: First dimensions to keep. None: `truncate_dim` of the encoder, or all.

    Returns:
        float32 array (texts, dimensions), rows of length 1.
    """
    with evaluating(encoder):
        alone = torch.stack([embedding_alone(encoder, text).cpu() for text in texts]).float().numpy()
    return unit(truncate_vectors(alone, dim or encoder.truncate_dim or encoder.dim, normalize=True))


def _differences(
    encoder: PooledEncoder, opened: ExportedModel, texts: list[str], special: list[str], dim: int | None
) -> tuple[dict[str, float], str]:
    inputs = [*texts, *special]
    expected = reference(encoder, inputs, dim)
    apart = {
        size: np.abs(unit(opened.encode(inputs, batch_size=size)) - expected).max(1) for size in (1, BATCH)
    }
    return _by_part(apart, inputs, len(texts))


def _pair_differences(
    encoder: PairEncoder, opened: ExportedModel, texts: list[str], special: list[str]
) -> tuple[dict[str, float], str]:
    inputs = [*zip(texts, texts[::-1], strict=True), *zip(special, special[::-1], strict=True)]
    expected = np.array([encoder.score([pair], show_progress=False)[0] for pair in inputs])
    largest = max(1.0, float(np.abs(expected).max()))
    apart = {size: np.abs(opened.score(inputs, batch_size=size) - expected) / largest for size in (1, BATCH)}
    return _by_part(apart, [" | ".join(pair) for pair in inputs], len(texts))


def _by_part(apart: dict[int, np.ndarray], names: list[str], plain: int) -> tuple[dict[str, float], str]:
    """Return the largest differences by batch size, and of special texts, which follow `plain` others."""
    largest = {f"batches of {size}": float(values[:plain].max()) for size, values in apart.items()}
    if len(names) > plain:
        largest["special tokens"] = max(float(values[plain:].max()) for values in apart.values())
    return largest, names[int(np.maximum.reduce(list(apart.values())).argmax())]


def _dev_rows(config: DatasetConfig, data_dir: str | Path, limit: int) -> Examples:
    """Return evenly spaced rows of a dev split. Raises UserError unless they are pairs with a gold value."""
    rows = load_examples(
        config, "dev", source=Source.LOCAL, data_dir=data_dir, on_bad_row="error", required=True
    )
    if rows is None or rows.targets is None or not {*CORRELATIONS} & {*MEASURES[rows.kind]}:
        raise UserError(f"{config.name}: holds no pairs with a gold value, by which an export is measured")
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(limit, len(rows))).astype(np.int64))
    return rows.select(chosen)


def _pairs(rows: Examples) -> list[tuple[str, str]]:
    first, second = list(rows.columns.values())[:2]
    return [(rows.sentences[int(a)], rows.sentences[int(b)]) for a, b in zip(first, second, strict=True)]


def _correlation(encoder: Any, opened: ExportedModel, rows: Examples, dim: int | None) -> Correlation:
    pairs, gold = _pairs(rows), np.asarray(rows.targets, dtype=np.float64)
    sides = [encoder.score(pairs, **({} if dim is None else {"truncate_dim": dim}))]
    sides.append(opened.score(pairs))
    sides += [encoder.score(pairs, truncate_dim=encoder.dim)] if dim is not None else []
    return Correlation(len(pairs), *(100 * (spearman(scores, gold) or 0.0) for scores in sides))


def _speed(encoder: Any, opened: ExportedModel, rows: Examples | None, texts: list[str]) -> dict[str, float]:
    """Measure texts, or pairs, per second of both, alternating."""
    pairs = _pairs(rows)[:TIMED] if rows is not None else list(zip(texts, texts[::-1], strict=True))
    sides: dict[str, Callable[[], Any]]
    if isinstance(encoder, PairEncoder):
        count = len(pairs)
        sides = {
            "before": lambda: encoder.score(pairs, show_progress=False),
            "after": lambda: opened.score(pairs, batch_size=TIMED_AT_ONCE),
        }
    else:
        timed = list(dict.fromkeys(text for pair in pairs for text in pair))[:TIMED]
        count = len(timed)
        sides = {
            "before": lambda: encoder.encode(timed, show_progress=False),
            "after": lambda: opened.encode(timed, batch_size=TIMED_AT_ONCE),
        }
    best = dict.fromkeys(sides, float("inf"))
    for number in range(ROUNDS):
        for name, run in sides.items():
            since = time.perf_counter()
            run()
            seconds = time.perf_counter() - since
            best[name] = min(best[name], seconds) if number else best[name]  # the first round warms up
    return {name: count / seconds for name, seconds in best.items()}
