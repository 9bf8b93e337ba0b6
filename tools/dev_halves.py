"""Cuts dev splits in two, so that what is chosen on one half is judged on the other: python -m tools.dev_halves

Of each set to choose on, `SET/dev.tsv.zst` becomes `SET/dev.tsv` and `SET/test.tsv` of another folder; rows that share
their first text stay together. Of each other set the whole dev split becomes `SET/test.tsv`. Of training files, and of
each table that is written, the rows with the smallest digests are taken: they are the same ones each time.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import zstandard

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.safe_open import open_regular_file


def digest(line: str) -> bytes:
    return hashlib.sha256(line.encode("utf-8")).digest()


def read(path: Path) -> tuple[str, list[str]]:
    """The header and the rows of a table."""
    with zstandard.ZstdDecompressor().stream_reader(open_regular_file(path)) as stream:
        head, *rows_of_text = stream.read().decode("utf-8").removesuffix("\n").split("\n")
    return head, rows_of_text


def write(path: Path, head: str, lines: list[str], rows: int) -> None:
    """At most so many rows, those with the smallest digests."""
    chosen = sorted(lines, key=digest)[:rows]
    write_text(path, "\n".join([head, *chosen]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the sets")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--choose", nargs="+", default=[], help="sets that something is chosen on")
    parser.add_argument("--judge", nargs="+", default=[], help="sets that are judged alone")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a split, at most")
    parser.add_argument("--train-rows", type=int, default=1_000_000, help="of a training split, at most")
    options = parser.parse_args()
    for name in [*options.choose, *options.judge]:
        folder = options.out / name
        folder.mkdir(parents=True, exist_ok=True)
        head, rows_of_text = read(options.data / name / "dev.tsv.zst")
        judged = rows_of_text
        if name in options.choose:
            sides = [digest(line.split("\t", 1)[0])[0] % 2 for line in rows_of_text]
            chosen, judged = (
                [line for line, side in zip(rows_of_text, sides, strict=True) if side == number]
                for number in (0, 1)
            )
            write(folder / "dev.tsv", head, chosen, options.rows)
            write(folder / "train.tsv", *read(options.data / name / "train.tsv.zst"), options.train_rows)
        write(folder / "test.tsv", head, judged, options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
