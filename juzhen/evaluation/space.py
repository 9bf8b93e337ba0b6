"""The spaces of one encoder or of two: sets of texts encoded once, measured, compared and projected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.core.space import EmbeddingAnalysis, WordPairs
from juzhen.data.probe import Probe
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.evaluation.finished import load_start
from juzhen.families.registry import FAMILIES, family_in, find_family, open_encoder
from juzhen.metrics import agreement, geometry
from juzhen.metrics.classes import v_measure
from juzhen.metrics.correlation import partial_spearman, spearman
from juzhen.metrics.lexical import JACCARD, lexical_scores
from juzhen.metrics.maps import TITLES, project, require_maps, shown_share, turned

MAPS = tuple(TITLES)
ALL_SETS = "all sets"
CLUSTERINGS = 10
CLASS, SET = "class", "set"

MEANINGS = geometry.MEANINGS | {
    "v_measure": "of k-means against the classes: 0 to 1, higher = the clusters are the classes",
    "overlap_cosine": "Spearman of word overlap (Jaccard) and cosine: 1 = shared words decide",
    "overlap_gold": "Spearman of word overlap and the gold similarity",
    "cosine_gold": "Spearman of the cosine and the gold similarity",
    "beyond_overlap": "the same with word overlap taken out (partial): what the encoder knows besides",
}
"""Measure → what it says, in the order in which they are shown."""


@dataclass(frozen=True)
class TextSet:
    """The texts of one set, or a sample of them.

    of           how many there were to take from
    class_names  by class number; empty where the set has no classes
    """

    name: str
    probe: Probe
    of: int
    class_names: Sequence[str] = ()


def analyze_embeddings(
    first: Any,
    second: Any = None,
    *,
    texts: Sequence[str],
    classes: Sequence[str] | None = None,
    maps: Sequence[str] = MAPS,
    seed: int = 42,
    **options: Any,
) -> EmbeddingAnalysis:
    """Where texts lie in the space of an encoder, or of two: measures, maps, and what the two have in common.

    first, second  encoders, or what names one: a run, a folder, a built-in name
    classes        name of the class of each text
    maps           of pca and tsne
    options        of `encode`, such as batch_tokens

    Raises UserError for encoders without embeddings, and for too few texts. `juzhen.report.space_page` draws it.
    """
    encoders = [encoder for encoder in (first, second) if encoder is not None]
    names = [
        str(encoder) if isinstance(encoder, str | Path) else f"encoder {n}"
        for n, encoder in enumerate(encoders, 1)
    ]
    require_vectors(*(encoder for encoder in encoders if isinstance(encoder, str | Path)))
    class_names, numbers = np.unique(classes, return_inverse=True) if classes is not None else ((), None)
    probe = Probe.of_texts(texts, num_sentences=len(texts), seed=seed, classes=numbers)
    sets = [TextSet("texts", probe, len(texts), list(map(str, class_names)))]
    return study(dict(zip(names, encoders, strict=True)), sets, maps=maps, seed=seed, **options)


def require_vectors(*sources: str | Path) -> None:
    """Raises UserError where one of the encoders, by its files, gives no embeddings."""
    for source in sources:
        if not find_family(source).has_embeddings:
            raise UserError(
                f"{source}: scores pairs and has no embeddings, so its texts lie in no space; name a bi-encoder"
            )


def starting_encoder(run: str | Path) -> SentenceEncoder:
    """What a finished run has begun with: the encoder that it went on from, or its backbone as it was.

    Raises UserError for a run with templates, and where its start or its result is gone.
    """
    if family_in(Path(run)) is FAMILIES["template"]:
        raise UserError(
            f"--before: {run} reads sentences through templates; name the encoder before it by itself"
        )
    return load_start(Result.read(run))


def require_sets(sets: Sequence[TextSet], *, maps: Sequence[str], colour: str | None) -> str:
    """What colours the maps. Raises UserError for too few texts, and for classes that a set does not have."""
    require_maps(maps, sum(len(part.probe.sentences) for part in sets))
    without = [part.name for part in sets if part.probe.classes is None]
    if colour == CLASS and without:
        raise UserError(
            f"--colour class: {', '.join(without)} has no classes; type --colour set, or leave it out"
        )
    return colour or (SET if without or len(sets) > 1 else CLASS)


def study(
    encoders: Mapping[str, Any],
    sets: Sequence[TextSet],
    *,
    maps: Sequence[str] = MAPS,
    colour: str | None = None,
    seed: int = 42,
    batch_tokens: int = BATCH_TOKENS,
    show_progress: bool | None = None,
) -> EmbeddingAnalysis:
    """Encodes the texts of all sets by one encoder or by two, and measures them.

    encoders  name → an encoder, or what names one; the one before training first
    colour    of the maps: class or set; None: class, where there is one set and it has classes
    """
    colour = require_sets(sets, maps=maps, colour=colour)
    texts = [text for part in sets for text in part.probe.sentences]
    spaces = [
        open_encoder(encoder).encode(texts, batch_tokens=batch_tokens, show_progress=show_progress)
        for encoder in encoders.values()
    ]
    of_set = np.repeat(np.arange(len(sets)), [len(part.probe.sentences) for part in sets])
    rows = {part.name: np.flatnonzero(of_set == number) for number, part in enumerate(sets)}
    numbers: dict[str, Sequence[Mapping[str, Any]]] = {}
    together, pairs = {}, {}
    for part in sets:
        own = [embeddings[rows[part.name]] for embeddings in spaces]
        drawn = _word_pairs(part, own, first_row=int(rows[part.name][0]), seed=seed)
        numbers[part.name] = [
            _measures(embeddings, part.probe, seed=seed) | _overlap(drawn, number)
            for number, embeddings in enumerate(own)
        ]
        together[part.name], pairs[part.name] = _agreement(own), drawn
    if len(sets) > 1:
        union = Probe(texts, np.empty((2, 0), np.int64), np.empty(0), of_set)
        numbers[ALL_SETS] = [_measures(embeddings, union, seed=seed) for embeddings in spaces]
        together[ALL_SETS] = _agreement(spaces)
    groups, names = _groups(sets, of_set, colour)
    few = min(geometry.NUM_NEIGHBOURS, len(texts) - 1)
    drawn_maps = {
        method: [project(embeddings, method, seed=seed) for embeddings in spaces] for method in maps
    }
    return EmbeddingAnalysis(
        runs=list(encoders),
        texts=texts,
        groups=groups,
        group_names=names,
        colour=colour,
        numbers=numbers,
        together=together if len(spaces) > 1 else {},
        maps={
            method: [*both[:1], *(turned(other, both[0]) for other in both[1:])]
            for method, both in drawn_maps.items()
        },
        shares=[shown_share(embeddings) for embeddings in spaces],
        nearest=[geometry.nearest_rows(embeddings, num_neighbours=few) for embeddings in spaces],
        pairs=pairs,
        sample={part.name: (len(part.probe.sentences), part.of) for part in sets},
        seed=seed,
        meanings=MEANINGS | (agreement.MEANINGS if len(spaces) > 1 else {}),
    )


def _measures(embeddings: np.ndarray, probe: Probe, *, seed: int) -> dict[str, Any]:
    measures: dict[str, Any] = {
        "dimensions": embeddings.shape[1],
        **geometry.measure_space(embeddings, pairs=probe.pairs, grades=probe.grades, classes=probe.classes),
    }
    if probe.classes is not None:
        of_clusters = v_measure(embeddings, probe.classes, clusterings=CLUSTERINGS, seed=seed)
        measures["v_measure"] = of_clusters.value
    return measures | {"spectrum": geometry.singular_values(embeddings).tolist()}


def _agreement(spaces: Sequence[np.ndarray]) -> dict[str, float | None]:
    if len(spaces) < 2:
        return {}
    share = agreement.neighbours_kept(*spaces, num_neighbours=geometry.NUM_NEIGHBOURS)
    return {"cka": agreement.linear_cka(*spaces), "neighbours_kept": share}


def _word_pairs(part: TextSet, spaces: Sequence[np.ndarray], *, first_row: int, seed: int) -> WordPairs:
    rows, grades, are = _pairs_of(part.probe, np.random.default_rng(seed))
    first, second = ([part.probe.sentences[row] for row in side] for side in rows)
    cosines = [np.einsum("pd,pd->p", *geometry.unit(embeddings)[rows]) for embeddings in spaces]
    return WordPairs(rows + first_row, lexical_scores(first, second, method=JACCARD), cosines, grades, are)


def _pairs_of(probe: Probe, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None, str]:
    """The pairs of a set; else of each text with one of its class and one of another; else each with any."""
    count = len(probe.sentences)
    if probe.pairs.shape[1]:
        graded = probe.grades if len(np.unique(probe.grades)) > 1 else None
        return probe.pairs, graded, "pairs of the set"
    order = generator.permutation(count)
    if probe.classes is None:
        return np.stack([order, np.roll(order, 1)]), None, "texts drawn at random, two and two"
    firsts, seconds = [], []
    for number in np.unique(probe.classes):
        inside = order[probe.classes[order] == number]
        outside = order[probe.classes[order] != number]
        if len(inside) > 1:
            firsts.append(inside)
            seconds.append(np.roll(inside, 1))
        if len(outside):
            firsts.append(inside)
            seconds.append(generator.choice(outside, len(inside)))
    pairs = np.stack([np.concatenate(firsts), np.concatenate(seconds)])
    is_same = (probe.classes[pairs[0]] == probe.classes[pairs[1]]).astype(np.float32)
    return pairs, is_same, "each text with one of its class and with one of another class"


def _overlap(pairs: WordPairs, number: int) -> dict[str, float | None]:
    cosines = pairs.cosines[number]
    measures = {"overlap_cosine": spearman(pairs.overlap, cosines)}
    if pairs.grades is not None:
        against = partial(spearman, grades=pairs.grades)
        measures |= {
            "overlap_gold": against(pairs.overlap),
            "cosine_gold": against(cosines),
            "beyond_overlap": partial_spearman(cosines, pairs.grades, pairs.overlap),
        }
    return measures


def _groups(sets: Sequence[TextSet], of_set: np.ndarray, colour: str) -> tuple[np.ndarray, list[str]]:
    """The number of the group of each text, and the groups that have a text."""
    if colour == SET:
        return of_set, [part.name for part in sets]
    labels = [
        name if len(sets) == 1 else f"{part.name}: {name}"
        for part in sets
        for name in (
            _class_name(part, number) for number in (() if part.probe.classes is None else part.probe.classes)
        )
    ]
    names = list(dict.fromkeys(sorted(labels)))
    return np.array([names.index(label) for label in labels]), names


def _class_name(part: TextSet, number: int) -> str:
    return part.class_names[number] if number < len(part.class_names) else f"class {number}"
