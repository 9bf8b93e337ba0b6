"""Mine hard negatives with the current weights, repeatedly during training."""

import math
import signal
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field

from callbacks.health import append_line
from callbacks.lightning_internals import is_between_steps
from callbacks.resume import stage_folder
from conf.job import JobConfig
from juzhen.core.atomic_write import atomic_write, remove_file, remove_folder
from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.core.examples import Examples, Kind, negative_columns
from juzhen.core.file_guard import claim_dir
from juzhen.core.safe_open import require_file
from juzhen.core.schema import validated
from juzhen.data.rankings import as_ranking, as_retrieval
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.save import save_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.losses.arguments import Counts, Share, Shares
from juzhen.mining import OWN, MiningOptions, PositiveReference
from juzhen.mining.candidates import (
    Advance,
    AsymmetricRetriever,
    DenseRetriever,
    Found,
    Numbers,
    Retriever,
    Scores,
    load_source,
)
from juzhen.mining.filters import REASONS, Known, Miner, Reason, chosen
from juzhen.mining.negatives import SHARD_QUERIES
from juzhen.models import settings_of
from juzhen.models.settings import name_of
from lightning_modules.biencoder import BiEncoder
from lightning_modules.loss_factory import Match, declared_loss

EASIER, FAR = 1.15, 0.8
"""A negative has become easy when EASIER × its score is below that at its mining, and its size below FAR.

FAR is a cosine; dot products of sparse vectors are of any size, and the first rule alone is theirs.

(Li et al. 2024, https://arxiv.org/abs/2408.15710, who look at the mean over a query's negatives.)
"""


@dataclass(frozen=True)
class InForce:
    """Current negatives of each query, or of each positive with `positive_reference=own`, hard ones first.

    Args:
        documents: Numbers in the corpus, int32. −1 marks a missing negative.
        scores: Scores when they were mined, float32.
        is_hard: Retrieved by score, not random.
    """

    documents: Int[np.ndarray, "places negatives"]
    scores: Float[np.ndarray, "places negatives"]
    is_hard: Bool[np.ndarray, "places negatives"]

    def score(self, slots: Numbers, documents: Numbers) -> Scores:
        """Look up the scores of documents when they were mined.

        Args:
            slots: Row of `documents` for each pair, int (pairs,).
            documents: Number in the corpus for each pair, int (pairs,).

        Returns:
            (pairs,). NaN if the document is not a hard negative of that slot.
        """
        is_it = (self.documents[slots] == documents[:, None]) & self.is_hard[slots]
        scores = np.where(is_it, self.scores[slots], 0).sum(axis=1)
        return np.where(is_it.any(axis=1), scores, np.nan)


@dataclass(frozen=True)
class NegativesInForce:
    """A source of candidates: the current hard negatives.

    Args:
        found: The negatives.
        starts: Start of each query's slots in `found`, and the end of the last.
    """

    found: InForce
    starts: Int[np.ndarray, "queries+1"]

    name = digest = "in_force"

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        """List the hard negatives of queries.

        Args:
            queries: Numbers of queries.
            k: Least length of a list. Documents are at its end, so that a window of ranks includes them.
            advance: Not called.

        Returns:
            Document numbers (queries, k or more), −1 where there is none, and zeros of that shape.
        """
        hard = np.where(self.found.is_hard, self.found.documents, -1).astype(np.int64)
        lists = [hard[self.starts[query] : self.starts[query + 1]].ravel() for query in queries.tolist()]
        width = max(k, *(len(row) for row in lists))
        documents = np.stack([np.pad(row, (width - len(row), 0), constant_values=-1) for row in lists])
        return documents, np.zeros(documents.shape, dtype=np.float32)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        """Return NaN. The first source scores.

        Args:
            queries: Query of each pair, int (pairs,).
            documents: Not read.

        Returns:
            NaN (pairs,).
        """
        return np.full(len(queries), np.nan, dtype=np.float32)


