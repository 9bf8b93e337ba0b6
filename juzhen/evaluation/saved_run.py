"""Saved runs: their encoders, columns that could be added to their results, and their training rows. Needs no torch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from juzhen.core.atomic_write import KEPT_ASIDE
from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.core.paths import files_below
from juzhen.core.result import RESULT_FILE, STAGES, Result, weights_digest
from juzhen.core.schema import validated
from juzhen.data.loading import load_job_data
from juzhen.data.readers import has_split
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.models.settings import LEXICAL, name_of

Descriptions = dict[str, dict[str, Any]]
"""Dataset key → a DatasetConfig as plain containers."""


@dataclass(frozen=True)
class SavedRun:
    """Folder with the result of a run, or of one stage of a curriculum.

    Args:
        folder: The folder.
    """

    folder: Path

    @property
    def run(self) -> Path:
        """The run folder that it belongs to. The lock is on this folder."""
        return self.folder.parent.parent if self.folder.parent.name == STAGES else self.folder

    @property
    def encoder(self) -> Path:
        return self.folder / ENCODER_FOLDER

    def earlier(self, index: int) -> "SavedRun":
        """Return an earlier stage of the same curriculum.

        Args:
            index: Position of the stage, as its folder `stages/INDEX-NAME` has it.

        Returns:
            The run in the folder of that stage.

        Raises:
            UserError: The folder is gone.
        """
        folders = list((self.run / STAGES).glob(f"{index}-*"))
        if len(folders) != 1:
            raise UserError(f"{self.run}: the folder {STAGES}/{index}-… of an earlier stage is gone")
        return SavedRun(folders[0])

    def require_weights(self, result: Result) -> str:
        """Return the digest of the saved encoder.

        Args:
            result: Result of the run, with the digest of the measured weights.

        Returns:
            Hexadecimal digest.

        Raises:
            UserError: The weights are gone, or differ from the measured ones.
        """
        digest = weights_digest(self.encoder)
        if not digest:
            raise UserError(
                f"{self.folder}: its encoder is gone (no weights in {ENCODER_FOLDER}/). Put it back, or "
                "train the run again from the start"
            )
        before = result.measured_weights or digest
        if digest != before:
            raise UserError(
                f"{self.folder}: the weights in {ENCODER_FOLDER}/ differ from those of its result "
                f"(digest {digest}, then {before}). Put them back, or train the run again from the start"
            )
        return digest


def load_start(result: Result) -> Any:
    """Load the initial encoder of a run in evaluation mode: that of `init_from`, or its backbone.

    Args:
        result: Its configuration names the start.

    Returns:
        An encoder of the run's family. New weights are drawn with the seed of the run.

    Raises:
        UserError: The start is gone.
    """
    from juzhen.encoders import load_backbone
    from juzhen.families.registry import open_encoder

    if path := result.config.get("init_from"):
        return open_encoder(path)
    config = validated(BackboneConfig, result.config["backbone"], where="the backbone of the run")
    return load_backbone(config, seed=result.seed).eval()


def is_lexical(result: Result) -> bool:
    """True for the result of a lexical baseline, which has no encoder.

    Args:
        result: Its configuration names the class of the model.

    Returns:
        True for TF-IDF, word overlap and BM25.

    Raises:
        UserError: A class that is not one of juzhen.
    """
    model = result.config["model"]
    if not re.fullmatch(r"lightning_modules\.[a-z]\w*\.[A-Z]\w*", str(model["_target_"]), re.ASCII):
        raise UserError(f"{model['_target_']}: no class of juzhen's, and no other code is run for a result")
    return name_of(model) in LEXICAL


def saved_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """List the runs below the folders by path, without superseded attempts.

    Args:
        folders: Folders of runs, or folders with runs at any depth.

    Returns:
        Each run once, also if two folders contain it.

    Raises:
        UserError: A folder is missing, or there is no result below any of them.
    """
    runs: dict[Path, SavedRun] = {}
    for folder in folders:
        if not folder.is_dir():
            fault = "this is a file, not a folder" if folder.exists() else "no such folder"
            raise UserError(f"{folder}: {fault}. Give runs, or one folder that holds them")
        for path in files_below(folder, RESULT_FILE):
            if KEPT_ASIDE not in path.relative_to(folder).parts:
                runs.setdefault(path.parent.resolve(), SavedRun(path.parent))
    if not runs:
        raise UserError(
            f"{', '.join(map(str, folders))}: no result.json below. Give the folder of a finished run"
        )
    return list(runs.values())


def missing_sets(
    result: Result, named: Descriptions | None = None, *, data_dir: str | None = None, again: bool = False
) -> Descriptions:
    """Find sets with a readable split without a score. Opens no file of rows.

    Args:
        result: Result of the run.
        named: Sets to score besides those of the run, with their current descriptions.
        data_dir: Folder of the sets. None: that of the run.
        again: Also splits with scores: of the named sets, or of all if none is named.

    Returns:
        `split/dataset` → description.
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
    """Find sets of pairs with scores, but without a count of the rows that training has seen.

    Args:
        result: Result of the run.
        data_dir: Folder of the sets. None: that of the run.

    Returns:
        `split/dataset` → description. Empty without training.
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
    """Sets with a file of the split, by name, from `split/dataset` → description."""
    where = {"source": result.config["source"], "data_dir": data_dir or result.config["data_dir"]}
    readable = {}
    for key, description in described.items():
        split, name = key.split("/")
        if description is not None and has_split(description, split, **where):
            readable[name] = description
    return readable


def trained_rows(
    settings: EvaluationSettings, result: Result, unscored: Mapping[Kind, str]
) -> dict[str, Examples]:
    """Read the training rows of the stage of a result, after conversion and limit.

    Args:
        settings: Its evaluation sets decide which rows `filter_leaks` drops.
        result: Result of the stage.
        unscored: Kinds of sets without a metric, and the reason. Kinds that the result has scored are left out.

    Returns:
        Name of a set → rows.

    Raises:
        UserError: The rows differ from those of the training.
    """
    kinds, scored = {}, set()
    for key, about in result.data.items():
        split, name = key.split("/")
        if split == "train":
            kinds[name] = Kind(about["kind"])
        else:
            scored.add(about["kind"])
    all_sets = {**settings.evaluate, **settings.dataset}
    job = replace(settings, dataset={name: settings.dataset[name] for name in kinds}, evaluate=all_sets)
    # A model that hides words has a measure of texts too: which kinds were scored, the result says itself.
    unscored = {kind: reason for kind, reason in unscored.items() if kind not in scored}
    read = load_job_data(job, kinds, unscored=unscored).train
    for name, examples in read.items():
        _require_same(examples, result.data[f"train/{name}"], data_dir=settings.data_dir)
    return read


def _require_same(examples: Examples, then: Mapping[str, Any], *, data_dir: str) -> None:
    name = examples.name
    if examples.fingerprint != then["fingerprint"]:
        raise UserError(
            f"{name}/train below {data_dir} holds other rows than the run was trained on. Point data_dir at the "
            "same files"
        )
    if (examples.num_leaky, len(examples)) != (then.get("leaky"), then["rows"]):
        raise UserError(
            f"filter_leaks=true: {examples.num_leaky:,} rows of {name}/train are leaks of these sets, and the run "
            f"left out only {then.get('leaky') or 0:,}. Train it again with these sets in its benchmark"
        )


def texts_of_run(run: str | Path, *, data_dir: Path | None) -> dict[str, list[str]]:
    """Read the training texts of a finished run that learns from text alone, with its filter applied again.

    Args:
        run: Folder of the run.
        data_dir: Folder of the sets. None: that of the run.

    Returns:
        Name of a set → texts.

    Raises:
        UserError: The run has learnt from pairs, or the files have changed.
    """
    result = Result.read(run)
    kinds = {rows["kind"] for key, rows in result.data.items() if key.startswith("train/")}
    if kinds != {Kind.SENTENCE}:
        raise UserError(f"run={run}: was not trained on running text. Type train=<set> for sets of pairs")
    job = EvaluationSettings.of(result.config)
    job.data_dir = str(data_dir or job.data_dir)
    job.evaluation.transfer = []
    read = trained_rows(job, result, dict.fromkeys(Kind, ""))
    return {name: examples.texts("text") for name, examples in read.items()}
