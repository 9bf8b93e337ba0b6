"""Draws the rows of every built-in data set and writes them as tab-separated files."""

from collections.abc import Iterator
from pathlib import Path

from juzhen.core.places import BUILTIN
from juzhen.core.whole import write_text
from tools.synthetic.facts import Facts
from tools.synthetic.grammar import Draw, Generator, Row, fold
from tools.synthetic.questions import Questions
from tools.synthetic.roles import Roles
from tools.synthetic.scenes import Scenes

FOLDER = BUILTIN / "data"
HEADER: Row = ("sentence1", "sentence2", "label")
SIZES = {"train": 4000, "dev": 600, "test": 600}  # rounded to whole proposals of a generator
MOST_PROPOSALS = 20_000  # a wish that needs more cannot be met: the lexicon is too small

Rows = dict[tuple[str, str], list[Row]]
"""(data set, split) → rows"""


class Admission:
    """Remembers what was written, over all data sets: no sentence in two splits, no pair twice."""

    def __init__(self) -> None:
        self._split_of_sentence: dict[str, str] = {}
        self._pairs: set[tuple[str, frozenset[str]]] = set()

    def admits(self, name: str, split: str, rows: list[Row]) -> bool:
        """True, and remembered, when all rows are new and none of their sentences is in another split."""
        pairs = {(name, frozenset((fold(first), fold(second)))) for first, second, _ in rows}
        sentences = {sentence for _, pair in pairs for sentence in pair}
        if (
            len(pairs) < len(rows)
            or pairs & self._pairs
            or any(len(pair) == 1 for _, pair in pairs)
            or any(self._split_of_sentence.get(sentence, split) != split for sentence in sentences)
        ):
            return False
        self._pairs |= pairs
        self._split_of_sentence.update(dict.fromkeys(sentences, split))
        return True


def generate() -> Rows:
    """The rows of all data sets and splits; the same on every call."""
    admission = Admission()
    generators: list[Generator] = [Scenes(), Questions(), Roles(), Facts()]
    return {
        (generator.name, split): _rows(generator, split, size, admission)
        for split, size in SIZES.items()
        for generator in generators
    }


def _rows(generator: Generator, split: str, size: int, admission: Admission) -> list[Row]:
    """About `size` rows of one split, each wish in turn, in random order."""
    draw = Draw(f"juzhen {generator.name} {split}")
    rows: list[Row] = []
    for turn in range(round(size / generator.rows_per_wish)):
        wish = generator.wishes[turn % len(generator.wishes)]
        for _ in range(MOST_PROPOSALS):
            proposal = generator.propose(wish, split, draw)
            if proposal and admission.admits(generator.name, split, proposal):
                rows += proposal
                break
        else:
            raise RuntimeError(
                f"{generator.name}/{split}: no new row of kind {wish!r} after {len(rows)} rows"
            )
    return draw.order(rows)


def write(rows: Rows, folder: Path) -> Iterator[tuple[Path, int]]:
    """Writes `<folder>/<set>/<split>.tsv` and gives each path and its rows. Old files are replaced whole."""
    for (name, split), table in rows.items():
        path = folder / name / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join("\t".join(row) + "\n" for row in [HEADER, *table])
        write_text(path, text, in_own_folder=folder == FOLDER)
        yield path, len(table)
