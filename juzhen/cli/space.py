"""`juzhen space`: where the embeddings of a finished encoder lie."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from juzhen.cli import options
from juzhen.core.markup import markdown_table
from juzhen.core.network import without_hub
from juzhen.core.owned import require_ours
from juzhen.core.places import DATASETS
from juzhen.core.whole import write_json


def space(
    encoder: options.Encoder,
    *,
    dataset: Annotated[list[str] | None, Option(metavar="SET…", help="sets of conf/dataset")] = None,
    split: Annotated[
        Literal["dev", "test", "train"] | None,
        Option(help="split to read", show_default="the first that has a file"),
    ] = None,
    file: Annotated[Path | None, Option(help="one text per line: .txt, also .zst or .gz")] = None,
    sentences: Annotated[int, Option(min=10, help="texts of each set, at most")] = 1000,
    seed: options.Seed = options.SEED,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    output: options.Numbers = None,
) -> None:
    """Encodes a sample of texts and measures where they lie: a row per measure, a column per set.

    Alignment needs a set of pairs, silhouette one with classes; without --dataset and --file the sample is of demo_sts.

    juzhen space runs/NAME --dataset csts tnews
    juzhen space runs/NAME --file lines.txt
    """
    if output:
        require_ours(output)
    without_hub()
    from juzhen.data.audit.sources import ConfiguredSets, text_lines
    from juzhen.data.probe import Probe
    from juzhen.encoders import load_encoder
    from juzhen.metrics.geometry import MEANINGS, measure_space

    sets = ConfiguredSets(DATASETS, options.data_folder(data_dir), config_dir=config_dir)
    probes = {}
    for name in dataset or ([] if file else ["demo_sts"]):
        splits = [split] if split else ["dev", "test", "train"]
        loaded_splits = (rows for _, rows in sets.splits(name, splits, option="--dataset "))
        rows = next(rows for rows in loaded_splits if rows is not None)
        probes[f"{name} ({rows.split})"] = Probe.of(rows, num_sentences=sentences, seed=seed)
    if file:
        texts = list(dict.fromkeys(line for line in text_lines(file, option="--file") if line.strip()))
        probes[file.name] = Probe.of_texts(texts, num_sentences=sentences, seed=seed)
    loaded = load_encoder(encoder)
    measures: dict[str, dict[str, Any]] = {}
    for name, probe in probes.items():
        embeddings = loaded.encode(probe.sentences, batch_tokens=batch_tokens, show_progress=False)
        measures[name] = {
            "texts": len(probe.sentences),
            "dimensions": loaded.dim,
            **measure_space(embeddings, pairs=probe.pairs, grades=probe.grades, classes=probe.classes),
        }
    table = [
        [measure, *(_number(values.get(measure)) for values in measures.values()), meaning]
        for measure, meaning in {"texts": "", "dimensions": "", **MEANINGS}.items()
        if any(values.get(measure) is not None for values in measures.values())
    ]
    print(markdown_table(["measure", *measures, "meaning"], table, numbers=range(1, len(measures) + 1)))
    if output:
        write_json(output, measures)


def _number(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
