"""Cuts dev splits in two, so that what is chosen on one half is judged on the other: python -m tools.dev_halves

Of each set to choose on, `SET/dev.tsv.zst` becomes `SET/dev.tsv` and `SET/test.tsv` of another folder; rows that share
their first text stay together. Of each other set the whole dev split becomes `SET/test.tsv`. Training files are linked.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import zstandard

from juzhen.cli.program import run_program
from juzhen.core.opened import open_input
from juzhen.core.whole import write_text


def halves(path: Path) -> tuple[str, str]:
    """The header and the rows of a table whose first text has an even, and an odd, digest."""
    with zstandard.ZstdDecompressor().stream_reader(open_input(path)) as stream:
        head, *lines = stream.read().decode("utf-8").removesuffix("\n").split("\n")
    sides: tuple[list[str], list[str]] = ([head], [head])
    for line in lines:
        first = line.split("\t", 1)[0].encode("utf-8")
        sides[hashlib.sha256(first).digest()[0] % 2].append(line)
    return "\n".join(sides[0]) + "\n", "\n".join(sides[1]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the sets")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--choose", nargs="+", default=[], help="sets that something is chosen on")
    parser.add_argument("--judge", nargs="+", default=[], help="sets that are judged alone")
    options = parser.parse_args()
    for name in [*options.choose, *options.judge]:
        folder = options.out / name
        folder.mkdir(parents=True, exist_ok=True)
        chosen, judged = halves(options.data / name / "dev.tsv.zst")
        if name in options.choose:
            write_text(folder / "dev.tsv", chosen)
        else:
            judged += chosen.partition("\n")[2]
        write_text(folder / "test.tsv", judged)
        train, link = options.data / name / "train.tsv.zst", folder / "train.tsv.zst"
        if train.is_file() and not link.is_symlink():
            link.symlink_to(train.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
