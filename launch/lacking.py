"""Finished runs, and what their results lack that could be scored now. Needs no torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Kind
from juzhen.core.result import RESULT_FILE, Result
from juzhen.core.whole import KEPT_ASIDE
from juzhen.data.files import has_split
from launch.own_folder import STAGES

Described = dict[str, dict[str, Any]]
"""Dataset key → a DatasetConfig as plain containers."""


@dataclass(frozen=True)
class FinishedStage:
    """A folder that holds a result, and the run folder that it belongs to, which is the one that is locked."""

    folder: Path

    @property
    def run(self) -> Path:
        return self.folder.parent.parent if self.folder.parent.name == STAGES else self.folder

    def earlier(self, index: int) -> Path:
        """The folder of an earlier stage of the same curriculum. Raises UserError when it is gone."""
        found = list((self.run / STAGES).glob(f"{index}-*"))
        if len(found) != 1:
            raise UserError(f"{self.run}: the folder {STAGES}/{index}-… of an earlier stage is gone")
        return found[0]


def finished_stages(folders: Sequence[Path]) -> list[FinishedStage]:
    """Every stage with a result below the folders, by path; superseded attempts are left out.

    Raises UserError for a folder that is not there, and when there is no result at all.
    """
    found: dict[Path, FinishedStage] = {}
    for folder in folders:
        if not folder.is_dir():
            what = "this is a file, not a folder" if folder.exists() else "no such folder"
            raise UserError(f"{folder}: {what}; give runs, or one folder that holds them")
        for path in sorted(folder.rglob(RESULT_FILE)):
            if KEPT_ASIDE not in path.relative_to(folder).parts:
                found.setdefault(path.parent.resolve(), FinishedStage(path.parent))
    if not found:
        raise UserError(
            f"{', '.join(map(str, folders))}: no result below; train.py leaves one in each run folder"
        )
    return list(found.values())


def fillable(result: Result, named: Described, *, data_dir: str | None, again: bool) -> Described:
    """The sets with a split that `result` has no score of and that can be read now.

    named     sets that are asked for besides those of the run, as they are described today
    data_dir  instead of the run's
    again     also splits that were scored: of the named sets, or of all where none is named

    Opens no file of rows.
    """
    return {
        name: described
        for split, name, described in _candidates(result, named, again=again)
        if has_split(
            described, split, source=result.config["source"], data_dir=data_dir or result.config["data_dir"]
        )
    }


def uncounted(result: Result, *, data_dir: str | None) -> Described:
    """The sets of pairs that were scored, but of which nobody has looked how many rows training has seen.

    data_dir  instead of the run's
    """
    if not result.trained_on:
        return {}
    found = {}
    for key, about in result.data.items():
        split, name = key.split("/")
        described = result.described(name)
        is_pairs = len(TEXT_COLUMNS[Kind(about["kind"])]) > 1
        if split == "train" or "leaked" in about or not is_pairs or described is None:
            continue
        if has_split(
            described, split, source=result.config["source"], data_dir=data_dir or result.config["data_dir"]
        ):
            found[name] = described
    return found


def _candidates(
    result: Result, named: Described, *, again: bool
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    known = list(result.absent)
    if again and not named:
        known += [key for key in result.data if not key.startswith("train/")]
    for key in known:
        split, name = key.split("/")
        described = named.get(name) or result.described(name)
        if described is not None:
            yield split, name, described
    for name, described in named.items():
        for split in result.config["evaluation"]["splits"]:
            if again or f"{split}/{name}" not in result.data:
                yield split, name, described
