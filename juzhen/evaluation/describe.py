"""Row statistics of a result: number, kind, and counts of truncated, unknown and seen rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from juzhen.core.examples import NUM_CANDIDATES, Examples, Kind, Side
from juzhen.core.text_warnings import Unknown, added
from juzhen.data.leaks import Seen
from juzhen.data.running_text import TextTable
from juzhen.encoders.chunks import TruncationStats, most_tokens, uncut
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import ReadSentences
from juzhen.evaluation.encoding_plan import EncodingPlan
from juzhen.families.registry import family_of

Described = dict[str, dict[str, Any]]


def describe_rows(
    sets: Mapping[str, Examples],
    cut: Mapping[str, TruncationStats],
    unknown: Mapping[str, Unknown],
    *,
    temperature: float | None,
) -> Described:
    """Row statistics: `split/dataset` → counts and fingerprints.

    Args:
        temperature: Divides the scores of positive pairs. None if none are scored.
    """
    described: Described = {}
    for key, examples in sets.items():
        described[key] = {}
        if (left_out := cut.get(key)) is not None:
            described[key]["cut"] = asdict(left_out) | {"share": round(left_out.share, 6)}
        if (counted := unknown.get(key)) is not None:
            described[key]["unknown"] = counted.facts()
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
    """Row statistics of each split, with the rows that training has seen if they were counted."""
    leaks = {
        key: {"leaked": {"rows": len(rows.rows), "share": rows.share, "by_set": dict(rows.by_set)}}
        for key, rows in seen.items()
    }
    return {key: described | leaks.get(key, {}) for key, described in data.items()}


def cut_in_training(
    encoder: Any, collate: SentenceCollator, sets: Mapping[str, Examples]
) -> dict[str, TruncationStats]:
    """`train/set` → number of truncated texts, from the tokens of the training. Empty without an encoder."""
    if encoder is None or not (family := family_of(encoder)).cuts:
        return {}
    cuts = {}
    for name, examples in sets.items():
        is_running = isinstance(examples.sentences, TextTable)
        lengths = None if is_running else collate.token_counts(examples)
        cuts[f"train/{name}"] = family.cut(encoder, examples, lengths)
    return cuts


def cut_in_evaluation(
    encoder: Any, collate: SentenceCollator, plan: EncodingPlan | None
) -> dict[str, TruncationStats]:
    """`split/set` → number of truncated texts, or pairs, from the tokens of the encoded sentences."""
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


def unknown_in_training(
    encoder: Any, collate: SentenceCollator, sets: Mapping[str, Examples]
) -> dict[str, Unknown]:
    """`train/set` → characters and texts that the encoder cannot distinguish, from the training tokens.

    Running text is left out, because its tokens are not stored.
    """
    if encoder is None or not family_of(encoder).cuts:
        return {}
    counts = {}
    for name, examples in sets.items():
        if not isinstance(examples.sentences, TextTable):
            used, read = (
                np.unique(np.stack(list(examples.columns.values()))),
                collate.read_sentences(examples),
            )
            counts[f"train/{name}"] = read.counted(examples.sentences, used, encoder.inner.tokenizer)
    return counts


def read_in_evaluation(
    encoder: Any, collate: SentenceCollator, plan: EncodingPlan | None
) -> ReadSentences | None:
    """Unknown characters in the sentences of a plan, from the encoded tokens. None without an encoder.

    Sentences with embeddings from a cache, or read in chunks, have no tokens at this point, and are tokenised.
    """
    if encoder is None or plan is None or not family_of(encoder).cuts:
        return None
    count, inner = len(plan.sentences), encoder.inner
    read, is_chunked = ReadSentences.none(count), getattr(encoder, "chunk_overlap", None) is not None
    absent = np.arange(count)
    if not is_chunked:
        found, pending = collate.read_sentences(plan.examples), plan.pending
        read.is_unknown[pending] = found.is_unknown[: len(pending)]
        read.codes[pending] = found.codes[: len(pending)]
        absent = np.setdiff1d(absent, pending)
    sides = getattr(plan, "read", np.zeros(count, dtype=np.int8))
    for side in np.unique(sides[absent]).tolist():
        numbers, reader = absent[sides[absent] == side], inner.reading(Side(side))
        texts = [plan.sentences[number] for number in numbers.tolist()]
        table = uncut(reader, texts) if is_chunked else reader.tokenize(texts)
        read.put(numbers, reader, table, is_whole=is_chunked)
    return read


def unknown_in_evaluation(
    encoder: Any, plan: EncodingPlan | None, read: ReadSentences | None
) -> dict[str, Unknown]:
    """`split/set` → characters that the encoder does not know. `read`: output of `read_in_evaluation`."""
    if plan is None or read is None:
        return {}
    return {
        f"{dataset.split}/{dataset.name}": read.counted(
            plan.sentences, np.unique(numbers[numbers >= 0]), encoder.inner.tokenizer
        )
        for dataset, numbers in plan.tables()
    }


def unknown_line(counts: Mapping[str, Unknown], where: str) -> str | None:
    """One line about all of them. None if all characters are known and no two texts are equal."""
    line = added([*counts.values()]).line()
    return f"{where}: {line}" if line else None


def _lengths(counts: np.ndarray, sentences: Sequence[str], encoder: SentenceEncoder) -> np.ndarray:
    """Tokens of each sentence. The maximum for those with embeddings from a cache (−1)."""
    unknown = np.flatnonzero(counts < 0)
    if len(unknown):
        texts = [sentences[number] for number in unknown.tolist()]
        counts[unknown] = np.minimum(most_tokens(encoder, texts), encoder.max_length)
    return counts


def cut_line(cuts: Mapping[str, TruncationStats], where: str) -> str | None:
    """One line about all of them. None if nothing is truncated."""
    if not any(counted.cut for counted in cuts.values()):
        return None
    worst = max(cuts, key=lambda key: cuts[key].share)
    first = cuts[worst]
    looked_at, cut = (
        sum(getattr(counted, name) for counted in cuts.values()) for name in ("looked_at", "cut")
    )
    total = TruncationStats(looked_at, cut, first.max_length, first.unit)
    most = f", most in {worst}: {first}" if len(cuts) > 1 else ""
    return f"max_length={first.max_length}: {total} of {where} are longer and are cut there{most}"
