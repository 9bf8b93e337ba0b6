"""What a result says of the rows that were read: how many, of which kind, how many are cut, how many were seen."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.core.neighbours import NUM_CANDIDATES
from juzhen.data.leaks import Seen
from juzhen.data.text import TextTable
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.cut import Cut, cut_of, most_tokens
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.plan import EvaluationPlan

Described = dict[str, dict[str, Any]]


def describe_rows(
    sets: Mapping[str, Examples], cut: Mapping[str, Cut], *, temperature: float | None
) -> Described:
    """`split/dataset` → what is known of its rows.

    temperature  divides the scores of positive pairs; None where none are scored
    """
    found: Described = {}
    for key, one in sets.items():
        found[key] = {}
        if (left_out := cut.get(key)) is not None:
            found[key]["cut"] = asdict(left_out) | {"share": round(left_out.share, 6)}
        found[key] |= {
            "rows": len(one),
            "kind": str(one.kind),
            "dropped": one.num_dropped,
            "leaky": one.num_leaky,
            "fingerprint": one.fingerprint,
        }
        if one.kind is Kind.POSITIVE_PAIR and one.split != "train":
            found[key] |= {"candidates": min(NUM_CANDIDATES, len(one)), "temperature": temperature}
    return found


def with_leaks(data: Described, seen: Mapping[str, Seen]) -> Described:
    """What is known of each split, and how much of it training has seen where that was looked for."""
    found = {
        key: {"leaked": {"rows": len(one.rows), "share": one.share, "by_set": dict(one.by_set)}}
        for key, one in seen.items()
    }
    return {key: described | found.get(key, {}) for key, described in data.items()}


def cut_in_training(
    encoder: SentenceEncoder | CrossEncoder | None, collate: SentenceCollator, sets: Mapping[str, Examples]
) -> dict[str, Cut]:
    """`train/set` → how many of its texts are cut, from the tokens that training reads; empty without an encoder."""
    if encoder is None:
        return {}
    lengths = {
        name: None if isinstance(examples.sentences, TextTable) else collate.token_counts(examples)
        for name, examples in sets.items()
    }
    return {f"train/{name}": cut_of(encoder, examples, lengths[name]) for name, examples in sets.items()}


def cut_in_evaluation(
    encoder: SentenceEncoder | CrossEncoder | None,
    collate: SentenceCollator | None,
    plan: EvaluationPlan | None,
) -> dict[str, Cut]:
    """`split/set` → how many of its texts, or pairs, are cut, from the tokens of the sentences that were encoded."""
    if encoder is None or collate is None or plan is None:
        return {}
    inner = encoder.inner if isinstance(encoder, CrossEncoder) else encoder
    lengths = np.full(len(plan.sentences), -1, dtype=np.int64)
    lengths[plan.pending] = collate.token_counts(plan.examples)[: len(plan.pending)]
    return {
        f"{one.split}/{one.name}": cut_of(
            encoder, one, _lengths(np.where(places < 0, -1, lengths[places]), one.sentences, inner)
        )
        for one, places in plan.tables()
    }


def _lengths(known: np.ndarray, sentences: Sequence[str], encoder: SentenceEncoder) -> np.ndarray:
    """Tokens of each sentence; of those whose embeddings came from a cache (−1) as many as there can be."""
    unknown = np.flatnonzero(known < 0)
    if len(unknown):
        texts = [sentences[number] for number in unknown.tolist()]
        known[unknown] = np.minimum(most_tokens(encoder, texts), encoder.max_length)
    return known


def cut_line(found: Mapping[str, Cut], where: str) -> str | None:
    """One line about all of them; None where nothing is cut."""
    if not any(one.cut for one in found.values()):
        return None
    worst = max(found, key=lambda key: found[key].share)
    first = found[worst]
    looked_at, cut = (sum(getattr(one, name) for one in found.values()) for name in ("looked_at", "cut"))
    whole = Cut(looked_at, cut, first.max_length, first.unit)
    most = f", most in {worst}: {first}" if len(found) > 1 else ""
    return f"max_length={first.max_length}: {whole} of {where} are longer and are cut there{most}"
