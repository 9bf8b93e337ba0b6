"""Finished runs, and which columns could be added to their results now. Needs no torch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.atomic_write import KEPT_ASIDE
from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Kind
from juzhen.core.nodes import name_of
from juzhen.core.result import RESULT_FILE, STAGES, Result, weights_digest
from juzhen.core.schema import validated
from juzhen.data.readers import has_split
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.models.lexical import LEXICAL

Descriptions = dict[str, dict[str, Any]]
"""Dataset key → a DatasetConfig as plain containers."""


@dataclass(frozen=True)
class FinishedRun:
    """A folder that holds a result: that of a run, or of one stage of a curriculum."""

    folder: Path

    @property
    def run(self) -> Path:
        """The run folder that it belongs to, which is the one that is locked."""
        return self.folder.parent.parent if self.folder.parent.name == STAGES else self.folder

    @property
    def encoder(self) -> Path:
        return self.folder / ENCODER_FOLDER

    def earlier(self, index: int) -> "FinishedRun":
        """An earlier stage of the same curriculum. Raises UserError when it is gone."""
        folders = list((self.run / STAGES).glob(f"{index}-*"))
        if len(folders) != 1:
            raise UserError(f"{self.run}: the folder {STAGES}/{index}-… of an earlier stage is gone")
        return FinishedRun(folders[0])

    def require_weights(self, result: Result) -> str:
        """The digest of the encoder. Raises UserError when it is gone, or another one than was measured."""
        digest = weights_digest(self.encoder)
        if not digest:
            raise UserError(
                f"{self.folder}: its encoder is gone (no weights in {ENCODER_FOLDER}/); put it back, or "
                "train the run again from the start"
            )
        before = result.measured_weights or digest
        if digest != before:
            raise UserError(
                f"{self.folder}: the weights in {ENCODER_FOLDER}/ are not those that its result was measured with "
                f"(digest {digest}, then {before}); put them back, or train the run again from the start"
            )
        return digest


def load_start(result: Result) -> Any:
    """The encoder that a run has begun with, in evaluation mode: that of `init_from`, or its backbone as it was.

    Raises UserError where it is gone.
    """
    from juzhen.encoders import load_backbone
    from juzhen.families.registry import open_encoder

    if path := result.config.get("init_from"):
        return open_encoder(path)
    config = validated(BackboneConfig, result.config["backbone"], where="the backbone of the run")
    return load_backbone(config, seed=result.seed).eval()


def is_lexical(result: Result) -> bool:
    """Whether a result is of a lexical baseline, which has no encoder. Raises UserError for a foreign model."""
    model = result.config["model"]
    if not re.fullmatch(r"lightning_modules\.[a-z]\w*\.[A-Z]\w*", str(model["_target_"]), re.ASCII):
        raise UserError(f"{model['_target_']}: no class of juzhen's, and no other code is run for a result")
    return name_of(model) in LEXICAL


def finished_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Everything with a result below the folders, by path; superseded attempts are left out.

    Raises UserError for a folder that is not there, and when there is no result at all.
    """
    runs: dict[Path, FinishedRun] = {}
    for folder in folders:
        if not folder.is_dir():
            fault = "this is a file, not a folder" if folder.exists() else "no such folder"
            raise UserError(f"{folder}: {fault}; give runs, or one folder that holds them")
        for path in sorted(folder.rglob(RESULT_FILE)):
            if KEPT_ASIDE not in path.relative_to(folder).parts:
                runs.setdefault(path.parent.resolve(), FinishedRun(path.parent))
    if not runs:
        raise UserError(f"{', '.join(map(str, folders))}: no result.json of a run below")
    return list(runs.values())


def missing_sets(
    result: Result, named: Descriptions | None = None, *, data_dir: str | None = None, again: bool = False
) -> Descriptions:
    """The sets with a split that `result` has no score of and that can be read now.

    named     sets that are asked for besides those of the run, as they are described today
    data_dir  instead of the run's
    again     also splits that were scored: of the named sets, or of all where none is named

    Opens no file of rows.
    """
    named = named or {}
    scored = [key for key in result.data if not key.startswith("train/")]
    keys = [*result.absent, *(scored if again and not named else [])]
    described = {key: named.get(key.split("/")[1]) or result.described(key.split("/")[1]) for key in keys}
    for name in named:
        splits = [f"{split}/{name}" for split in result.config["evaluation"]["splits"]]
        described |= {key: named[name] for key in splits if again or key not in result.data}
    return _readable(result, described, data_dir)


def unchecked_sets(result: Result, *, data_dir: str | None = None) -> Descriptions:
    """The sets of pairs that were scored, but of which nobody has looked how many rows training has seen.

    data_dir  instead of the run's
    """
    if not result.trained_on:
        return {}
    described = {
        key: result.described(key.split("/")[1])
        for key, about in result.data.items()
        if not key.startswith("train/")
        and "leaked" not in about
        and len(TEXT_COLUMNS[Kind(about["kind"])]) > 1
    }
    return _readable(result, described, data_dir)


def _readable(
    result: Result, described: dict[str, dict[str, Any] | None], data_dir: str | None
) -> Descriptions:
    """By name those sets of `split/dataset` → description that have a file of the split."""
    where = {"source": result.config["source"], "data_dir": data_dir or result.config["data_dir"]}
    readable = {}
    for key, description in described.items():
        split, name = key.split("/")
        if description is not None and has_split(description, split, **where):
            readable[name] = description
    return readable
