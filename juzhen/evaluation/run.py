"""One pass of an encoder over sets: plan → encode once → score."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.core.accelerator import require_accelerator
from juzhen.core.columns import as_column
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.core.progress import progress_bar
from juzhen.core.threads import limit_threads
from juzhen.data.configured import configured_set
from juzhen.data.leaks import Seen, SeenRows
from juzhen.data.loading import JobData, load_job_data
from juzhen.data.rankings import RankingSet
from juzhen.data.sampler import TokenBudget
from juzhen.data.spec import DatasetConfig
from juzhen.data.transfer import TransferTask
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.describe import Described, cut_in_evaluation, describe_rows, with_leaks
from juzhen.evaluation.devices import require_device
from juzhen.evaluation.evaluators import embedding_cache_dir
from juzhen.evaluation.plan import NOTHING, EmbeddingEvaluator, EvaluationPlan, Evaluator, Sets
from juzhen.evaluation.scoring import Evaluation, assemble_outputs, measure
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.evaluation.spec import HardwareConfig
from juzhen.families import family_of, open_encoder
from juzhen.metrics.ranking import RankedLists

HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.half}


@dataclass(frozen=True)
class Pass:
    """Encodes and scores with one encoder.

    encoder    of any of `juzhen.families`
    cache_dir  token numbers of large sets are kept below it, and embeddings where `settings` ask for it
    progress   bars are shown
    """

    encoder: Any
    settings: EvaluationSettings
    cache_dir: str | None = None
    progress: bool = False

    def __call__(
        self, sets: Sets, tasks: Sequence[TransferTask] = (), *, seen: Mapping[str, Seen]
    ) -> tuple[Evaluation, Described]:
        """The scores, and what is known of the rows that were scored."""
        evaluation = self.settings.evaluation
        plan, outputs = self._encoded(sets, tasks)
        scored = measure(
            self.evaluator,
            plan,
            outputs,
            seen=seen,
            dims=self.evaluator.nested_dims,
            rankings=evaluation.rankings,
            clusterings=evaluation.clusterings,
            bootstrap_samples=evaluation.bootstrap_samples,
            seed=self.settings.seed,
        )
        rows = {
            f"{dataset.split}/{dataset.name}": dataset for dataset in sets if isinstance(dataset, Examples)
        }
        cut = cut_in_evaluation(self._reader, self._collate, plan)
        return scored, with_leaks(describe_rows(rows, cut, temperature=plan.temperature), seen)

    def lists(self, ranking: RankingSet, *, depth: int) -> tuple[RankedLists, Callable[[int], float]]:
        """The documents of every query, best first; and what finds those of one again, and gives the seconds."""
        plan, outputs = self._encoded([ranking])
        (lists,), (score,) = plan.ranked(outputs, depth=depth), plan.matchers(outputs)

        def find(query: int) -> float:
            since = time.perf_counter()
            self.evaluator.read_query(ranking.queries[query], ranking.symmetric)
            Best(1, depth).add(score(np.array([query]), None), 0)
            return time.perf_counter() - since

        return lists, find

    @cached_property
    def evaluator(self) -> Evaluator:
        evaluation = self.settings.evaluation
        return family_of(self.encoder).evaluator(
            self._reader,
            backend=evaluation.backend,
            cache_dir=embedding_cache_dir(evaluation.cache_embeddings, self.cache_dir),
            precision=self.settings.hardware.precision,
        )

    @cached_property
    def _reader(self) -> Any:
        """The encoder, which reads long texts as the settings say. Raises UserError for one that cannot."""
        if self.settings.long_texts == "cut":
            return self.encoder
        if not isinstance(self.encoder, SentenceEncoder):
            raise UserError(
                "long_texts=chunk: this model gives no vectors of texts, whose mean could be taken; leave it out, or "
                "take a bi-encoder"
            )
        return self.encoder.with_long_texts("chunk", self.settings.chunk_overlap)

    @cached_property
    def _collate(self) -> SentenceCollator:
        return family_of(self.encoder).collate(self._reader, cache_dir=self.cache_dir, progress=self.progress)

    def _encoded(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> tuple[EvaluationPlan, np.ndarray]:
        """A plan, and what the encoder gives for each row of it, in order."""
        plan = self.evaluator.plan(sets, tasks)
        self.evaluator.begin(plan)
        if plan.examples is NOTHING:
            return plan, np.zeros((1, 1), dtype=np.float32)
        hardware, collate = self.settings.hardware, self._collate
        if getattr(self._reader, "chunk_overlap", None) is not None:
            bar = progress_bar("encoding", len(plan.examples), shown=self.progress)
            with _prepared(self.encoder, hardware), bar as advance:
                tokens = hardware.eval_batch_tokens
                assert isinstance(self.evaluator, EmbeddingEvaluator)  # that of such an encoder
                return plan, self.evaluator.chunked(plan.examples, batch_tokens=tokens, advance=advance)
        lengths, outputs = collate.row_lengths(plan.examples), []
        order = TokenBudget(lengths, max_tokens=hardware.eval_batch_tokens)
        bar = progress_bar("encoding", len(lengths), shown=self.progress)
        with _prepared(self.encoder, hardware) as device, bar as advance:
            for rows in order:
                output = self.evaluator.output(collate(plan.examples, rows).to(device))
                outputs.append((rows, output.float().cpu().numpy()))
                advance(len(rows))
        return plan, assemble_outputs(outputs, len(plan.examples))


@contextmanager
def _prepared(encoder: Any, hardware: HardwareConfig) -> Iterator[torch.device]:
    """The encoder on its device, without dropout or gradients, in the precision of the hardware."""
    require_accelerator(hardware)
    require_device(hardware)
    limit_threads(hardware.threads)
    device, half = torch.device(hardware.accelerator), HALF.get(hardware.precision)
    rounded = nullcontext() if half is None else torch.autocast(device.type, dtype=half, cache_enabled=False)
    with family_of(encoder).fitted(encoder, hardware), torch.inference_mode(), rounded:
        yield device


def evaluate(
    encoder: str | Path | Any,
    sets: Sequence[str | DatasetConfig | Examples | RankingSet],
    *,
    data_dir: str | Path = "data",
    trained_on: Sequence[Examples] = (),
    settings: EvaluationSettings | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
) -> Evaluation:
    """The scores of a saved encoder on some sets.

    encoder     a run, a folder or built-in name, an encoder that is loaded, "lexical" (TF-IDF) or "bm25"
    sets        names of conf/dataset, descriptions of sets, rows that are loaded, or rankings
    data_dir    where sets lie that are not built in
    trained_on  rows that the encoder has learnt from: sets that hold some of them are scored without them, too
    settings    splits, seed, intervals, device; sets in it are not looked at

    >>> found = evaluate("builtin/mini_zh", ["demo_sts"])  # doctest: +SKIP
    >>> found.scores["test/demo_sts/spearman"].value  # doctest: +SKIP

    Raises UserError for an encoder or a set that is not there.
    """
    settings = replace(settings or EvaluationSettings(), data_dir=str(data_dir), dataset={}, evaluate={})
    sets, trained_on = as_column(sets, "sets"), as_column(trained_on, "trained_on")
    opened = open_encoder(encoder)
    loaded = [dataset for dataset in sets if isinstance(dataset, Examples | RankingSet)]
    named = [configured_set(dataset) if isinstance(dataset, str) else dataset for dataset in sets]
    settings.evaluate = {dataset.name: dataset for dataset in named if isinstance(dataset, DatasetConfig)}
    run = Pass(opened, settings, cache_dir, progress)
    data = JobData({}, [])
    if settings.evaluate:
        data = load_job_data(settings, {}, unscored=run.evaluator.unscored)
    rows = SeenRows([dataset for dataset in (*data.evaluation, *loaded) if isinstance(dataset, Examples)])
    rows.learn({str(number): dataset for number, dataset in enumerate(trained_on)})
    evaluation, _ = run([*data.evaluation, *loaded], data.tasks, seen=rows.seen() if trained_on else {})
    return replace(evaluation, scores=evaluation.scores | data.missing)
