"""Published figures: what each says, how it stands, and where it is kept (see published/README.md)."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from juzhen.core.numerals import as_number
from juzhen.core.texts import short

PUBLISHED = Path(__file__).parent / "published"

MEASURED, CLAIM, NOT_IN_THE_PAPER = "measured", "claim", "not in the paper named"
STANDINGS = (MEASURED, CLAIM, NOT_IN_THE_PAPER)
"""A source's own measurement · stated without evidence, or as a target · given as a paper's, which does not have it."""


@dataclass(frozen=True)
class Published:
    """One figure of one source, with its names translated into ours.

    setup          in the source's own words
    trained_on     as in juzhen.report.training.Training; empty where the source's training sets have no equal here
    split          empty where the source does not say
    dataset        empty where nothing here scores what the source did
    percent        the figure; ×100 where `unit` is percent
    family, loss   as in juzhen.report.training.Training; loss is empty where the source does not say
    supervision    "none" where the source says that no labels were learnt from; empty where it does not say
    standing       one of STANDINGS; only what is measured is ever a reference
    or_trained_on  another training, where the source says two things
    bound          "at least", "at most", "about", or "to 87" for a range; empty for a plain figure
    named          the paper or the board that the source gives for it
    note           what a reader should know
    """

    source: str
    table: str
    model: str
    setup: str
    trained_on: str
    split: str
    dataset: str
    metric: str
    percent: float
    family: str = "biencoder"
    loss: str = ""
    supervision: str = ""
    standing: str = MEASURED
    or_trained_on: str = ""
    unit: str = "percent"
    bound: str = ""
    named: str = ""
    note: str = ""

    @property
    def trainings(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.trained_on, self.or_trained_on)))

    @property
    def table_and_model(self) -> str:
        return ", ".join(filter(None, (self.table, self.model)))

    @property
    def place(self) -> str:
        return f"{self.source}: {self.table_and_model}"


REQUIRED = ("table", "model", "setup", "trained_on", "split", "dataset", "metric", "percent")
OPTIONAL = tuple(one.name for one in fields(Published) if one.name not in (*REQUIRED, "source"))


def figure(source: str, line: Mapping[str, str]) -> Published:
    """A line of a file; a column that is not there, or is empty, has its default. Raises ValueError for a bad value."""
    given = {name: line[name] for name in OPTIONAL if line.get(name)}
    if given.get("standing", MEASURED) not in STANDINGS:
        raise ValueError(
            f"standing is {short(given['standing'])!r}; one of {', '.join(STANDINGS)} is expected"
        )
    try:
        percent = as_number(line["percent"])
    except ValueError:
        percent = math.nan
    if not math.isfinite(percent):
        raise ValueError(f"percent is {short(line['percent'])!r}; a number is expected")
    required = {name: line[name] for name in REQUIRED if name != "percent"}
    return Published(source=source, **required, percent=percent, **given)


def load_published() -> list[Published]:
    """Every figure on file, source by source: measurements, claims and targets."""
    numbers = []
    for path in sorted(PUBLISHED.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            numbers += [figure(path.stem, line) for line in csv.DictReader(file)]
    return numbers
