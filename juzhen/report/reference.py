"""Published numbers of a folder, in our names or in the source's own."""

from dataclasses import dataclass
from pathlib import Path

from juzhen.core.csv_rows import csv_rows
from juzhen.core.errors import UserError
from juzhen.core.texts import short
from juzhen.report.figures import PUBLISHED, Published, figure, load_published
from juzhen.report.figures import REQUIRED as OUR_COLUMNS
from juzhen.report.training import set_names

THEIR_COLUMNS = ("eval_set", "metric", "percent")
"""At least; table, model, backbone and loss may be there too."""

SPLIT_ENDINGS = ("dev", "test")
SAME_SET = {"bqcorpus": "bq", "pawsx": "pawsx_zh", "allnlizh": "allnli_zh", "pku-paraphrase": "pkuparaph"}


@dataclass(frozen=True)
class Reference:
    """numbers: all of them; unknown: names of the source that have no equal here, for the reader to see."""

    numbers: list[Published]
    unknown: list[str]


def load_reference(folder: Path | None) -> Reference:
    """Every CSV below `folder`; None: those that are shipped.

    A file in our names has the columns of juzhen/report/published; one that it leaves out (family, loss, standing, …) has the
    default of `Published`, and so it has in another file. There `eval_set` may end in _dev or _test, and
    `model` is translated where the shipped files know it (same table and model), or where it joins known sets by
    hyphens, newest first. What cannot be translated is kept, named, and never compared.
    """
    if folder is None:
        return Reference(load_published(), [])
    if not folder.is_dir():
        raise UserError(
            f"--reference {folder}: no such folder; give one with CSV files like {PUBLISHED.name}/*.csv"
        )
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise UserError(
            f"--reference {folder}: no CSV file in it; columns {', '.join(OUR_COLUMNS)} are expected"
        )
    translator = _Translator(load_published())
    numbers = [number for path in paths for number in _read(path, translator)]
    return Reference(numbers, sorted(translator.unknown))


def _read(path: Path, translator: "_Translator") -> list[Published]:
    names, rows = csv_rows(path)
    columns = set(names)
    ours = columns >= set(OUR_COLUMNS)
    if not ours and not columns >= set(THEIR_COLUMNS):
        raise UserError(
            f"{path}: columns {short(', '.join(sorted(columns)) or 'none', 200)}; expected {', '.join(OUR_COLUMNS)}, "
            f"or at least {', '.join(THEIR_COLUMNS)}"
        )
    found = []
    for number, line in rows:
        try:
            found.append(figure(path.stem, line if ours else line | translator.translate(line)))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return found


class _Translator:
    """A source's names into ours; remembers the ones it could not translate."""

    def __init__(self, shipped: list[Published]) -> None:
        self._models = {(one.table, one.model): one for one in shipped if one.trained_on}
        self._splits: dict[tuple[str, str], set[str]] = {}
        for one in shipped:
            self._splits.setdefault((one.table, one.dataset), set()).add(one.split)
        self._sets = {one.dataset for one in shipped if one.dataset}
        self._sets |= {name for one in shipped for name in set_names(one.trained_on)}
        self.unknown: set[str] = set()

    def translate(self, line: dict[str, str]) -> dict[str, str]:
        split, dataset = self._evaluated(line["eval_set"], line.get("table") or "")
        model = line.get("model") or " ".join(line[key] for key in ("backbone", "loss") if line.get(key))
        setup = ", ".join(line[key] for key in ("backbone", "loss") if line.get(key)) or "not stated"
        return {
            "table": line.get("table") or "",
            "model": model,
            "setup": setup,
            **self._trained(line.get("table") or "", line.get("model") or ""),
            "split": split,
            "dataset": dataset,
            "metric": line["metric"],
        }

    def _evaluated(self, name: str, table: str) -> tuple[str, str]:
        """Split and set. Where the name does not say the split, a shipped table of the same name may; else it is ""."""
        stem, _, ending = name.rpartition("_")
        split, stem = (ending, stem) if ending in SPLIT_ENDINGS and stem else ("", name)
        dataset = SAME_SET.get(stem, stem)
        if dataset not in self._sets:
            self.unknown.add(name)
        elif not split:
            known = self._splits.get((table, dataset), set())
            split = next(iter(known)) if len(known) == 1 else ""
            if not split:
                self.unknown.add(f"{name} (its split is not stated)")
        return split, dataset

    def _trained(self, table: str, model: str) -> dict[str, str]:
        if (table, model) in self._models:
            known = self._models[table, model]
            return {name: getattr(known, name) for name in ("trained_on", "or_trained_on", "family", "loss")}
        stages = [SAME_SET.get(one, one) for one in reversed(model.split("-"))]
        if model and all(one in self._sets for one in stages):
            return {"trained_on": ">".join(stages)}
        if model:
            self.unknown.add(model)
        return {"trained_on": ""}
