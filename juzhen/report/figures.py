"""Published figures: what each says, how it stands, and where it is kept (see published/README.md); those of a folder,
in our names or in the source's own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.safe_open import csv_rows
from juzhen.core.text import short
from juzhen.report.training import set_names

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
OPTIONAL = tuple(field.name for field in fields(Published) if field.name not in (*REQUIRED, "source"))

THEIR_COLUMNS = ("eval_set", "metric", "percent")
"""At least, of a file in the source's names; table, model, backbone and loss may be there too."""

SPLIT_ENDINGS = ("dev", "test")
SAME_SET = {"bqcorpus": "bq", "pawsx": "pawsx_zh", "allnlizh": "allnli_zh", "pku-paraphrase": "pkuparaph"}


@dataclass(frozen=True)
class Reference:
    """numbers: all of them; unknown: names of the source that have no equal here, for the reader to see."""

    numbers: list[Published]
    unknown: list[str]


def figure(source: str, line: Mapping[str, str]) -> Published:
    """A line of a file; a column that is not there, or is empty, has its default. Raises ValueError for a bad value."""
    values: dict[str, Any] = {name: line[name] for name in REQUIRED} | {
        name: line[name] for name in OPTIONAL if line.get(name)
    }
    if values.get("standing", MEASURED) not in STANDINGS:
        raise ValueError(
            f"standing is {short(values['standing'])!r}; one of {', '.join(STANDINGS)} is expected"
        )
    if not math.isfinite(percent := float(line["percent"])):
        raise ValueError(f"percent is {short(line['percent'])!r}; a finite number is expected")
    return Published(**{"source": source, **values, "percent": percent})


def load_published() -> list[Published]:
    """Every figure on file, source by source: measurements, claims and targets."""
    return [
        figure(path.stem, line) for path in sorted(PUBLISHED.glob("*.csv")) for _, line in csv_rows(path)[1]
    ]


def load_reference(folder: Path | None) -> Reference:
    """Every CSV below `folder`; None: those that are shipped.

    A file in our names has the columns of those; one that it leaves out (family, loss, standing, …) has
    the default of `Published`, and so it has in another file. There `eval_set` may end in _dev or _test, and
    `model` is translated where the shipped files know it (same table and model), or where it joins known sets by
    hyphens, newest first. What cannot be translated is kept, named, and never compared.
    """
    if folder is None:
        return Reference(load_published(), [])
    expected = ", ".join(REQUIRED)
    if not folder.is_dir():
        raise UserError(
            f"--reference {folder}: no such folder; give one with CSV files like {PUBLISHED.name}/*.csv"
        )
    if not (paths := sorted(folder.glob("*.csv"))):
        raise UserError(f"--reference {folder}: no CSV file in it; columns {expected} are expected")
    translator = _Translator(load_published())
    numbers = []
    for path in paths:
        columns, records = csv_rows(path)
        is_ours = {*columns} >= {*REQUIRED}
        if not is_ours and not {*columns} >= {*THEIR_COLUMNS}:
            raise UserError(
                f"{path}: columns {short(', '.join(sorted(columns)) or 'none', 200)}; expected {expected}, "
                f"or at least {', '.join(THEIR_COLUMNS)}"
            )
        for number, line in records:
            try:
                numbers.append(figure(path.stem, line if is_ours else line | translator.translate(line)))
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}") from None
    return Reference(numbers, sorted(translator.unknown))


class _Translator:
    """A source's names into ours; remembers the ones it could not translate."""

    def __init__(self, shipped: Sequence[Published]) -> None:
        self._models = {(number.table, number.model): number for number in shipped if number.trained_on}
        self._columns = {(number.table, number.dataset, number.split) for number in shipped}
        self._sets = {number.dataset for number in shipped if number.dataset}
        self._sets |= {name for number in shipped for name in set_names(number.trained_on)}
        self.unknown: set[str] = set()

    def translate(self, line: Mapping[str, str]) -> dict[str, str]:
        table, model, name = line.get("table") or "", line.get("model") or "", line["eval_set"]
        setup = [line[key] for key in ("backbone", "loss") if line.get(key)]
        stem, _, ending = name.rpartition("_")
        split, stem = (ending, stem) if ending in SPLIT_ENDINGS and stem else ("", name)
        dataset = SAME_SET.get(stem, stem)
        if dataset not in self._sets:
            self.unknown.add(name)
        elif not split:
            # Where the name does not say the split, a shipped table of the same name may; else it is "".
            splits = [column[2] for column in self._columns if column[:2] == (table, dataset)]
            split = splits[0] if len(splits) == 1 else ""
            self.unknown |= set() if split else {f"{name} (its split is not stated)"}
        return {
            "table": table,
            "model": model or " ".join(setup),
            "setup": ", ".join(setup) or "not stated",
            **self._trained(table, model),
            "split": split,
            "dataset": dataset,
            "metric": line["metric"],
        }

    def _trained(self, table: str, model: str) -> dict[str, str]:
        if shipped := self._models.get((table, model)):
            return {
                name: getattr(shipped, name) for name in ("trained_on", "or_trained_on", "family", "loss")
            }
        stages = [SAME_SET.get(name, name) for name in reversed(model.split("-"))]
        is_known = {*stages} <= self._sets
        self.unknown |= {model} if model and not is_known else set()
        return {"trained_on": ">".join(stages) if is_known else ""}
