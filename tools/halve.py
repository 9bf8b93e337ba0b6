"""An encoder with its weights in half precision, half as large on disk: python -m tools.halve <run> <folder>

Weights are read back as float32, so only their rounding remains (about three decimal digits of each).
"""

import argparse
import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.cli.program import run_program, status_of
from juzhen.core.errors import UserError
from juzhen.core.file_guard import require_apart, require_outside
from juzhen.encoders.pooling import unit
from juzhen.encoders.save import save_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder, load_encoder

SAMPLE = (
    "今天天气很好",
    "我想知道花呗怎么还款",
    "一个男人正在弹吉他。",
    "A man is playing a guitar.",
    "2024年3月5日",
)


def save_halved(encoder: SentenceEncoder, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Writes the encoder to a folder, as `save_encoder` does, with float16 weights; the one given stays as it is.

    Raises UserError where a weight is too large for float16.
    """
    halved = copy.deepcopy(encoder).half()
    if not all(weight.isfinite().all() for weight in halved.parameters()):
        raise UserError("some weights are beyond 65504, the largest float16; this encoder cannot be halved")
    return save_encoder(halved, folder, card=card)


def largest_change(encoder: SentenceEncoder, other: SentenceEncoder) -> float:
    """Largest distance of a sample's unit embeddings between the two encoders."""
    first, second = (unit(model.encode(SAMPLE)) for model in (encoder, other))
    return float(np.linalg.norm(first - second, axis=1).max())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.halve", description=__doc__)
    parser.add_argument("run", help="a run, or the folder of an encoder")
    parser.add_argument("folder", type=Path, help="where the halved encoder is written")
    parser.add_argument("--name", help="title of its README (default: the name of the folder)")
    options = parser.parse_args(arguments)
    return status_of(lambda: _halve(options))


def _halve(options: argparse.Namespace) -> None:
    require_apart(options.folder, options.run)
    require_outside(options.folder)
    encoder = load_encoder(options.run)
    folder = save_halved(encoder, options.folder, card={"name": options.name or options.folder.name})
    size = (folder / "model.safetensors").stat().st_size
    change = largest_change(encoder, load_encoder(folder))
    print(f"{folder}: weights of {size / 1e6:.1f} MB; unit embeddings moved by at most {change:.1e}")


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
