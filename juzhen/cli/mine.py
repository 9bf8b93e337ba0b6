"""`juzhen mine`: hard negatives for the pairs of a set."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_claimable
from juzhen.core.machine import without_hub
from juzhen.core.paths import DATASETS
from juzhen.core.text import counted
from juzhen.mining import MiningOptions

USUAL = MiningOptions()
FEWEST_ROWS, FEWEST_REFUSED = 0.1, 0.001
"""Shares, of the rows that there would be without a fitted threshold and of the candidates that come to it, below which
the pairs that it was fitted on are taken for others than those that are mined."""


def mine(
    dataset: Annotated[
        str, Argument(help="set of pairs or triplets, such as lcqmc, or a table, such as faq.csv")
    ],
    sources: Annotated[
        list[str],
        Argument(
            help="retrievers: a run, the folder of an encoder, builtin/mini_zh, or bm25. Several are "
            "pooled, and the first one scores"
        ),
    ],
    *,
    out: options.Table,
    split: options.ReadSplit = "train",
    limit: Annotated[
        int | None,
        Option(
            min=1,
            help="at most N queries, drawn at random. The corpus then has the texts of these queries",
            show_default="all",
        ),
    ] = None,
    range_max: Annotated[
        int | None,
        Option(
            min=1,
            help="candidates of each source",
            show_default=f"{MiningOptions.range_max}, or all of a smaller corpus",
        ),
    ] = None,
    rules: MiningOptions = USUAL,
    cross_encoder: Annotated[
        str | None, Option(metavar="RUN", help="cross-encoder that scores the candidates other rules keep")
    ] = None,
    calibrate_on: Annotated[
        str | None,
        Option(metavar="SET", help="fit --max-score on the 0/1 pairs of this set's dev split"),
    ] = None,
    false_negative_rate: Annotated[
        float | None,
        Option(
            help="share of the pairs with label 1 that the fitted --max-score wrongly keeps",
            show_default="0.05",
        ),
    ] = None,
    exclude_from: Annotated[
        list[str] | None,
        Option(metavar="SET…", help="drop sentences of these sets' dev and test splits"),
    ] = None,
    query_prompt: Annotated[str | None, Option(help="prompt of the encoder, such as query")] = None,
    document_prompt: Annotated[str | None, Option(help="prompt of the encoder, such as document")] = None,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    table: options.TableOptions = options.AS_IT_LOOKS,
    cache: options.Cache = None,
    seed: options.Seed = options.SEED,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
) -> None:
    """Finds texts that are close to a query and do not answer it, and writes them as a set of triplets.

    The verb writes a table of queries, positives and negatives, its configuration, and a parquet file of all candidates
    with rank, score, and the reason why each was kept or dropped. To resume an interrupted command, repeat it. In sets
    of 0/1 pairs, the queries are all sentences with a duplicate. The share of false negatives is estimated from
    candidates with a known label.

    juzhen mine lcqmc runs/NAME bm25 --out mined/lcqmc_hard.tsv
    juzhen mine demo_qmc builtin/mini_zh --out mined/demo_hard.tsv --cross-encoder runs/CROSS --calibrate-on demo_qmc
    """
    from juzhen.mining.sets import check_place, read_set, training_command

    check_place(
        out, f"mined/{Path(dataset).name.partition('.')[0]}", ending="hard", other_endings=[".parquet"]
    )
    if false_negative_rate is not None and calibrate_on is None:
        raise UserError(
            "--false-negative-rate needs --calibrate-on SET. Add it, or leave --false-negative-rate out"
        )
    shards = out.with_suffix(".shards")
    check_claimable(shards)
    rules = replace(rules, seed=seed, range_max=range_max or rules.range_max)
    without_hub()
    from juzhen.data.loading import cut
    from juzhen.data.rankings import as_judgements, as_ranking
    from juzhen.data.rows import ConfiguredSets
    from juzhen.encoders import CrossEncoder
    from juzhen.encoders.embedding_cache import EmbeddingCache
    from juzhen.encoders.resolve_path import encoder_folder
    from juzhen.mining import negatives as miner
    from juzhen.mining.candidates import load_source
    from juzhen.mining.negatives import NoNegativesError, report_lines

    folder = options.data_folder(data_dir)
    where: dict[str, Any] = {"data_dir": folder, "config_dir": config_dir, "on_bad_row": table.on_bad_row}
    config, examples = read_set(dataset, split, out=out, reading=table.reading, **where)
    pairs = None if calibrate_on is None else read_set(calibrate_on, "dev", **where)[1]
    sets = ConfiguredSets(DATASETS, folder, config_dir=config_dir) if exclude_from else None
    for source in (*sources, *filter(None, [cross_encoder])):
        if source != miner.BM25:
            encoder_folder(source)  # the hub is not asked
    ranking = as_ranking(cut(as_judgements(examples), limit, seed))
    if range_max is None and 0 < len(ranking.corpus) < rules.range_max:
        rules = replace(rules, range_max=len(ranking.corpus))
        print(
            f"range_max: all {counted(rules.range_max, 'documents')} of {ranking.column}, "
            f"fewer than {MiningOptions.range_max}"
        )
    excluded = [] if sets is None else sets.evaluation(exclude_from, option="exclude_from")
    if sets is not None:
        sets.tell_dropped()
    mined = miner.mine(
        ranking,
        [source if source == miner.BM25 else load_source(source) for source in sources],
        rules,
        folder=shards,
        cross_encoder=None if cross_encoder is None else CrossEncoder.load(cross_encoder),
        exclude_from=excluded,
        calibrate_on=pairs,
        false_negative_rate=0.05 if false_negative_rate is None else false_negative_rate,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        batch_tokens=batch_tokens,
        cache=None if cache is None else EmbeddingCache(cache),
    )
    try:
        yaml, count = mined.write(out, like=config)
    except NoNegativesError:
        miner.clear_shards(shards)  # other rules may follow
        raise
    report = mined.report()
    miner.clear_shards(shards)
    sizes = (
        f"up to {counted(rules.num_negatives, 'negatives')}"
        if report["rows"]["fewer"]
        else f"{counted(rules.num_negatives, 'negatives')} each"
    )
    print(f"{counted(count, 'rows')} of {config.name}/{split} with {sizes}: {out}")
    print(f"all candidates with their reasons: {out.with_suffix('.parquet')}\nconfiguration: {yaml}")
    print("\n".join(report_lines(report)))
    if (warning := misfit(report, calibrate_on)) is not None:
        print(f"warning: {warning}", file=sys.stderr)
    print(training_command(out, yaml, "loss=info_nce", folder if folder.is_dir() else out.parent))


def misfit(report: Mapping[str, Any], calibrated_on: str | None) -> str | None:
    """Explain why a fitted threshold does not suit the mined set, and what to do.

    Args:
        report: Report of the mining, with its counts.
        calibrated_on: Set of the fit, for the message.

    Returns:
        A message. None if the threshold may suit, or was not fitted.
    """
    if (fitted := report.get("threshold")) is None:
        return None
    from juzhen.mining.negatives import share_of

    counts = report["left"]
    rows, without, candidates, refused = (
        counts[name] for name in ("rows", "rows_without", "candidates", "refused")
    )
    way_out = "calibrate on pairs of the same kind and field, or use --relative-margin or --max-score instead"
    start = (
        f"--calibrate-on {calibrated_on}: the threshold {fitted['value']:.4f} refuses {share_of(refused, candidates)} "
        "candidates"
    )
    if rows < FEWEST_ROWS * without:
        return f"{start} and leaves {share_of(rows, without)} rows; {way_out}"
    if refused < FEWEST_REFUSED * candidates:
        return f"{start}, next to nothing; {way_out}"
    return None
