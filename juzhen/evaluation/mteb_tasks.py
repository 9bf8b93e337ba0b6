"""Tasks of the package mteb: an encoder as it takes one, and tasks whose rows are local files."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import torch
from datasets import Dataset, DatasetDict
from mteb.models.model_meta import ModelMeta, ScoringFunction
from typing_extensions import TypedDict

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import NLI_CLASSES, Examples, Kind, Side
from juzhen.core.file_guard import check_overwritable
from juzhen.core.machine import hub_problem
from juzhen.core.safe_open import read_shaped
from juzhen.data.rows import ConfiguredSets
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.sentence_encoder import SentenceEncoder

LOCAL_SETS = {
    "AFQMC": "afqmc",
    "ATEC": "atec",
    "BQ": "bq",
    "LCQMC": "lcqmc",
    "PAWSX": "pawsx_zh",
    "STSB": "csts",
    "QBQTC": "qbqtc",
    "Ocnli": "ocnli",
    "Cmnli": "cmnli",
    "TNews": "tnews",
}
"""Task → the set of conf/dataset that has its rows."""

SPLITS = {"dev": "validation", "test": "test"}
"""Names of the splits in mteb."""

SIDES = {None: Side.EVERY, "query": Side.QUERY, "document": Side.DOCUMENT}


HUB = "hub"
"""Rows of a task that are not those of a local file."""


class Recorded(TypedDict, total=False):
    rows: dict[str, str]


class TaskFile(TypedDict, total=False):
    scores: dict[str, Any]
    juzhen: Recorded


class RunEncoder:
    """An encoder for mteb's evaluators, with the prompt of each side and the encoder's score.

    A text has the same vector in two successive calls, such as those of the two columns of pairs. Pairs of
    equal texts therefore tie. Without this, the rounding of batches would order them (72 of 2,000 pairs of
    PAWSX).

    Args:
        encoder: The encoder to score.
        name: Its name in mteb.
        weights: Digest of its weights. Together with a digest of its settings it is the revision, so that
            scores with other prompts, lengths or poolings have separate files.
        truncate_dim: Keep the first dimensions only, and add their number to the name. None keeps all.
    """

    def __init__(
        self, encoder: SentenceEncoder, name: str, weights: str, *, truncate_dim: int | None, **options: Any
    ):
        self._encoder, self._options = encoder, {**options, "truncate_dim": truncate_dim}
        size = encoder.size_of(truncate_dim)
        self.settings = {
            "truncate_dim": None if size == encoder.dim else size,
            "prompts": dict(encoder.prompts.texts),
            "max_length": encoder.max_length,
            "pooling": encoder.pooling,
            "normalize": encoder.normalize,
            "weights": weights,
        }
        """Settings that change the scores, for the result files."""
        digests = [encoder_digest(encoder.reading(side), "mteb") for side in SIDES.values()]
        revision = f"{weights}-{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:8]}"
        name = name if size == encoder.dim else f"{name}-truncate_dim={size}"
        self._before: tuple[Side, dict[str, np.ndarray]] = Side.EVERY, {}
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"juzhen/{name}",
                "revision": revision,
                "embed_dim": size,
                "max_tokens": encoder.max_length,
                "n_parameters": sum(weight.numel() for weight in encoder.parameters()),
                "similarity_fn_name": ScoringFunction.COSINE if encoder.score_head is None else None,
                "use_instructions": bool(encoder.prompts.texts),
                "framework": ["PyTorch"],
            }
        )

    def encode(self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: Any = None, **_: Any) -> np.ndarray:
        """Encode texts for mteb.

        Args:
            inputs: Batches with the texts under "text".
            prompt_type: Side of mteb: "query", "document" or None, as text or enumeration.

        Returns:
            float64 (texts, dim).
        """
        texts = [text for batch in inputs for text in batch["text"]]
        side = SIDES[getattr(prompt_type, "value", prompt_type)]
        vectors = self._before[1] if self._before[0] is side else {}
        if fresh := [text for text in dict.fromkeys(texts) if text not in vectors]:
            encoded = self._encoder.reading(side).encode(fresh, **self._options)
            vectors = vectors | dict(zip(fresh, encoded, strict=True))
        self._before = side, {text: vectors[text] for text in texts}
        # In float32 sklearn's paired cosine makes ties of close scores.
        return np.stack([vectors[text] for text in texts]).astype(np.float64)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Score all pairs of two sides.

        Args:
            embeddings1: (rows, dim).
            embeddings2: (columns, dim).

        Returns:
            (rows, columns): the encoder's score.
        """
        options = {"truncate_dim": self._options["truncate_dim"]}
        return torch.as_tensor(
            self._encoder.similarity(np.asarray(embeddings1), np.asarray(embeddings2), **options)
        )

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Score pairs, row by row.

        Args:
            embeddings1: (pairs, dim).
            embeddings2: (pairs, dim).

        Returns:
            The encoder's score of each pair.
        """
        pairs = zip(np.asarray(embeddings1), np.asarray(embeddings2), strict=True)
        return torch.stack([self.similarity(first, second) for first, second in pairs])


def open_tasks(names: Sequence[str], sets: ConfiguredSets, *, split: str | None) -> list[Any]:
    """Open tasks of mteb by name, with the rows of local files if there are any.

    Args:
        names: Of the tasks.
        sets: The local sets.
        split: dev or test of local files. None: the first split with a file.

    Returns:
        Tasks of mteb in the order of the names. Those without local rows load them from the hub.

    Raises:
        UserError: An unknown task, or a task of the hub without a connection.
    """
    tasks = [_named(name) for name in names]
    opened = []
    for name, task in zip(names, tasks, strict=True):
        key = LOCAL_SETS.get(name, "")
        splits = (sets.load(key, each) for each in ([split] if split else SPLITS)) if key else ()
        if (rows := next(filter(None, splits), None)) is not None:
            _fill(task, rows, sets.load(key, "train") if rows.kind == Kind.LABELLED_TEXT else None)
        elif problem := hub_problem():
            where = (
                f"no file of {key}, {split or 'dev or test'}, below {sets.data_dir}"
                if key
                else "it is no local set"
            )
            raise UserError(
                f"{name}: {where}, and its rows are on the hub: {problem}. Local: {', '.join(LOCAL_SETS)}"
            )
        opened.append(task)
    return opened


def run_tasks(model: RunEncoder, tasks: Sequence[Any], out: Path) -> list[dict[str, Any]]:
    """Score each task by mteb, and write its result where mteb's `ResultCache(out)` looks for it.

    Scores of other splits in that file stay. Scores of other rows, such as those of another --data-dir, are not
    replaced.

    Args:
        model: The encoder.
        tasks: As `open_tasks` gives them.
        out: Folder of results.

    Returns:
        A row for each task and split: task, split, measure, score.

    Raises:
        UserError: A file in the way that is not ours, or that has scores of other rows.
    """
    meta = model.mteb_model_meta
    folder = out / "results" / str(meta.name).replace("/", "__") / str(meta.revision)
    paths = {task.metadata.name: folder / f"{task.metadata.name}.json" for task in tasks}
    check_overwritable(folder / "model_meta.json", *paths.values())
    earlier_results = {
        name: read_shaped(path, TaskFile, "Take the file away, or type another --out")
        if path.is_file()
        else {}
        for name, path in paths.items()
    }
    read_rows = {task.metadata.name: _rows_of(task) for task in tasks}
    known_rows = {name: file.get("juzhen", {}).get("rows", {}) for name, file in earlier_results.items()}
    for name, path in paths.items():
        for split, found in read_rows[name].items():
            if known_rows[name].get(split, found) != found:
                raise UserError(
                    f"--out {out}: {path} has scores of other rows of {split}. Choose another folder, or take that "
                    "file away"
                )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "model_meta.json", meta.to_dict())
    rows = []
    for task in tasks:
        (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
        written = result.model_dump() | {"date": result.date.timestamp() if result.date else None}
        path = paths[result.task_name]
        earlier, used = earlier_results[result.task_name], read_rows[result.task_name]
        if all(earlier.get(key) == written[key] for key in ("mteb_version", "dataset_revision")):
            written["scores"] = earlier.get("scores", {}) | written["scores"]
            used = known_rows[result.task_name] | used
        write_json(path, _finite(written | {"juzhen": model.settings | {"rows": used}}))
        for split, scores in result.scores.items():
            measure = task.metadata.main_score
            fields = {"task": result.task_name, "split": split, "measure": measure}
            rows += [fields | {"score": subset["main_score"]} for subset in scores]
    return rows


def _rows_of(task: Any) -> dict[str, str]:
    """Split → fingerprint of its rows, or HUB."""
    local: dict[str, str] = vars(task).get("juzhen_rows", {})
    return {split: local.get(split, HUB) for split in task.metadata.eval_splits}


def _finite(value: Any) -> Any:
    """Plain data with null for NaN. mteb writes NaN for metrics that a task lacks."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _named(name: str) -> Any:
    try:
        return mteb.get_task(name)
    except KeyError:
        names = [task.metadata.name for task in mteb.get_tasks(exclude_superseded=False)]
        raise UserError(f"{name}: not a task of mteb {mteb.__version__}. {nearest(name, names)}") from None


