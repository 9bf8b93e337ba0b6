"""`juzhen mine`: hard negatives for the pairs of a set."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser, data_folder
from juzhen.core.network import without_hub
from juzhen.core.numerals import finite_number, percent
from juzhen.core.places import DATASETS
from juzhen.mining.options import FALSE_NEGATIVES, INDEXES, SHARE_OF, MiningOptions, require_portions

NONE = "none"

FEWEST_ROWS, FEWEST_REFUSED = 0.1, 0.001
"""Shares, of the rows that there would be without a fitted threshold and of the candidates that come to it, below which
the pairs that it was fitted on are taken for others than those that are mined."""


def parser() -> VerbParser:
    parser = VerbParser(
        "mine",
        description="Looks for texts that are close to a query and do not answer it, and writes them beside its "
        "positives as a set of triplets: a table, the configuration that reads it, and a parquet file of all "
        "candidates with rank, score and the reason why each was kept or refused. A mining that was killed goes "
        "on when the same command is given again.",
        epilog="Of sets of 0/1 pairs the queries are all sentences that have a duplicate. How many of the candidates "
        "that are kept answer their query after all is measured on those whose label is known.",
    )
    parser.add_argument("dataset", help="a set of pairs or triplets: lcqmc …")
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="source",
        help="what finds candidates: run folder or folder of an encoder, builtin/mini_zh, bm25; several are pooled, "
        "and the first gives the scores",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.tsv", help="table to write; its name names the set"
    )
    parser.add_argument("--split", choices=("train", "dev", "test"), help="default: train")
    about = "queries at most, drawn with the seed; the corpus is then what is known of these (default: all)"
    parser.add_count("--limit", about, expected="1 or more, such as 2000", metavar="N")
    _add_search(parser)
    _add_rules(parser)
    _add_choice(parser)
    parser.add_data_dir()
    parser.add_config_dir()
    parser.add_on_bad_row()
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep embeddings here for the next time")
    parser.add_seed(of="what is drawn")
    parser.add_batch_tokens()
    return parser


def _add_search(parser: VerbParser) -> None:
    about, expected = (
        f"candidates of each source (default: {MiningOptions.depth}, or all of a smaller corpus)",
        "1 or more, such as 100",
    )
    parser.add_count("--depth", about, expected=expected, metavar="N")
    parser.add_argument(
        "--index",
        choices=INDEXES,
        help="all documents, or an index of FAISS, whose recall is then told (default: exact)",
    )
    about, expected = "candidates before this rank are refused (default: 1)", "1 or more, such as 10"
    parser.add_count("--first-rank", about, expected=expected, metavar="N")
    for side in ("query", "document"):
        parser.add_argument(f"--{side}-prompt", metavar="NAME", help=f"prompt of the encoder, such as {side}")


def _add_rules(parser: VerbParser) -> None:
    parser.add_argument(
        "--share",
        type=lambda text: None if text == NONE else finite_number("--share", example=0.95)(text),
        help="refuse what scores above this share of the score of a positive, or none (default: 0.95)",
    )
    parser.add_argument(
        "--share-of",
        choices=SHARE_OF,
        help="which positive --share and --margin look at: the one of the query with the lowest score · the row's own, "
        "so that each row has its own negatives; where labels join large groups lowest leaves few rows "
        "(default: lowest)",
    )
    about = "refuse what scores above that score less this"
    parser.add_number("--margin", about, example=0.05, metavar="NUMBER")
    about = "refuse what scores at least this, by the judge if there is one"
    parser.add_number("--threshold", about, example=0.9, metavar="NUMBER")
    parser.add_argument("--judge", metavar="RUN", help="a cross-encoder that scores what other rules keep")
    parser.add_argument(
        "--calibrate-on", metavar="SET", help="fit the threshold on the 0/1 pairs of this set's dev split"
    )
    about = "share of the pairs with label 1 that a fitted threshold lets through (default: 0.05)"
    parser.add_number("--false-negative-rate", about, example=0.05, metavar="NUMBER")
    about = "sentences of these sets' dev and test splits are refused"
    parser.add_argument("--keep-out", nargs="+", metavar="SET", help=about)


def _add_choice(parser: VerbParser) -> None:
    about, expected = "for each positive (default: 8)", "1 or more, such as 8"
    parser.add_count("--negatives", about, expected=expected, metavar="N")
    about = "of them from the sources, the others at random (default: 0.5)"
    parser.add_number("--hard-share", about, example=0.5, metavar="NUMBER")
    about = "draw hard ones by a softmax over scores (default: the best ones)"
    parser.add_number("--temperature", about, example=0.05, metavar="NUMBER")
    parser.add_argument(
        "--false-negatives",
        choices=FALSE_NEGATIVES,
        help="what scores too high: another takes its place · it becomes a positive · the positive stands in its "
        "place, which InfoNCE leaves out (default: drop)",
    )


def run(
    dataset: str,
    sources: Sequence[str],
    *,
    out: Path,
    split: str = "train",
    limit: int | None = None,
    depth: int | None = None,
    index: str = MiningOptions.index,
    first_rank: int = MiningOptions.first_rank,
    share: float | None = MiningOptions.share,
    share_of: str = MiningOptions.share_of,
    margin: float | None = MiningOptions.margin,
    threshold: float | None = MiningOptions.threshold,
    negatives: int = MiningOptions.negatives,
    hard_share: float = MiningOptions.hard_share,
    temperature: float | None = MiningOptions.temperature,
    false_negatives: str = MiningOptions.false_negatives,
    judge: str | None = None,
    calibrate_on: str | None = None,
    false_negative_rate: float = 0.05,
    keep_out: Sequence[str] = (),
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    on_bad_row: str = "error",
    cache: Path | None = None,
    seed: int = SEED,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Reads, mines, writes, and says what was refused and how the new set is trained on."""
    given = locals()
    from juzhen.mining.sets import check_place, read_set, training_command

    check_place(out, f"mined/{dataset}", ending="hard", beside=[".parquet"])
    require_portions(out.with_suffix(".portions"))
    chosen = {one.name: given[one.name] for one in fields(MiningOptions)} | {
        "depth": depth or MiningOptions.depth
    }
    options = MiningOptions(**chosen)
    without_hub()
    from juzhen.data.audit.sources import ConfiguredSets
    from juzhen.data.loading import cut
    from juzhen.data.rankings import as_judgements, as_ranking
    from juzhen.encoders import CrossEncoder, SentenceEncoder
    from juzhen.encoders.embedding_cache import EmbeddingCache
    from juzhen.encoders.locate import encoder_folder
    from juzhen.mining.negatives import BM25, clear_portions, mine

    folder, portions = data_folder(data_dir), out.with_suffix(".portions")
    where: dict[str, Any] = {"data_dir": folder, "config_dir": config_dir, "on_bad_row": on_bad_row}
    config, examples = read_set(dataset, split, out=out, **where)
    pairs = None
    if calibrate_on is not None:
        pairs = read_set(calibrate_on, "dev", **where)[1]
    sets = ConfiguredSets(DATASETS, folder, config_dir=config_dir) if keep_out else None
    for source in sources:
        if source != BM25:
            encoder_folder(source)  # the hub is not asked
    if judge is not None:
        encoder_folder(judge)
    ranking = as_ranking(cut(as_judgements(examples), limit, seed))
    if depth is None and 0 < len(ranking.corpus) < options.depth:
        options = replace(options, depth=len(ranking.corpus))
        print(
            f"depth: all {options.depth:,} documents of {ranking.column}, which are fewer than {MiningOptions.depth}"
        )
    mined = mine(
        ranking,
        [source if source == BM25 else SentenceEncoder.load(source) for source in sources],
        options,
        folder=portions,
        judge=None if judge is None else CrossEncoder.load(judge),
        evaluation=() if sets is None else sets.evaluation(keep_out),
        calibrate_on=pairs,
        false_negative_rate=false_negative_rate,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        batch_tokens=batch_tokens,
        cache=None if cache is None else EmbeddingCache(cache),
    )
    yaml, count = mined.write(out, like=config)
    report = mined.report()
    clear_portions(portions)
    print(f"{count:,} rows of {dataset}/{split} with {options.negatives} negatives each: {out}")
    print(f"all candidates with their reasons: {out.with_suffix('.parquet')}\nconfiguration: {yaml}")
    print("\n".join(_told(report)))
    if (warning := misfit(report, calibrate_on)) is not None:
        print(f"warning: {warning}", file=sys.stderr)
    place = folder if folder.is_dir() else out.parent
    print(training_command(out, yaml, "loss=info_nce", place))


