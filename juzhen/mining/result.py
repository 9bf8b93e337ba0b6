"""Result of a mining run as files: all candidates with their reasons, and the training set."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from juzhen.core.atomic_write import atomic_write
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind, negative_columns
from juzhen.core.text import counted, percent
from juzhen.data.rankings import RankingSet
from juzhen.data.spec import DatasetConfig, made_from
from juzhen.mining.filters import COUNTS, REASONS, SUSPECTED, WRITING, Reason
from juzhen.mining.options import OWN, MiningOptions
from juzhen.mining.sets import write_description

FEWEST_ROWS, FEWEST_REFUSED = 0.1, 0.001
"""Shares, of the rows that there would be without a fitted threshold and of the candidates that come to it, below which
the pairs that it was fitted on are taken for others than those that are mined."""


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Format the report of a mining run, one line per topic."""
    sentences = [
        "candidates: " + ", ".join(f"{count:,} {reason}" for reason, count in report["reasons"].items())
    ]
    sentences += [*filter(None, [fewer_line(report)])]
    sentences += [
        f"recall of the index of {name}: {100 * value:.2f} %"
        for name, value in report["index_recall"].items()
    ]
    sentences += [
        f"{name} reads queries behind {query!r} and documents behind {document!r}"
        for name, (query, document) in report.get("prompts", {}).items()
    ]
    if (fitted := report.get("threshold")) is not None:
        sentences.append(
            f"threshold {fitted['value']:.4f}, fitted on {counted(fitted['positives'], 'pairs')} with label 1, of "
            f"which {100 * fitted['kept_positives']:.1f} % lie below, and {fitted['negatives']:,} with label 0, of "
            f"which {100 * fitted['refused_negatives']:.1f} % do not"
        )
    before, after = report["known_before"], report["known_after"]
    wrong, wrong_after = report["false_negatives_before"], report["false_negatives_after"]
    if not before:
        return [*sentences, "false negatives: no candidate of a query with two positives has a known label"]
    right = before - wrong
    rules = {"all rules": [wrong, wrong_after, right, right - (after - wrong_after)]}
    if len(report["rules"]) < 2:
        rules = {}
    rules = report["rules"] | rules or {"no rule": [wrong, wrong_after, right, 0]}
    sentences += [
        f"where labels are known, {name}: {_of(through, answers)} answers kept by mistake, "
        f"{_of(refused, negatives)} true negatives refused"
        for name, (answers, through, negatives, refused) in rules.items()
    ]
    rate = f"{100 * wrong_after / after:.1f} % ({wrong_after:,} of {after:,})" if after else "none is kept"
    return [
        *sentences,
        f"false negatives among candidates whose label is known: {100 * wrong / before:.1f} % ({wrong:,} of "
        f"{before:,}) before these rules, {rate} after",
    ]


def fewer_line(report: Mapping[str, Any]) -> str:
    """Count rows with fewer negatives than requested and positives without a row. "" if all rows are full."""
    rows, reasons = report["rows"], report["reasons"]
    parts = []
    if rows["fewer"]:
        have = counted(rows["fewer"], "rows have", "row has")
        parts.append(f"{have} fewer than {counted(rows['negatives'], 'negatives')}")
    if rows["none"]:
        parts.append(f"{counted(rows['none'], 'positives have', 'positive has')} none and no row")
    if not parts:
        return ""
    why, count = max(
        ((name, count) for name, count in reasons.items() if name != "kept"),
        key=lambda reason: reason[1],
        default=("", 0),
    )
    why = f"most candidates are refused as {why} ({count:,})" if why else "there are no more candidates"
    return f"{', '.join(parts)}: {why}; a larger range_max or milder rules leave more"


def misfit(report: Mapping[str, Any], calibrated_on: str | None) -> str | None:
    """Explain why a fitted threshold does not suit the mined set, and what to do. None if it may suit."""
    if (fitted := report.get("threshold")) is None:
        return None
    counts = report["left"]
    rows, without, candidates, refused = (
        counts[name] for name in ("rows", "rows_without", "candidates", "refused")
    )
    way_out = "calibrate on pairs of the same kind and field, or use --relative-margin or --max-score instead"
    start = (
        f"--calibrate-on {calibrated_on}: the threshold {fitted['value']:.4f} refuses {_of(refused, candidates)} "
        "candidates"
    )
    if rows < FEWEST_ROWS * without:
        return f"{start} and leaves {_of(rows, without)} rows; {way_out}"
    if refused < FEWEST_REFUSED * candidates:
        return f"{start}, next to nothing; {way_out}"
    return None


