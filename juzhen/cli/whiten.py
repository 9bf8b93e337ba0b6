"""`juzhen whiten`: an encoder of token embeddings alone, whitened in part."""

from collections.abc import Sequence
from pathlib import Path

from juzhen.cli.arguments import SEED, VerbParser, data_folder
from juzhen.core.network import without_hub
from juzhen.core.numerals import finite_number, whole_number
from juzhen.core.places import DATASETS


def parser() -> VerbParser:
    parser = VerbParser(
        "whiten",
        description="Writes a copy of an encoder without layers, of which the directions vary less unequally over the "
        "tokens of some text. backbone.layers puts layers on it as on any other.",
    )
    parser.add_argument("encoder", help="a run, or the folder of an encoder")
    parser.add_argument("folder", type=Path, help="where the new encoder is written")
    parser.add_argument(
        "--dataset",
        nargs="+",
        required=True,
        metavar="SET",
        help="text whose tokens are counted: text_tatoeba …",
    )
    parser.add_argument(
        "--power",
        type=finite_number("--power", example=0.45),
        help="0: not at all, 1: wholly (default: 0.45)",
    )
    parser.add_argument(
        "--special",
        type=finite_number("--special", example=6),
        help="special tokens around a text add what so many mean tokens would (default: 6)",
    )
    parser.add_argument(
        "--limit",
        type=whole_number("--limit", least=1, expected="at least 1 row, such as 20000"),
        help="rows of each set, drawn at random (default: 20000)",
    )
    parser.add_seed(of="drawn rows")
    parser.add_data_dir()
    return parser


def run(
    encoder: str | Path,
    folder: Path,
    *,
    dataset: Sequence[str],
    power: float = 0.45,
    special: float = 6.0,
    limit: int = 20000,
    seed: int = SEED,
    data_dir: Path | None = None,
) -> None:
    """Reads the encoder and the texts, whitens, writes, and says how to go on."""
    without_hub()
    import numpy as np

    from juzhen.encoders.bundle import load_encoder, save_encoder
    from juzhen.encoders.token_whitening import token_frequencies, whiten_tokens
    from juzhen.mining.sets import read_set

    loaded = load_encoder(encoder)
    texts: list[str] = []
    for name in dataset:
        _, examples = read_set(DATASETS, name, "train", data_dir=data_folder(data_dir))
        sentences = examples.sentences
        drawn = np.random.default_rng(seed).permutation(len(sentences))[:limit]
        texts += [sentences[row] for row in np.sort(drawn).tolist()]
    changed = whiten_tokens(loaded, token_frequencies(loaded, texts), power=power, special=special)
    about = {"power": power, "special": special, "text": ", ".join(dataset)}
    save_encoder(changed, folder, card={"name": folder.name, "whitened": about})
    print(f"{folder}: whitened by the tokens of {len(texts):,} texts")
    print(f"train on from it:\n  python train.py backbone.path={folder} …")