class MinedRows:
    """Rows of positive pairs or triplets with mined negatives.

    Queries are the distinct anchors. The corpus is all distinct positives and negatives, plus the documents of the
    retrieval set that the rows were made from (`juzhen.data.rankings`).

    Args:
        examples: Positive pairs or triplets.
        positive_reference: As in `MiningOptions`.

    Raises:
        UserError: No anchor has another text for a positive.
    """

    def __init__(self, examples: Examples, *, positive_reference: PositiveReference = "lowest") -> None:
        self.examples = examples
        judged = as_retrieval(examples)
        assert judged.documents is not None  # as_retrieval names the corpus
        # As training reads the rows: without a word on who asks, all behind the prompt before every sentence.
        self.ranking = replace(as_ranking(judged), symmetric=examples.symmetric)
        self._known, self._corpus = Known(self.ranking), judged.documents
        queries, anchors = np.unique(judged.columns["query"]), examples.columns["anchor"]
        positions = np.minimum(np.searchsorted(queries, anchors), len(queries) - 1)
        self._place = np.where(queries[positions] == anchors, positions, -1)
        self._positive_reference, self._starts = positive_reference, np.arange(len(queries) + 1)
        if positive_reference == OWN:
            document = np.searchsorted(self._corpus, examples.columns["positive"])
            positions_of_positives = self._known.place(np.maximum(self._place, 0), document)
            self._place, self._starts = (
                np.where(self._place < 0, -1, positions_of_positives),
                self._known.starts,
            )

    def mined(
        self,
        encoder: SentenceEncoder | AsymmetricEncoder,
        options: MiningOptions,
        *,
        batch_tokens: int,
        before: InForce | None = None,
    ) -> InForce:
        """Mine negatives with the encoder's current weights. All draws use `options.seed`.

        Args:
            encoder: It encodes queries and corpus without dropout.
            options: Rules of the mining. `positive_reference` is that of the rows.
            batch_tokens: Tokens of a batch.
            before: Negatives in use. Hard ones stay while the rules keep them and they have not become easy.
                Default: mine all from scratch.

        Returns:
            Negatives of each query, or of each positive with `positive_reference=own`.
        """
        kind: Any = AsymmetricRetriever if isinstance(encoder, AsymmetricEncoder) else DenseRetriever
        source = kind(encoder, self.ranking, batch_tokens=batch_tokens, progress=False)
        options = replace(options, positive_reference=self._positive_reference)
        sources: list[Retriever] = (
            [source] if before is None else [source, NegativesInForce(before, self._starts)]
        )
        miner = Miner(self.ranking, sources, self._known, options, None)
        starts = range(0, len(self.ranking.queries), SHARD_QUERIES)
        far = np.inf if getattr(encoder, "family", None) == "sparse" else FAR
        parts = [self._shard(miner, start, before, far=far) for start in starts]
        return InForce(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))

    def _shard(self, miner: Miner, start: int, before: InForce | None, *, far: float) -> InForce:
        queries = np.arange(start, min(start + SHARD_QUERIES, len(self.ranking.queries)))
        pool, codes, _ = miner.candidates(queries, lambda count: None)
        if self._positive_reference == OWN:
            pool, codes = miner.by_row(pool, codes, miner.rows(pool, queries))
        scores, stays = pool.score, None
        if before is not None:
            then = before.score(pool.query, pool.document)
            # Never where there is no score of then.
            is_easy = (EASIER * scores < then) & (np.abs(scores) < far)
            codes[is_easy & (codes == 0)] = REASONS.index(Reason.BECOME_EASY)
            stays = ~np.isnan(then)
            scores = np.where(stays, then, scores)
        taken = np.flatnonzero(chosen(pool, codes, miner.options, staying=stays))
        first, end = self._starts[queries[0]], self._starts[queries[-1] + 1]
        rows = pool.query[taken] - first
        positions = np.arange(len(taken)) - np.searchsorted(rows, rows)
        shape = int(end - first), miner.options.num_negatives
        negatives = InForce(
            np.full(shape, -1, np.int32), np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
        )
        negatives.documents[rows, positions] = pool.document[taken]
        negatives.scores[rows, positions] = scores[taken]
        negatives.is_hard[rows, positions] = pool.rank[taken] > 0
        return negatives

    def with_negatives(self, mined: InForce) -> Examples:
        """Replace the negatives of the rows.

        A missing negative is filled with the row's positive, which has no gradient.

        Args:
            mined: Negatives of each query, or of each positive.

        Returns:
            Triplets with one column for each negative. They share the sentence table of `examples`.
        """
        columns = {name: self.examples.columns[name] for name in ("anchor", "positive")}
        documents = np.where(self._place[:, None] < 0, -1, mined.documents[self._place])
        numbers = np.where(documents < 0, columns["positive"][:, None], self._corpus[documents])
        names = negative_columns(numbers.shape[1])
        negatives = dict(zip(names, np.ascontiguousarray(numbers.T, dtype=np.int32), strict=True))
        return replace(self.examples, kind=Kind.TRIPLET, columns=columns | negatives, missing=None)

    def changed(self, before: InForce | None, after: InForce) -> float:
        """Compute the share of rows whose negatives have changed.

        Args:
            before: Earlier negatives. None: all rows have changed.
            after: New negatives, of the same shape.

        Returns:
            A fraction from 0 to 1. The order of negatives does not count.
        """
        if before is None:
            return 1.0
        is_other = (np.sort(before.documents) != np.sort(after.documents)).any(axis=1)
        return float(is_other[self._place].mean(where=self._place >= 0))


