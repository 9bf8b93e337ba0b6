"""What a result says of the rows that were read: how many, of which kind, how many are cut, how many were seen."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.core.neighbours import NUM_CANDIDATES
from juzhen.data.leaks import Seen
from juzhen.data.text import TextTable
from juzhen.encoders.chunks import most_tokens
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.cut import Cut
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.plan import EvaluationPlan
from juzhen.families import family_of

Described = dict[str, dict[str, Any]]


def describe_rows(
    sets: Mapping[str, Examples], cut: Mapping[str, Cut], *, temperature: float | None
) -> Described:
    """`split/dataset` → what is known of its rows.

    temperature  divides the scores of positive pairs; None where none are scored
    """
    described: Described = {}
    for key, examples in sets.items():
        described[key] = {}
        if (left_out := cut.get(key)) is not None:
            described[key]["cut"] = asdict(left_out) | {"share": round(left_out.share, 6)}
        described[key] |= {
            "rows": len(examples),
            "kind": str(examples.kind),
            "dropped": examples.num_dropped,
            "leaky": examples.num_leaky,
            "fingerprint": examples.fingerprint,
        }
        if examples.kind is Kind.POSITIVE_PAIR and examples.split != "train":
            described[key] |= {"candidates": min(NUM_CANDIDATES, len(examples)), "temperature": temperature}
    return described


def with_leaks(data: Described, seen: Mapping[str, Seen]) -> Described:
    """What is known of each split, and how much of it training has seen where that was looked for."""
    leaks = {
        key: {"leaked": {"rows": len(rows.rows), "share": rows.share, "by_set": dict(rows.by_set)}}
        for key, rows in seen.items()
    }
    return {key: described | leaks.get(key, {}) for key, described in data.items()}


def cut_in_training(encoder: Any, collate: SentenceCollator, sets: Mapping[str, Examples]) -> dict[str, Cut]:
    """`train/set` → how many of its texts are cut, from the tokens that training reads; empty without an encoder."""
    if encoder is None or not (family := family_of(encoder)).cuts:
        return {}
    cuts = {}
    for name, examples in sets.items():
        is_running = isinstance(examples.sentences, TextTable)
        lengths = None if is_running else collate.token_counts(examples)
        cuts[f"train/{name}"] = family.cut(encoder, examples, lengths)
    return cuts


def cut_in_evaluation(encoder: Any, collate: SentenceCollator, plan: EvaluationPlan | None) -> dict[str, Cut]:
    """`split/set` → how many of its texts, or pairs, are cut, from the tokens of the sentences that were encoded."""
    if getattr(encoder, "chunk_overlap", None) is not None:
        return {}
    if encoder is None or plan is None or not (family := family_of(encoder)).cuts:
        return {}
    lengths = np.full(len(plan.sentences), -1, dtype=np.int64)
    lengths[plan.pending] = collate.token_counts(plan.examples)[: len(plan.pending)]
    return {
        f"{dataset.split}/{dataset.name}": family.cut(
            encoder,
            dataset,
            _lengths(np.where(numbers < 0, -1, lengths[numbers]), dataset.sentences, encoder.inner),
        )
        for dataset, numbers in plan.tables()
    }


def _lengths(counts: np.ndarray, sentences: Sequence[str], encoder: SentenceEncoder) -> np.ndarray:
    """Tokens of each sentence; of those whose embeddings came from a cache (−1) as many as there can be."""
    unknown = np.flatnonzero(counts < 0)
    if len(unknown):
        texts = [sentences[number] for number in unknown.tolist()]
        counts[unknown] = np.minimum(most_tokens(encoder, texts), encoder.max_length)
    return counts


def cut_line(cuts: Mapping[str, Cut], where: str) -> str | None:
    """One line about all of them; None where nothing is cut."""
    if not any(counted.cut for counted in cuts.values()):
        return None
    worst = max(cuts, key=lambda key: cuts[key].share)
    first = cuts[worst]
    looked_at, cut = (
        sum(getattr(counted, name) for counted in cuts.values()) for name in ("looked_at", "cut")
    )
    total = Cut(looked_at, cut, first.max_length, first.unit)
    most = f", most in {worst}: {first}" if len(cuts) > 1 else ""
    return f"max_length={first.max_length}: {total} of {where} are longer and are cut there{most}"