def _of(part: int, total: int) -> str:
    """Format a part and its share, such as 967 of 1,086 (89.0 %)."""
    return f"{part:,} of {total:,}" + (f" ({percent(part, total)})" if total else "")


METADATA = b"juzhen"


class MiningReport(dict[str, Any]):
    """Counts of `MiningResult.report`. `str` and `print` format them as sentences."""

    def __str__(self) -> str:
        return "\n".join(report_lines(self))


class NoNegativesError(UserError):
    """No query has a negative by the rules of a mining."""


@dataclass(frozen=True)
class MiningResult:
    """A finished mining run.

    Columns of the candidates, one row each: `query`, `document` (numbers in the ranking), `query_text`,
    `document_text`, `source`, `rank` (best rank of any source, from 1, or null for random ones), `score`,
    `positive_score` (lowest of the query's positives), `judge_score`, `label` (1 answers, 0 does not, null
    unknown), `reason`, `kept` (usable), `chosen` (is a negative), `masked` (replaced by the positive). With
    `positive_reference=own` also `chosen_for` and `masked_for`: the positives of these rows.

    Args:
        shards: Files of candidates, in query order.
        identity: Settings that decide them: options, seed, digests of weights, texts and labels.
        measured: Further measurements: fitted threshold, recall of indexes.
    """

    ranking: RankingSet
    options: MiningOptions
    shards: list[Path]
    identity: Mapping[str, Any]
    measured: Mapping[str, Any]

    def report(self) -> MiningReport:
        """Count candidates by reason, and the rate of false negatives among known labels.

        Keys:
            known_before, known_after: Candidates in the window with a known label, of queries with two
                positives or more: all, and those kept by rules that know no label. With
                `positive_reference=own`, counted in each row except its own.
            false_negatives_before, false_negatives_after: How many of them answer the query.
            rules: Reason → [answers, answers that this rule alone keeps, others, others that it drops]. The
                cross-encoder is counted on candidates that other rules keep.
            left: Rows with enough negatives (`rows`), the same without max_score (`rows_without`), candidates
                that no other rule drops (`candidates`), and how many max_score drops (`refused`).
            rows: Pairs of a query and a positive by their number of negatives: `enough`, `fewer` than
                requested, `none`.
        """
        counts = [json.loads(pq.read_schema(path).metadata[COUNTS]) for path in self.shards]
        reasons, usable = Counter[str](), Counter[str]()
        for shard in counts:
            reasons.update(shard["reasons"])
            usable.update(shard["left"])
        names = ("known_before", "false_negatives_before", "known_after", "false_negatives_after")
        counted = {
            "reasons": dict(sorted(reasons.items())),
            **dict(zip(names, _sums(shard["known"] for shard in counts), strict=True)),
            "rules": {
                reason: _sums(shard["rules"][reason] for shard in counts)
                for reason in REASONS
                if reason in counts[0]["rules"]
            },
            "left": dict(usable),
            "rows": self._sizes | {"negatives": self.options.num_negatives},
            **self.measured,
        }
        return MiningReport(counted)

    def rows(self) -> Iterator[list[str]]:
        """Yield anchor, positive and at most `options.num_negatives` negatives.

        A query has a row for each of its positives, relabelled ones last. With `positive_reference=own` it has a row
        for each positive with negatives. Pairs without a negative have no row.
        """
        for query, *documents in self._rows():
            yield [self.ranking.queries[query], *(self.ranking.corpus[number] for number in documents)]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Count pairs of a query and its positive by their negatives, see `report`."""
        sizes, num_found = Counter[str](), 0
        for query, positive, *documents in self._rows():
            sizes["enough" if len(documents) == self.options.num_negatives else "fewer"] += 1
            num_found += positive in self.ranking.relevant[query]
        sizes["none"] = sum(map(len, self.ranking.relevant)) - num_found
        return {name: sizes[name] for name in ("enough", "fewer", "none")}

    def _rows(self) -> Iterator[list[int]]:
        """Return the rows as numbers: a query, and documents with the positive first."""
        is_per_row = self.options.positive_reference == OWN
        chosen, masked = ("chosen_for", "masked_for") if is_per_row else ("chosen", "masked")
        for path in self.shards:
            relabels = self.options.false_negatives == "relabel"
            columns = ["query", "document", chosen, masked, *(["reason"] if relabels else [])]
            table = pq.read_table(path, columns=columns)
            if not is_per_row and not relabels:  # most candidates are neither
                table = table.filter(pc.or_(table[chosen], table[masked]))
            # Query and positive, None: all of its positives → documents, None: the positive itself.
            negatives: dict[tuple[int, int | None], list[int | None]] = {}
            relabelled: dict[int, list[int]] = {}
            reasons = table["reason"].to_pylist() if relabels else repeat(None)
            values = (table[name].to_pylist() for name in columns[:4])
            for query, document, is_chosen, is_masked, reason in zip(*values, reasons, strict=False):
                for negative, positives in ((document, is_chosen), (None, is_masked)):
                    for key in positives if is_per_row else [None] if positives else []:
                        negatives.setdefault((query, key), []).append(negative)
                if reason in SUSPECTED:
                    relabelled.setdefault(query, []).append(document)
            for query in dict.fromkeys(query for query, _ in negatives):
                for positive in [*self.ranking.relevant[query], *relabelled.get(query, [])]:
                    documents = negatives.get((query, positive if is_per_row else None), [])
                    if documents:
                        filled = (positive if number is None else number for number in documents)
                        yield [query, positive, *filled]

    def write(self, path: Path, *, like: DatasetConfig) -> tuple[Path, int]:
        """Write the training table, its configuration, and all candidates as <name>.parquet.

        Args:
            path: The table (.tsv). Cells are empty if a row has fewer negatives.
            like: Configuration of the mined set.

        Returns:
            Path of the configuration, and the number of rows.

        Raises:
            NoNegativesError: No query has a negative. The candidates are written all the same.
        """
        names = ["anchor", "positive", *negative_columns(self.options.num_negatives)]
        count = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write_candidates(path.with_suffix(".parquet"))
        with atomic_write(path) as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(names)
            for row in self.rows():
                writer.writerow(row + [""] * (len(names) - len(row)))
                count += 1
            if not count:
                raise NoNegativesError(self._nothing(path))
        source = f"{self.ranking.name}/{self.ranking.split}"
        most = "up to " * bool(self._sizes["fewer"])
        yaml = write_description(
            path,
            Kind.TRIPLET,
            dict(zip(names, names, strict=True)),
            like=like,
            about=f"{most}{self.options.num_negatives} mined negatives for the positives of {source}",
            origin=made_from("mine", source, like.origin),
            rows=count,
            symmetric=self.ranking.symmetric,
        )
        return yaml, count

    def _nothing(self, path: Path) -> str:
        refused = {name: count for name, count in self.report()["reasons"].items() if name != Reason.KEPT}
        reason = max(refused, key=lambda name: refused[name])
        is_fitted = "threshold" in self.measured
        fitted = ", or pairs of the same kind and field to calibrate on" if is_fitted else ""
        return (
            f"{path}: no query has a negative, so there is no set to write; most candidates "
            f"are refused as {reason} ({refused[reason]:,}), see {path.with_suffix('.parquet')}. Ask for a "
            f"larger range_max or milder rules{fitted}"
        )

    def write_candidates(self, path: Path) -> None:
        """Write all candidates as one file. Its metadata hold the identity and the report."""
        metadata = json.dumps({**self.identity, "report": self.report()}, ensure_ascii=False, sort_keys=True)
        schema = pq.read_schema(self.shards[0]).with_metadata({METADATA: metadata})
        with atomic_write(path, "wb") as file, pq.ParquetWriter(file, schema, **WRITING) as writer:
            for shard in self.shards:
                table = pq.read_table(shard).replace_schema_metadata(schema.metadata)
                writer.write_table(table, row_group_size=max(table.num_rows, 1))


def _sums(lists: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*lists, strict=True)]