Request = Callable[[SentenceEncoder | AsymmetricEncoder], InForce]
"""`MinedRows.mined` with all arguments but the encoder."""


WEIGHTS, FOUND = "encoder", "found.npz"
OF_MINING = r"(encoder|found\.npz)"


class BackgroundMiner:
    """Mines in a second process. Weights and results are files in a folder, so that a resumed session continues.

    Args:
        folder: Folder of this miner alone. It holds one request at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: BaseProcess | None = None

    def begin(self, requests: Mapping[str, Request], encoder: SentenceEncoder) -> None:
        """Save the current weights and start to mine with them. An earlier result is removed.

        Args:
            requests: Dataset key → `MinedRows.mined` with all arguments but the encoder.
            encoder: Its weights are written to the folder. The second process uses its device.
        """
        claim_dir(self.folder)
        remove_file(self.folder / FOUND)
        save_encoder(encoder, self.folder / WEIGHTS, card={"name": "weights that negatives are mined with"})
        self.go_on(requests, device=str(encoder.device))

    def go_on(self, requests: Mapping[str, Request], *, device: str) -> None:
        """Start with saved weights. Does nothing if the result exists.

        Args:
            requests: Dataset key → `MinedRows.mined` with all arguments but the encoder.
            device: Device of the second process, as torch spells it.
        """
        if (self.folder / FOUND).exists():
            return
        arguments = self.folder, dict(requests), device, torch.get_num_threads()
        self._process = get_context("spawn").Process(target=_work, args=arguments, daemon=True)
        self._process.start()

    def found(self) -> dict[str, InForce]:
        """Wait for the result and return it.

        Returns:
            Set → mined negatives.

        Raises:
            RuntimeError: The process ended with an error.
            FileNotFoundError: The process ended early, without a result.
        """
        if self._process is not None:
            self._process.join()
            if self._process.exitcode:
                raise RuntimeError(
                    f"the process that mines negatives ended with status {self._process.exitcode}"
                )
        mined: dict[str, dict[str, np.ndarray]] = {}
        with np.load(require_file(self.folder / FOUND)) as arrays:
            for key in arrays.files:
                name, _, column = key.rpartition("/")
                mined.setdefault(name, {})[column] = arrays[key]
        return {name: InForce(**columns) for name, columns in mined.items()}

    def clear(self) -> None:
        """Remove its files."""
        remove_folder(self.folder, rf"{OF_MINING}/.*|{OF_MINING}")

    def stop(self) -> None:
        """Kill the process. Its files stay for a resumed session."""
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _work(folder: Path, requests: Mapping[str, Request], device: str, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told to the first process, which ends this one
    torch.set_num_threads(threads)
    encoder = load_source(folder / WEIGHTS).train().to(device)
    mined = {
        f"{name}/{column}": values
        for name, request in requests.items()
        for column, values in vars(request(encoder)).items()
    }
    with atomic_write(folder / FOUND, "wb", in_own_folder=True) as file:
        np.savez(file, **mined)


class Phases:
    """Training in phases, each with an interval between minings and a rise of the hard share.

    Args:
        ends: Shares of training at which phases end, rising to 1.
        every_steps: Optimizer steps between two minings, for each phase. None: one mining, before the first
            step.
        hard_share: Share at the start and at each end of a phase, linear in between.
        key: Name of the section in the configuration, for messages.

    Raises:
        UserError: A number out of its range, or a wrong count of numbers for these phases.
    """

    def __init__(
        self,
        ends: Sequence[float],
        every_steps: Sequence[int] | None,
        hard_share: Sequence[float],
        *,
        key: str,
    ) -> None:
        self.ends = list(validated(Shares, ends, f"{key}.phases"))
        if self.ends != sorted(set(self.ends)) or self.ends[-1:] != [1.0]:
            raise UserError(
                f"{key}.phases={list(ends)}: expected shares of training that rise to 1, such as [0.3, 0.7, 1]"
            )
        _require_count(f"{key}.hard_share", hard_share, len(ends) + 1)
        self.hard_shares = validated(list[Share], list(hard_share), f"{key}.hard_share")
        self.every_steps = None
        if every_steps is not None:
            _require_count(f"{key}.every_steps", every_steps, len(ends))
            self.every_steps = list(validated(Counts, every_steps, f"{key}.every_steps"))

    def due(self, step: int, total_steps: int) -> bool:
        """Check that a mining is due.

        It is before the first step, at the start of each phase, and every so many steps from there.

        Args:
            step: Finished optimizer steps.
            total_steps: Optimizer steps of the stage. No later mining is due at the last one.

        Returns:
            True if it is due.
        """
        if self.every_steps is None or step >= total_steps:
            return step == 0
        starts = [math.ceil(end * total_steps) for end in (0.0, *self.ends[:-1])]
        phase = bisect_right(starts, step) - 1
        return (step - starts[phase]) % self.every_steps[phase] == 0

    def hard_share(self, step: int, total_steps: int) -> float:
        """Interpolate the share of hard negatives mined at a step.

        Args:
            step: Finished optimizer steps.
            total_steps: Optimizer steps of the stage.

        Returns:
            A fraction from 0 to 1.
        """
        return float(np.interp(step / total_steps, [0.0, *self.ends], self.hard_shares))


def _require_count(key: str, values: Sequence[float], count: int) -> None:
    if len(values) != count:
        raise UserError(f"{key}={list(values)}: expected {count} numbers, as there are phases")


KEY = "callbacks.mining"
MINING_FILE = "mining.jsonl"
KEPT = ("times", "seconds", "_mined_at", "_begun_at")


class NegativeMining(pl.Callback):
    """Replaces the negatives of rows with an anchor and a positive, by the rules of `juzhen mine`, when due.

    The anchors and the corpus of a set (`MinedRows`) are encoded with the current
    weights, without dropout. The results replace the rows' negatives from the next batch on. The seconds, the
    share of rows with changed negatives, and the mean score are logged and written to `mining.jsonl`. The
    first of several processes mines for all.

    Args:
        phases: Ends of the phases, as shares of training (`Phases`).
        every_steps: Steps between two minings, for each phase.
        hard_share: Share of hard negatives at the start and at each end of a phase. The others are random.
        hard_at_most: Maximal number of hard negatives of a row. None: no limit besides the share.
        background: Mine in a second process with the weights of a step while training continues. The results
            take effect at the next mining, which waits for them (Xiong et al. 2021,
            https://arxiv.org/abs/2007.00808).
        until_easy: Keep hard negatives until they have become easy (`MinedRows`). False:
            replace all.
        sets: Trained sets to mine for. None: all.
        stages: Stages of a curriculum to mine in, at any position. None: all.
        num_negatives: Negatives of each row.
        range_max: Nearest texts searched for each anchor, at least `num_negatives`.
        index: As in `MiningOptions`.
        range_min: Number of nearest texts to skip.
        relative_margin: As in `MiningOptions`. None: no such rule.
        positive_reference: As in `MiningOptions`.
        absolute_margin: As in `MiningOptions`. None: no such rule.
        temperature: Softmax temperature for drawing hard negatives. None: the nearest ones.
    """

    def __init__(
        self,
        *,
        phases: Sequence[float],
        every_steps: Sequence[int] | None,
        hard_share: Sequence[float],
        num_negatives: int,
        hard_at_most: int | None,
        background: bool,
        until_easy: bool,
        sets: Sequence[str] | None,
        range_max: int,
        index: str,
        range_min: int,
        relative_margin: float | None,
        positive_reference: str,
        absolute_margin: float | None,
        temperature: float | None,
        stages: Sequence[str] | None = None,
    ) -> None:
        self.phases = Phases(phases, every_steps, hard_share, key=KEY)
        most = num_negatives if hard_at_most is None else hard_at_most
        self.hard_at_most = validated(Annotated[int, Field(ge=0)], most, f"{KEY}.hard_at_most")
        self.background = background
        self.until_easy = until_easy
        self.sets, self.stages = sets, stages
        self.options = MiningOptions(
            range_max=range_max,
            index=index,
            range_min=range_min,
            relative_margin=relative_margin,
            positive_reference=positive_reference,
            absolute_margin=absolute_margin,
            temperature=temperature,
            num_negatives=num_negatives,
        )
        require_number(f"{KEY}.range_max", range_max, num_negatives)
        self.times, self.seconds = 0, 0.0
        self._mined_at: int | None = None
        self._begun_at: int | None = None
        self._second: BackgroundMiner | None = None
        self._rows: dict[str, MinedRows] = {}
        self._found: dict[str, InForce] = {}

    def check_job(self, job: JobConfig, stages: Sequence[Mapping[str, Match]]) -> None:
        """Check that a job has minable rows, before rows are read.

        Args:
            job: The whole configuration.
            stages: For each stage, dataset key → its loss and row kind.

        Raises:
            UserError: The model, a set, a stage or a loss does not suit mining.
        """
        model = settings_of(job.model)
        finds = {"embeddings", "tokens"} & {*model.provides}
        if not model.trains or model.input_kind is not None or not finds:
            raise UserError(
                f"{KEY}: {model.name} does not learn embeddings from anchors and positives. Type model=biencoder, or "
                "leave mining out"
            )
        for key, names in (("sets", self.sets), ("stages", self.stages)):
            if names is not None and not names:
                raise UserError(f"{KEY}.{key}=[]: expected names of {key}, or null for all")
        for name in self.sets or ():
            require_choice(f"{KEY}.sets", name, job.dataset)
        names = self._stage_names(job)
        mined = [matches for name, matches in zip(names, stages, strict=True) if self._is_on(name)]
        mined_sets = {name for matches in mined for name in matches}
        if unread := [name for name in self.sets or () if name not in mined_sets]:
            raise UserError(
                f"{KEY}.sets={list(self.sets)}: no stage that is mined for learns from {unread[0]}. Leave it out, or "
                f"name its stage in {KEY}.stages"
            )
        for name, match in ((name, match_of) for stage in mined for name, match_of in stage.items()):
            if self._is_mined(name) and Kind.TRIPLET not in declared_loss(match.loss).input_kinds:
                raise UserError(
                    f"{KEY}: loss={name_of(match.loss)} of {name} reads no negatives. Choose one with "
                    "negatives, such as "
                    f"loss=info_nce, or name the mined sets: {KEY}.sets=[…]"
                )

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        data = trainer.datamodule
        if stage != "fit" or not self._is_on(data.stage.name):
            return
        self._rows = {
            name: MinedRows(rows, positive_reference=self.options.positive_reference)
            for name, rows in data.train.items()
            if self._is_mined(name)
        }
        data.rows_change = bool(self._rows)

    def on_train_start(self, trainer: pl.Trainer, pl_module: BiEncoder) -> None:
        self._put_in_force(trainer)  # after a resume
        if self.background and self._rows and trainer.is_global_zero:
            self._second = BackgroundMiner(stage_folder(trainer) / "mining")
            if self._begun_at is not None:
                requests = self._requests(trainer, pl_module, self._begun_at)
                self._second.go_on(requests, device=str(pl_module.device))
        self._mine_if_due(trainer, pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: BiEncoder, *step: Any) -> None:
        if not is_between_steps(trainer) and not trainer.received_sigterm:  # then it is done after the resume
            self._mine_if_due(trainer, pl_module)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.datamodule.train.update({name: rows.examples for name, rows in self._rows.items()})
        if self._second is not None:
            self._second.stop()
            self._second.clear()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        if self._second is not None:
            self._second.stop()

    def state_dict(self) -> dict[str, Any]:
        mined = {
            name: {column: torch.from_numpy(values) for column, values in vars(negatives).items()}
            for name, negatives in self._found.items()
        }
        return {name: getattr(self, name) for name in KEPT} | {"found": mined}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in KEPT:
            setattr(self, name, state[name])
        self._found = {
            name: InForce(**{column: values.numpy().copy() for column, values in columns.items()})
            for name, columns in state["found"].items()
        }

    def training_facts(self) -> dict[str, Any]:
        """Return the facts about mining for the record of a training.

        Returns:
            `mining` → `summary()`.
        """
        return {"mining": self.summary()}

    def summary(self) -> dict[str, float]:
        """Number of minings and their seconds, over all sessions of the stage.

        Returns:
            `times` and `seconds`.
        """
        return {"times": self.times, "seconds": round(self.seconds, 2)}

    def _stage_names(self, job: JobConfig) -> list[str]:
        """Return the stages of a job, in order. Raises UserError if `stages` contains an unknown stage."""
        is_serial = job.schedule.name == "serial" and job.dataset
        names = list(job.schedule.order or job.dataset) if is_serial else [""]
        for name in self.stages or ():
            require_choice(f"{KEY}.stages", name, names)
        return names

    def _is_on(self, stage: str) -> bool:
        return self.stages is None or stage in self.stages

    def _is_mined(self, name: str) -> bool:
        return self.sets is None or name in self.sets

    def _mine_if_due(self, trainer: pl.Trainer, module: BiEncoder) -> None:
        step, total = trainer.global_step, module.total_steps
        if not self._rows or self._mined_at == step or not self.phases.due(step, total):
            return
        began, begun_at = time.perf_counter(), self._begun_at
        mined = trainer.strategy.broadcast(self._next(trainer, module) if trainer.is_global_zero else {})
        lasted = time.perf_counter() - began
        self.seconds, self._mined_at = self.seconds + lasted, step
        if self.background and step:
            self._begun_at = step
        if not mined:
            return
        self.times += 1
        stale = step - begun_at if self.background and begun_at is not None else 0
        if trainer.is_global_zero:
            for name, negatives in mined.items():
                self._tell(trainer, name, negatives, lasted, stale)
        self._found = mined
        self._put_in_force(trainer)

    def _next(self, trainer: pl.Trainer, module: BiEncoder) -> dict[str, InForce]:
        """Return the negatives that take effect now. {} if the second process has no results yet."""
        if self._second is None or trainer.global_step == 0:
            with trainer.precision_plugin.forward_context():
                requests = self._requests(trainer, module, trainer.global_step)
                return {name: request(module.encoder) for name, request in requests.items()}
        mined = {} if self._begun_at is None else self._second.found()
        before, self._found = self._found, mined or self._found
        self._second.begin(self._requests(trainer, module, trainer.global_step), module.encoder)
        self._found = before
        return mined

    def _requests(self, trainer: pl.Trainer, module: BiEncoder, step: int) -> dict[str, Request]:
        """Return the requests of a mining at `step`, which depend on the step and the current negatives."""
        negatives, position = (
            self.options.num_negatives,
            [module.job.seed, trainer.datamodule.stage.index, step],
        )
        share = self.phases.hard_share(step, module.total_steps)
        hard = min(int(negatives * share + 0.5), self.hard_at_most)
        requests: dict[str, Request] = {}
        for index, (name, rows) in enumerate(self._rows.items()):
            seeds = np.random.SeedSequence([*position, index]).generate_state(1)
            options = replace(self.options, hard_share=hard / negatives, seed=int(seeds[0]))
            requests[name] = partial(
                rows.mined,
                options=options,
                batch_tokens=module.job.hardware.eval_batch_tokens,
                before=self._found.get(name) if self.until_easy else None,
            )
        return requests

    def _put_in_force(self, trainer: pl.Trainer) -> None:
        for name, negatives in self._found.items():
            trainer.datamodule.train[name] = self._rows[name].with_negatives(negatives)

    def _tell(self, trainer: pl.Trainer, name: str, mined: InForce, seconds: float, stale: int) -> None:
        is_there = mined.documents >= 0
        record = {
            "seconds": round(seconds, 3),
            "changed_rows": self._rows[name].changed(self._found.get(name), mined),
            "score": float(mined.scores.mean(where=is_there)),
            "hard_share": float(mined.is_hard.mean()),
            "missing_share": float(1 - is_there.mean()),
            "stale_steps": stale,
        }
        append_line(trainer, MINING_FILE, {"set": name, **record})
        for logger in trainer.loggers:
            values = {f"mining/{name}/{key}": value for key, value in record.items()}
            logger.log_metrics(values, trainer.global_step)
