"""The command line that measures a finished encoder: `python -m analysis space`."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import add_batch_tokens, add_data_dir, add_seed
from juzhen.core.errors import UserError
from juzhen.core.numerals import whole_number

if TYPE_CHECKING:
    from juzhen.data.probe import Probe

CONFIGURATION = Path(__file__).resolve().parents[1] / "conf"

MEANINGS = {
    "norm_mean": "mean length of an embedding",
    "norm_deviation": "standard deviation of the lengths",
    "mean_cosine": "of two texts: near 1 in a narrow cone",
    "neighbour_similarity": "mean cosine with the five nearest texts",
    "alignment": "mean squared distance of close pairs: lower = closer",
    "uniformity": "lower = more evenly spread",
    "effective_rank": "directions that are used",
    "isotropy": "IsoScore: 0 a line, 1 the same variance in all directions",
    "first_component_isotropy": "1 − part of the first principal component in the first 50",
    "silhouette": "of the classes: −1 to 1, higher = tighter and further apart",
}
"""Measure → what it says, in the order in which they are shown."""


def add_space(commands: "argparse._SubParsersAction") -> None:
    """Adds the command `space` to a program."""
    parser = commands.add_parser(
        "space",
        help="measure the embedding space of a finished encoder: lengths, spread, directions, neighbours, classes",
        description="Encodes a sample of texts and measures where they lie. Alignment needs a set of pairs, silhouette "
        "one with classes; without --dataset and --file the sample is of demo_sts.",
    )
    parser.add_argument("encoder", help="run folder, or folder of an encoder")
    parser.add_argument("--dataset", nargs="+", metavar="SET", default=[], help="sets of conf/dataset")
    parser.add_argument(
        "--split", choices=("dev", "test", "train"), help="default: the first that has a file"
    )
    parser.add_argument("--file", type=Path, help="one text per line: .txt, also .zst or .gz")
    parser.add_argument(
        "--sentences",
        type=whole_number("--sentences", least=10, expected="at least 10, such as 1000"),
        default=1000,
        help="texts of each set, at most (default: 1000)",
    )
    add_seed(parser, of="drawn texts")
    add_data_dir(parser)
    add_batch_tokens(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the numbers here, as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Draws, encodes, measures, prints a table: a row per measure, a column per set."""
    # An encoder is a folder here, the hub is never asked. transformers reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from juzhen.encoders import load_encoder
    from juzhen.metrics.space import measure_space

    probes = dict(_probes(options))
    encoder = load_encoder(options.encoder)
    found = {}
    for name, probe in probes.items():
        embeddings = encoder.embed(probe.sentences, batch_tokens=options.batch_tokens, progress=False)
        measured = measure_space(embeddings, pairs=probe.pairs, grades=probe.grades, classes=probe.classes)
        found[name] = {"texts": len(probe.sentences), "dimensions": encoder.dim, **measured}
    print(_table(found))
    if options.output:
        from juzhen.core.whole import write_json

        write_json(options.output, found)


def _probes(options: argparse.Namespace) -> "Iterator[tuple[str, Probe]]":
    """Name of a sample and its texts. Raises UserError for a set or a file that is not there."""
    from juzhen.core.errors import nearest
    from juzhen.data.audit.sources import ConfiguredSets, text_lines
    from juzhen.data.probe import Probe

    how = {"num_sentences": options.sentences, "seed": options.seed}
    data_dir = options.data_dir or Path(os.environ.get("JUZHEN_DATA", "data"))
    sets = ConfiguredSets(CONFIGURATION / "dataset", data_dir)
    for name in options.dataset or ([] if options.file else ["demo_sts"]):
        if name not in sets.files:
            raise UserError(f"--dataset {name}: no conf/dataset/{name}.yaml; {nearest(name, sets.files)}")
        splits = [options.split] if options.split else ["dev", "test", "train"]
        read = next((one for split in splits if (one := sets.load(name, split)) is not None), None)
        if read is None:
            raise UserError(
                f"--dataset {name}: no file of {' or '.join(splits)} below {data_dir}; type --data-dir <folder that "
                "holds the data sets>"
            )
        yield f"{name} ({read.split})", Probe.of(read, **how)
    if options.file:
        lines = [line for line in text_lines(options.file, option="--file") if line.strip()]
        yield options.file.name, Probe.of_texts(list(dict.fromkeys(lines)), **how)


def _table(found: dict[str, dict[str, float | None]]) -> str:
    lines = [f"| measure | {' | '.join(found)} | |", f"|---|{'--:|' * len(found)}---|"]
    for name in ("texts", "dimensions", *MEANINGS):
        values = [one.get(name) for one in found.values()]
        if any(value is not None for value in values):
            lines.append(f"| {name} | {' | '.join(map(_shown, values))} | {MEANINGS.get(name, '')} |")
    return "\n".join(lines)


def _shown(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
