"""Score the pairs of a file: one more column with the cosine of each, and the rows that are closest.

    python examples/score_file.py
    python examples/score_file.py pairs.csv --columns question other --encoder runs/NAME

From the shell: juzhen score builtin/mini_zh --file pairs.csv --columns question other
"""

import argparse
import csv
import sys
from pathlib import Path

from juzhen import SentenceEncoder
from juzhen.cli.program import run_program
from juzhen.core.paths import BUILTIN
from juzhen.data.tables import AS_IT_LOOKS, column_place, column_values, good_texts, names_of, read_own_table


def main() -> None:
    parser = argparse.ArgumentParser(description="Adds the cosine of each pair of a file as a column.")
    parser.add_argument("file", type=Path, nargs="?", default=BUILTIN / "data" / "demo_sts" / "test.tsv")
    parser.add_argument("--columns", nargs=2, default=("sentence1", "sentence2"), metavar="NAME")
    parser.add_argument(
        "--encoder", default="builtin/mini_zh", help="a run, a folder, a built-in name or a hub id"
    )
    parser.add_argument("--out", type=Path, default=Path("scored.tsv"))
    options = parser.parse_args()

    first, second = options.columns
    table = read_own_table(options.file)
    places = [
        column_place(table, first, "text_a", AS_IT_LOOKS),
        column_place(table, second, "text_b", AS_IT_LOOKS),
    ]
    numbers, _ = good_texts(table, places, AS_IT_LOOKS)
    cells = zip(*(column_values(table, place) for place in range(len(table.columns))), strict=True)
    rows = [dict(zip(names_of(table), row, strict=True)) for row in cells]
    rows = [rows[number] for number in numbers]
    first, second = (names_of(table)[place] for place in places)
    encoder = SentenceEncoder.load(options.encoder)
    scores = encoder.score([(row[first], row[second]) for row in rows])

    with open(options.out, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "cosine"], delimiter="\t")
        writer.writeheader()
        writer.writerows(row | {"cosine": f"{score:.4f}"} for row, score in zip(rows, scores, strict=True))
    for place in scores.argsort()[::-1][:3]:
        print(f"{scores[place]:.3f}  {rows[place][first]}  |  {rows[place][second]}")
    print(f"{len(rows)} pairs written to {options.out}")


if __name__ == "__main__":
    sys.exit(run_program(main))
