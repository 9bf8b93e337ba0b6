"""One pass of an encoder over sets: plan → encode once → score."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from rich.progress import Progress

from juzhen.core.accelerator import require_accelerator
from juzhen.core.columns import as_column
from juzhen.core.examples import Examples, sides_of
from juzhen.core.named import LEXICAL
from juzhen.core.threads import limit_threads
from juzhen.data.configured import configured_set
from juzhen.data.leaks import Seen, SeenRows
from juzhen.data.loading import JobData, load_job_data
from juzhen.data.rankings import RankingSet
from juzhen.data.sampler import TokenBudget
from juzhen.data.spec import DatasetConfig
from juzhen.data.transfer import TransferTask
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.cross_encoder_input import CrossEncoderCollator
from juzhen.encoders.locate import is_cross_encoder
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import PromptEncoder, SentenceEncoder
from juzhen.encoders.text_collate import PromptCollator
from juzhen.encoders.token_table import CachedTokenizer
from juzhen.encoders.transformer import compile_layers
from juzhen.evaluation.describe import Described, cut_in_evaluation, describe_rows, with_leaks
from juzhen.evaluation.devices import require_device
from juzhen.evaluation.evaluators import (
    LexicalEvaluator,
    PairEvaluator,
    embedding_cache_dir,
    lexical_evaluator,
)
from juzhen.evaluation.plan import NOTHING, EmbeddingEvaluator, EvaluationPlan, Evaluator, Sets
from juzhen.evaluation.scoring import Evaluation, assemble_outputs, measure
from juzhen.evaluation.settings import Settings
from juzhen.evaluation.spec import HardwareConfig
from juzhen.metrics.ranking import RankedLists

AnyEncoder = SentenceEncoder | CrossEncoder | LexicalEvaluator
"""A lexical baseline stands for itself."""

HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.half}


@dataclass(frozen=True)
class Pass:
    """Encodes and scores with one encoder.

    cache_dir  token numbers of large sets are kept below it, and embeddings where `settings` ask for it
    progress   bars are shown
    """

    encoder: AnyEncoder
    settings: Settings
    cache_dir: str | None = None
    progress: bool = False

    def __call__(
        self, sets: Sets, tasks: Sequence[TransferTask] = (), *, seen: Mapping[str, Seen]
    ) -> tuple[Evaluation, Described]:
        """The scores, and what is known of the rows that were scored."""
        evaluation = self.settings.evaluation
        plan, outputs = self._encoded(sets, tasks)
        found = measure(
            self.evaluator,
            plan,
            outputs,
            seen=seen,
            rankings=evaluation.rankings,
            clusterings=evaluation.clusterings,
            bootstrap_samples=evaluation.bootstrap_samples,
            seed=self.settings.seed,
        )
        rows = {f"{one.split}/{one.name}": one for one in sets if isinstance(one, Examples)}
        cut = cut_in_evaluation(self._network, self._collate, plan)
        return found, with_leaks(describe_rows(rows, cut, temperature=plan.temperature), seen)

    def lists(self, ranking: RankingSet, *, depth: int) -> tuple[RankedLists, Callable[[int], float]]:
        """The documents of every query, best first; and what finds those of one again, and gives the seconds."""
        plan, outputs = self._encoded([ranking])
        (found,), (score,) = plan.ranked(outputs, depth=depth), plan.matchers(outputs)

        def find(query: int) -> float:
            since = time.perf_counter()
            if isinstance(self.encoder, SentenceEncoder):
                self.encoder.reading(sides_of(ranking.symmetric)[0]).encode(ranking.queries[query])
            Best(1, depth).add(score(np.array([query]), None), 0)
            return time.perf_counter() - since

        return found, find

    @property
    def _network(self) -> SentenceEncoder | CrossEncoder | None:
        """None: nothing is encoded."""
        return None if isinstance(self.encoder, LexicalEvaluator) else self.encoder

    @cached_property
    def evaluator(self) -> Evaluator:
        if isinstance(self.encoder, LexicalEvaluator):
            return self.encoder
        if isinstance(self.encoder, CrossEncoder):
            return PairEvaluator(self.encoder)
        evaluation = self.settings.evaluation
        return EmbeddingEvaluator(
            self.encoder,
            backend=evaluation.backend,
            cache_dir=embedding_cache_dir(evaluation.cache_embeddings, self.cache_dir),
            precision=self.settings.hardware.precision,
        )

    @cached_property
    def _collate(self) -> SentenceCollator | None:
        encoder = self._network
        if encoder is None:
            return None
        inner = encoder.inner if isinstance(encoder, CrossEncoder) else encoder
        tokenize = CachedTokenizer(inner, self.cache_dir, progress=self.progress)
        if isinstance(encoder, CrossEncoder):
            return CrossEncoderCollator(
                tokenize,
                join=encoder.join,
                room=encoder.room,
                both_in_training=False,
                both_in_evaluation=encoder.symmetric,
            )
        if isinstance(encoder, PromptEncoder):
            return PromptCollator(tokenize, encoder)
        return SentenceCollator(tokenize, encoder.collate, sides=tokenize)

    def _encoded(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> tuple[EvaluationPlan, np.ndarray]:
        """A plan, and what the encoder gives for each row of it, in order."""
        plan = self.evaluator.plan(sets, tasks)
        self.evaluator.begin(plan)
        encoder, collate = self._network, self._collate
        if plan.examples is NOTHING or encoder is None or collate is None:
            return plan, np.zeros((1, 1), dtype=np.float32)
        hardware = self.settings.hardware
        lengths, outputs = collate.row_lengths(plan.examples), []
        order = TokenBudget(lengths, max_tokens=hardware.eval_batch_tokens)
        bars = Progress(disable=not self.progress, transient=True)
        with _prepared(encoder, hardware) as device, bars as bar:
            task = bar.add_task("encoding", total=len(lengths))
            for rows in order:
                found = self.evaluator.output(collate(plan.examples, rows).to(device))
                outputs.append((rows, found.float().cpu().numpy()))
                bar.advance(task, len(rows))
        return plan, assemble_outputs(outputs, len(plan.examples))


@contextmanager
def _prepared(encoder: SentenceEncoder | CrossEncoder, hardware: HardwareConfig) -> Iterator[torch.device]:
    """The encoder on its device, without dropout or gradients, in the precision of the hardware."""
    require_accelerator(hardware)
    require_device(hardware)
    limit_threads(hardware.threads)
    inner = encoder.inner if isinstance(encoder, CrossEncoder) else encoder
    before = encoder.training, inner.micro_batch_tokens
    inner.micro_batch_tokens = hardware.micro_batch_tokens  # decides which sentences meet in one product
    if hardware.compile:
        compile_layers(inner.backbone)
    device, half = torch.device(hardware.accelerator), HALF.get(hardware.precision)
    rounded = nullcontext() if half is None else torch.autocast(device.type, dtype=half, cache_enabled=False)
    encoder.to(device).eval()
    try:
        with torch.inference_mode(), rounded:
            yield device
    finally:
        encoder.train(before[0])
        inner.micro_batch_tokens = before[1]


def open_encoder(encoder: str | Path | AnyEncoder) -> AnyEncoder:
    """An encoder by the path of a run or a folder, a built-in name, "lexical" or "bm25"; one that is loaded as it is.

    Raises UserError when there is none.
    """
    if not isinstance(encoder, str | Path):
        return encoder
    if str(encoder) in LEXICAL:
        return lexical_evaluator(str(encoder))
    return (CrossEncoder if is_cross_encoder(encoder) else SentenceEncoder).load(encoder)


def evaluate(
    encoder: str | Path | AnyEncoder,
    sets: Sequence[str | DatasetConfig | Examples | RankingSet],
    *,
    data_dir: str | Path = "data",
    trained_on: Sequence[Examples] = (),
    settings: Settings | None = None,
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
    settings = replace(settings or Settings(), data_dir=str(data_dir), dataset={}, evaluate={})
    sets, trained_on = as_column(sets, "sets"), as_column(trained_on, "trained_on")
    opened = open_encoder(encoder)
    loaded = [one for one in sets if isinstance(one, Examples | RankingSet)]
    named = [configured_set(one) if isinstance(one, str) else one for one in sets]
    settings.evaluate = {one.name: one for one in named if isinstance(one, DatasetConfig)}
    run = Pass(opened, settings, cache_dir, progress)
    data = JobData({}, [])
    if settings.evaluate:
        data = load_job_data(settings, {}, unscored=run.evaluator.unscored)
    rows = SeenRows([one for one in (*data.evaluation, *loaded) if isinstance(one, Examples)])
    rows.learn({str(number): one for number, one in enumerate(trained_on)})
    found, _ = run([*data.evaluation, *loaded], data.tasks, seen=rows.seen() if trained_on else {})
    return replace(found, scores=found.scores | data.missing)