def _told(report: dict[str, Any]) -> list[str]:
    """The report in words."""
    lines = ["candidates: " + ", ".join(f"{count:,} {reason}" for reason, count in report["reasons"].items())]
    lines += [
        f"recall of the index of {name}: {100 * value:.2f} %"
        for name, value in report["index_recall"].items()
    ]
    lines += [
        f"{name} reads queries behind {query!r} and documents behind {document!r}"
        for name, (query, document) in report.get("prompts", {}).items()
    ]
    if (fitted := report.get("threshold")) is not None:
        lines.append(
            f"threshold {fitted['value']:.4f}, fitted on {fitted['positives']:,} pairs with label 1, of which "
            f"{100 * fitted['kept_positives']:.1f} % lie below, and {fitted['negatives']:,} with label 0, of which "
            f"{100 * fitted['refused_negatives']:.1f} % do not"
        )
    before, after = report["known_before"], report["known_after"]
    wrong, left = report["false_negatives_before"], report["false_negatives_after"]
    if not before:
        return [*lines, "false negatives: no candidate of a query with two positives has a known label"]
    others = before - wrong
    rules = {"all rules": [wrong, left, others, others - (after - left)]}
    if len(report["rules"]) < 2:
        rules = {}
    rules = report["rules"] | rules or {"no rule": [wrong, left, others, 0]}
    lines += [
        f"where labels are known, {name}: {_of(through, answers)} answers let through, "
        f"{_of(refused, negatives)} others refused"
        for name, (answers, through, negatives, refused) in rules.items()
    ]
    rate = f"{100 * left / after:.1f} % ({left:,} of {after:,})" if after else "none is kept"
    return [
        *lines,
        f"false negatives among candidates whose label is known: {100 * wrong / before:.1f} % ({wrong:,} of "
        f"{before:,}) before these rules, {rate} after",
    ]


def misfit(report: Mapping[str, Any], calibrated_on: str | None) -> str | None:
    """What tells that a fitted threshold does not fit what was mined, and the way out; None: it may fit."""
    if (fitted := report.get("threshold")) is None:
        return None
    left, value = report["left"], fitted["value"]
    rows, without, candidates, refused = (
        left[name] for name in ("rows", "rows_without", "candidates", "refused")
    )
    way_out = "calibrate on pairs of the same kind and field, or take --share or --threshold in its place"
    shown = f"--calibrate-on {calibrated_on}: the threshold {value:.4f} refuses {_of(refused, candidates)} candidates"
    if rows < FEWEST_ROWS * without:
        return f"{shown} and leaves {_of(rows, without)} rows; {way_out}"
    if refused < FEWEST_REFUSED * candidates:
        return f"{shown}, next to nothing; {way_out}"
    return None


def _of(part: int, whole: int) -> str:
    """A part, and its share: 967 of 1,086 (89.0 %)."""
    return f"{part:,} of {whole:,}" + (f" ({percent(part, whole)})" if whole else "")
