"""`juzhen space`: where the embeddings of a finished encoder lie."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser, data_folder
from juzhen.core.errors import UserError, nearest
from juzhen.core.network import without_hub
from juzhen.core.owned import require_ours
from juzhen.core.places import DATASETS
from juzhen.core.whole import write_json

if TYPE_CHECKING:
    from juzhen.data.audit.sources import ConfiguredSets
    from juzhen.data.probe import Probe


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


def parser() -> VerbParser:
    parser = VerbParser(
        "space",
        description="Encodes a sample of texts and measures where they lie. Alignment needs a set of pairs, silhouette "
        "one with classes; without --dataset and --file the sample is of demo_sts.",
    )
    parser.add_argument("encoder", help="run folder, or folder of an encoder")
    parser.add_argument("--dataset", nargs="+", metavar="SET", help="sets of conf/dataset")
    parser.add_argument(
        "--split", choices=("dev", "test", "train"), help="default: the first that has a file"
    )
    parser.add_argument("--file", type=Path, help="one text per line: .txt, also .zst or .gz")
    about = "texts of each set, at most (default: 1000)"
    parser.add_count("--sentences", about, least=10, expected="at least 10, such as 1000")
    parser.add_seed(of="drawn texts")
    parser.add_data_dir()
    parser.add_config_dir()
    parser.add_batch_tokens()
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the numbers here, as JSON")
    return parser


def run(
    encoder: str | Path,
    *,
    dataset: Sequence[str] = (),
    split: str | None = None,
    file: Path | None = None,
    sentences: int = 1000,
    seed: int = SEED,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    batch_tokens: int = BATCH_TOKENS,
    output: Path | None = None,
) -> None:
    """Draws, encodes, measures, prints a table: a row per measure, a column per set."""
    if output:
        require_ours(output)
    without_hub()
    from juzhen.data.audit.sources import ConfiguredSets
    from juzhen.encoders import load_encoder
    from juzhen.metrics.geometry import measure_space

    sets = ConfiguredSets(DATASETS, data_folder(data_dir), config_dir=config_dir)
    probes = dict(_probes(sets, dataset, split, file, num_sentences=sentences, seed=seed))
    loaded = load_encoder(encoder)
    found = {}
    for name, probe in probes.items():
        embeddings = loaded.encode(probe.sentences, batch_tokens=batch_tokens, progress=False)
        measured = measure_space(embeddings, pairs=probe.pairs, grades=probe.grades, classes=probe.classes)
        found[name] = {"texts": len(probe.sentences), "dimensions": loaded.dim, **measured}
    print(_table(found))
    if output:
        write_json(output, found)


def _probes(
    sets: "ConfiguredSets",
    dataset: Sequence[str],
    split: str | None,
    file: Path | None,
    *,
    num_sentences: int,
    seed: int,
) -> "Iterator[tuple[str, Probe]]":
    """Name of a sample and its texts. Raises UserError for a set or a file that is not there."""
    from juzhen.data.audit.sources import text_lines
    from juzhen.data.probe import Probe

    for name in dataset or ([] if file else ["demo_sts"]):
        if name not in sets.files:
            raise UserError(f"--dataset {name}: no conf/dataset/{name}.yaml; {nearest(name, sets.files)}")
        splits = [split] if split else ["dev", "test", "train"]
        read = next((rows for one in splits if (rows := sets.load(name, one)) is not None), None)
        if read is None:
            raise UserError(
                f"--dataset {name}: no file of {' or '.join(splits)} below {sets.data_dir}; type --data-dir <folder "
                "that holds the data sets>"
            )
        yield f"{name} ({read.split})", Probe.of(read, num_sentences=num_sentences, seed=seed)
    if file:
        lines = [line for line in text_lines(file, option="--file") if line.strip()]
        texts = list(dict.fromkeys(lines))
        yield file.name, Probe.of_texts(texts, num_sentences=num_sentences, seed=seed)


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