def _fill(task: Any, examples: Examples, train: Examples | None) -> None:
    split = SPLITS[examples.split]
    splits = {split: _columns(examples)} | ({"train": _columns(train)} if train is not None else {})
    if examples.kind == Kind.LABELLED_TEXT and train is None:
        raise UserError(
            f"{task.metadata.name}: a classifier learns from train, and {examples.name} has no file of it"
        )
    task.dataset = DatasetDict({name: Dataset.from_dict(columns) for name, columns in splits.items()})
    task.data_loaded = True
    read = [rows.fingerprint for rows in (examples, train) if rows is not None]
    task.juzhen_rows = {split: "-".join(read)}
    task.metadata = task.metadata.model_copy(update={"eval_splits": [split]})


def _columns(examples: Examples) -> dict[str, list[Any]]:
    assert examples.targets is not None  # sets of LOCAL_SETS have gold values
    texts = [[examples.sentences[number] for number in rows.tolist()] for rows in examples.columns.values()]
    targets = examples.targets.tolist()
    if examples.kind == Kind.LABELLED_TEXT:
        return {"text": texts[0], "label": [int(target) for target in targets]}
    columns = {"sentence1": texts[0], "sentence2": texts[1]}
    if examples.kind != Kind.NLI_PAIR:
        return columns | {"score": targets}
    # C-MTEB leaves neutral pairs out: entailment is 1, contradiction 0.
    positive, neutral = NLI_CLASSES.index("entailment"), NLI_CLASSES.index("neutral")
    chosen = [row for row, target in enumerate(targets) if target != neutral]
    chosen_columns = {name: [values[row] for row in chosen] for name, values in columns.items()}
    return chosen_columns | {"labels": [int(targets[row] == positive) for row in chosen]}
