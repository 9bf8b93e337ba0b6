"""Published figures with source and standing (see published/README.md).

Files of a reader may use our names or those of the source.
"""

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
"""Measured by the source · stated without evidence, or as a target · attributed to a paper that lacks it."""


@dataclass(frozen=True)
class Published:
    """One figure of one source, with its names translated into ours.

    Attributes:
        setup: Setup in the words of the source.
        trained_on: As in juzhen.report.training.Training, or "" if the training sets have no equivalent here.
        split: Split, or "" if the source does not name it.
        dataset: Set, or "" if nothing here scores the same.
        percent: The figure, ×100 if `unit` is percent.
        family: As in juzhen.report.training.Training.
        loss: As in juzhen.report.training.Training, or "" if the source does not name it.
        supervision: "none" if the source excludes labels, or "" if it does not name it.
        standing: One of STANDINGS. Only measurements are references.
        or_trained_on: Another training, if the source contradicts itself.
        bound: "at least", "at most", "about", or "to 87" for a range. "" for a plain figure.
        named: Paper or leaderboard that the source names.
        note: A note for the reader.
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
"""Required columns of a file with the source's names. table, model, backbone and loss are optional."""

SPLIT_ENDINGS = ("dev", "test")
SAME_SET = {"bqcorpus": "bq", "pawsx": "pawsx_zh", "allnlizh": "allnli_zh", "pku-paraphrase": "pkuparaph"}


@dataclass(frozen=True)
class Reference:
    """Published numbers.

    Attributes:
        numbers: All numbers.
        unknown: Names of the source without an equivalent here, to show to the reader.
    """

    numbers: list[Published]
    unknown: list[str]


def figure(source: str, line: Mapping[str, str]) -> Published:
    """Read a line of a file. Missing and empty columns have defaults.

    Args:
        source: Name of the source.
        line: Column → text.

    Returns:
        The figure.

    Raises:
        ValueError: A value is wrong.
    """
    values: dict[str, Any] = {name: line[name] for name in REQUIRED} | {
        name: line[name] for name in OPTIONAL if line.get(name)
    }
    if values.get("standing", MEASURED) not in STANDINGS:
        raise ValueError(f"standing={short(values['standing'])}: unknown. Use one of {', '.join(STANDINGS)}")
    if not math.isfinite(percent := float(line["percent"])):
        raise ValueError(f"percent={short(line['percent'])}: not a finite number. Use one such as 71.5")
    return Published(**{"source": source, **values, "percent": percent})


def load_published() -> list[Published]:
    """Read every included figure, source by source: measurements, claims and targets."""
    return [
        figure(path.stem, line) for path in sorted(PUBLISHED.glob("*.csv")) for _, line in csv_rows(path)[1]
    ]


def load_reference(folder: Path | None) -> Reference:
    """Read the published numbers of a folder.

    A file with our names has our columns. Missing ones have the defaults of `Published`. In a file with the names of a
    source, `eval_set` may end in _dev or _test. `model` is translated if the included files have the same table and
    model, or if it joins known sets by hyphens, newest first. Names without a translation are kept and shown, but never
    compared.

    Args:
        folder: Folder with CSV files. None takes the included ones.

    Returns:
        Numbers, and names without a translation.

    Raises:
        UserError: A folder or file cannot be read.
    """
    if folder is None:
        return Reference(load_published(), [])
    expected = ", ".join(REQUIRED)
    if not folder.is_dir():
        raise UserError(
            f"--reference {folder}: no such folder. Give one with CSV files like {PUBLISHED.name}/*.csv"
        )
    if not (paths := sorted(folder.glob("*.csv"))):
        raise UserError(f"--reference {folder}: no CSV file. Give one with the columns {expected}")
    translator = _Translator(load_published())
    numbers = []
    for path in paths:
        columns, records = csv_rows(path)
        is_ours = {*columns} >= {*REQUIRED}
        if not is_ours and not {*columns} >= {*THEIR_COLUMNS}:
            raise UserError(
                f"{path}: columns {short(', '.join(sorted(columns)) or 'none', 200)}. Use {expected}, "
                f"or at least {', '.join(THEIR_COLUMNS)}"
            )
        for number, line in records:
            try:
                numbers.append(figure(path.stem, line if is_ours else line | translator.translate(line)))
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}") from None
    return Reference(numbers, sorted(translator.unknown))


class _Translator:
    """Translates names of a source, and collects those without a translation."""

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
