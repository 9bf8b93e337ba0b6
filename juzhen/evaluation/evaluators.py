"""What each kind of encoder does in an evaluation: which plan it has, and what it gives for a batch of it."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, Kind
from juzhen.core.measures import UNSCORED_BY_BM25, UNSCORED_BY_PAIRS
from juzhen.core.named import TF_IDF
from juzhen.core.result import Score
from juzhen.data.transfer import TransferTask
from juzhen.encoders.cross_encoder import CrossEncoder, similarity
from juzhen.evaluation.cross_encoder_plan import CrossEncoderPlan
from juzhen.evaluation.lexical_plan import BM25Plan, LexicalPlan
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Evaluator, Sets
from juzhen.metrics.bm25 import BM25, CHARACTERS, K1, B, cut_of, require_bm25s
from juzhen.metrics.classes import score_classes


class PairEvaluator(Evaluator):
    """A cross-encoder: the score of each pair, then its class logits where the head has classes."""

    unscored = UNSCORED_BY_PAIRS
    plan_type = CrossEncoderPlan

    def __init__(self, encoder: CrossEncoder) -> None:
        self.encoder = encoder

    def output(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), 1)
        logits = pair_logits(self.encoder, batch)
        scores = similarity(logits).unsqueeze(1)
        return torch.cat([scores, logits], dim=1) if logits.shape[1] > 1 else scores

    def finished(self, plan: EvaluationPlan, outputs: np.ndarray) -> dict[str, Score]:
        assert isinstance(plan, CrossEncoderPlan)  # made by `plan`
        found: dict[str, Score] = {}
        for one, logits in zip(plan.sets, plan.logits(outputs), strict=True):
            if one.kind is Kind.NLI_PAIR and logits.shape[1] == len(NLI_CLASSES):
                for metric, score in score_classes(logits, one).items():
                    found[f"{one.split}/{one.name}/{metric}"] = score
        return found


class LexicalEvaluator(Evaluator):
    """TF-IDF, which has no encoder."""

    plan_type: ClassVar[type[EvaluationPlan]] = LexicalPlan

    def output(self, batch: Batch) -> Float[Tensor, "batch"]:
        return torch.zeros(len(batch))


class BM25Evaluator(LexicalEvaluator):
    """BM25, which has no encoder either; numbers as of `juzhen.metrics.bm25.BM25`.

    Raises UserError where what it needs is not installed.
    """

    unscored = UNSCORED_BY_BM25
    plan_type = BM25Plan

    def __init__(self, *, tokens: str = CHARACTERS, k1: float = K1, b: float = B) -> None:
        require_bm25s()
        cut_of(tokens)
        self._index = partial(BM25, tokens=tokens, k1=k1, b=b)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> BM25Plan:
        return BM25Plan(sets, index=self._index)


def lexical_evaluator(name: str, **numbers: Any) -> LexicalEvaluator:
    """That of a model in LEXICAL, with the numbers of its configuration. Errors: as `BM25Evaluator`."""
    return LexicalEvaluator() if name == TF_IDF else BM25Evaluator(**numbers)


def pair_logits(encoder: CrossEncoder, batch: Batch) -> Float[Tensor, "batch outputs"]:
    """The mean over the orders in which the batch holds each pair."""
    every = encoder(batch.tokens)
    return torch.stack([every[rows] for rows in batch.columns.values()]).mean(dim=0)


def embedding_cache_dir(is_kept: bool, cache_dir: str | None) -> str | None:
    """Where `evaluation.cache_embeddings` keeps embeddings. Raises UserError where there is no place for it."""
    if is_kept and cache_dir is None:
        raise UserError(
            "evaluation.cache_embeddings=true: embeddings are kept below cache_dir, which is null; "
            "set cache_dir=<a folder>"
        )
    return cache_dir if is_kept else None
