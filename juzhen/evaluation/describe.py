"""What a result says of the rows that were read: how many, of which kind, how many are cut, how many were seen."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from juzhen.core.examples import Examples, Kind
from juzhen.core.neighbours import NUM_CANDIDATES
from juzhen.data.leaks import Seen
from juzhen.data.text_table import TextTable
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.cut import Cut, most_tokens
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


def cut_in_training(encoder: Any, collate: SentenceCollator, sets: Mapping[str, Examples]) -> dict[str, Cut]:
    """`train/set` → how many of its texts are cut, from the tokens that training reads; empty without an encoder."""
    found = {}
    for name, examples in sets.items() if encoder is not None else ():
        is_running = isinstance(examples.sentences, TextTable)
        lengths = None if is_running else collate.token_counts(examples)
        found[f"train/{name}"] = family_of(encoder).cut(encoder, examples, lengths)
    return found


def cut_in_evaluation(encoder: Any, collate: SentenceCollator, plan: EvaluationPlan | None) -> dict[str, Cut]:
    """`split/set` → how many of its texts, or pairs, are cut, from the tokens of the sentences that were encoded."""
    if encoder is None or plan is None or not (family := family_of(encoder)).cuts:
        return {}
    counts = collate.token_counts(plan.examples)
    known: dict[str, int] = {}
    for sentence, length in zip(plan.examples.sentences, counts.tolist(), strict=True):
        known[sentence] = max(length, known.get(sentence, 0))  # as a query, or as a document
    sets = list(plan.sets)
    if family.has_embeddings:
        sets += [one.read_texts if encoder.sides.any() else one.texts for one in plan.rankings]
    return {
        f"{one.split}/{one.name}": family.cut(encoder, one, _lengths(known, one.sentences, encoder.inner))
        for one in sets
    }


def _lengths(known: Mapping[str, int], sentences: Sequence[str], encoder: SentenceEncoder) -> np.ndarray:
    """Tokens of each sentence; of those whose embeddings came from a cache as many as there can be."""
    if all(sentence in known for sentence in sentences):
        return np.array([known[sentence] for sentence in sentences], dtype=np.int64)
    return np.minimum(most_tokens(encoder, sentences), encoder.max_length)


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
