"""The command line of whitening: `python -m mining whiten`."""

import argparse
import os
from pathlib import Path

import numpy as np

from juzhen.cli.arguments import add_data_dir, add_seed
from juzhen.cli.distil import CONFIGURATION
from juzhen.core.numerals import finite_number, whole_number


def add_whiten(commands: "argparse._SubParsersAction") -> None:
    """Adds the command `whiten` to a program."""
    parser = commands.add_parser(
        "whiten",
        help="whiten an encoder of token embeddings alone, in part",
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
        default=0.45,
        help="0: not at all, 1: wholly (default: 0.45)",
    )
    parser.add_argument(
        "--special",
        type=finite_number("--special", example=6),
        default=6.0,
        help="special tokens around a text add what so many mean tokens would (default: 6)",
    )
    parser.add_argument(
        "--limit",
        type=whole_number("--limit", least=1, expected="at least 1 row, such as 20000"),
        default=20000,
        help="rows of each set, drawn at random (default: 20000)",
    )
    add_seed(parser, of="drawn rows")
    add_data_dir(parser)
    parser.set_defaults(run=whiten)


def whiten(options: argparse.Namespace) -> None:
    """Reads the encoder and the texts, whitens, writes, and says how to go on."""
    # An encoder is a folder here, the hub is never asked. transformers reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from juzhen.encoders.bundle import load_encoder, save_encoder
    from juzhen.encoders.token_whitening import token_frequencies, whiten_tokens
    from juzhen.mining.sets import read_set

    encoder = load_encoder(options.encoder)
    data_dir = options.data_dir or Path(os.environ.get("JUZHEN_DATA", "data"))
    texts: list[str] = []
    for name in options.dataset:
        _, examples = read_set(CONFIGURATION / "dataset", name, "train", data_dir=data_dir)
        sentences = examples.sentences
        drawn = np.random.default_rng(options.seed).permutation(len(sentences))[: options.limit]
        texts += [sentences[row] for row in np.sort(drawn).tolist()]
    changed = whiten_tokens(
        encoder, token_frequencies(encoder, texts), power=options.power, special=options.special
    )
    about = {"power": options.power, "special": options.special, "text": ", ".join(options.dataset)}
    save_encoder(changed, options.folder, card={"name": options.folder.name, "whitened": about})
    print(f"{options.folder}: whitened by the tokens of {len(texts):,} texts")
    print(f"train on from it:\n  python train.py backbone.path={options.folder} …")
