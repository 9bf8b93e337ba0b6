"""Analysis of embedding spaces: measures, two-dimensional maps (PCA and t-SNE) and the texts to analyse."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import orthogonal_procrustes

from juzhen.core.columns import as_column, as_text_list
from juzhen.core.errors import UserError, require_choice
from juzhen.core.kinds import Kind
from juzhen.core.paths import suffix_of
from juzhen.core.result import Result
from juzhen.core.space import PCA, TITLES, TSNE, EmbeddingAnalysis, WordPairs
from juzhen.core.text import counted, text_fault
from juzhen.data.loading import Probe
from juzhen.data.row_checks import listed
from juzhen.data.row_kinds import Guess, guess, read_raw
from juzhen.data.rows import ConfiguredSets, split_raw
from juzhen.data.spec import read_description, require_set
from juzhen.data.tables import (
    AS_IT_LOOKS,
    TableReading,
    column_place,
    names_of,
    refuse_rows,
    require_fields,
    sound_texts,
    warn_dropped,
)
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.evaluation.run import require_vectors
from juzhen.evaluation.saved_run import load_start
from juzhen.families.registry import FAMILIES, family_in, open_encoder
from juzhen.metrics import geometry
from juzhen.metrics.classification import v_measure
from juzhen.metrics.correlation import partial_spearman, spearman
from juzhen.metrics.geometry import explained_variance, unit
from juzhen.metrics.lexical import JACCARD, lexical_scores

FEWEST = {PCA: 3, TSNE: 10}
"""Texts that a map needs: with fewer, t-SNE has no neighbourhoods to keep."""
PERPLEXITY = 30
"""Of t-SNE, as in its paper. For few texts (n − 1) / 3."""

Map = Float[np.ndarray, "texts two"]


def require_maps(methods: Sequence[str], num_texts: int) -> None:
    """Check that every map is known and has enough texts.

    Args:
        methods: `pca`, `tsne`.
        num_texts: Number of texts on each map.

    Raises:
        UserError: Another method, or too few texts for one.
    """
    for method in methods:
        require_choice("maps", method, FEWEST)
        if num_texts < FEWEST[method]:
            raise UserError(
                f"{TITLES[method]} of {counted(num_texts, 'texts')}: it needs at least {FEWEST[method]}. "
                "Give more texts"
            )


def project(embeddings: Float[np.ndarray, "texts dim"], method: str, *, seed: int) -> Map:
    """Draw the map of one space. The same seed gives the same map.

    If all embeddings are equal, all points are 0.

    Args:
        embeddings: Brought to length 1 before.
        method: `pca` or `tsne`.
        seed: Of the start of t-SNE. PCA does not use it.

    Returns:
        float64 (texts, 2).
    """
    vectors = unit(embeddings)
    if not len(explained_variance(vectors)):
        return np.zeros((len(vectors), 2))
    return np.asarray(_METHODS[method](vectors, seed), dtype=np.float64)


def shown_share(embeddings: Float[np.ndarray, "texts dim"]) -> float | None:
    """Compute the share of the variance in the first two principal components.

    Args:
        embeddings: Brought to length 1 before.

    Returns:
        From 0 to 1. None if all embeddings are equal.
    """
    shares = explained_variance(unit(embeddings))
    return float(shares[:2].sum()) if len(shares) else None


def turned(points: Map, like: Map) -> Map:
    """Rotate and mirror a map so that its points come as near as possible to those of another map.

    Distances within a map stay the same. Its direction has no meaning. (Orthogonal Procrustes, Schönemann
    1966)

    Args:
        points: The map to turn.
        like: Map of the same texts in the same order.

    Returns:
        (texts, 2), with the mean at 0.
    """
    points, like = points - points.mean(axis=0), like - like.mean(axis=0)
    return points @ orthogonal_procrustes(points, like)[0]


def _pca(vectors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn import decomposition

    return decomposition.PCA(2, svd_solver="full").fit_transform(vectors)


def _tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn import manifold

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    return manifold.TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


_METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {PCA: _pca, TSNE: _tsne}


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
"""Metric → its meaning, in display order."""


@dataclass(frozen=True)
class TextSet:
    """The texts of one set, or a sample of them.

    Attributes:
        name: Name of the set.
        probe: Its texts, with classes and gold pairs where the set has them.
        of: Number of texts before sampling.
        class_names: By class number. Empty for a set without classes.
    """

    name: str
    probe: Probe
    of: int
    class_names: Sequence[str] = ()


@takes_peer_options
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
    """Measure and map the embeddings of texts, and compare those of two encoders.

    `juzhen.report.space_page` draws the result.

    Args:
        first: An encoder, a run, a folder or a built-in name.
        second: Another one to compare with.
        texts: The texts to embed.
        classes: Name of the class of each text.
        maps: Names of the maps to draw: pca, tsne.
        seed: Seed of the maps and of the sampled pairs.
        options: Of `encode`, such as batch_tokens.

    Returns:
        Measures and maps of the embeddings.

    Raises:
        UserError: An encoder without embeddings, or too few texts.

    Example:
        >>> texts = ["怎么退货", "如何退货", "几天发货", "能开发票吗", "今天天气很好"]
        >>> texts += ["A dog.", "运费由谁付", "怎么退款", "hello", "到货了"]
        >>> studied = analyze_embeddings("builtin/mini_zh", texts=texts, maps=["pca"])
        >>> studied.plain()["runs"][0]["sets"]["texts"]["dimensions"]
        256
    """
    encoders = [encoder for encoder in (first, second) if encoder is not None]
    names = [
        str(encoder) if isinstance(encoder, str | Path) else f"encoder {n}"
        for n, encoder in enumerate(encoders, 1)
    ]
    require_vectors(*(encoder for encoder in encoders if isinstance(encoder, str | Path)))
    texts, numbers = as_text_list(texts), None
    class_names: Sequence[str] | np.ndarray = ()
    if classes is not None:
        names_of_classes = as_column(classes, "classes")
        if len(names_of_classes) != len(texts) or any(
            name is None or name != name for name in names_of_classes
        ):
            raise UserError(
                f"classes: expected a name for each of {len(texts)} texts. Leave texts without a class out."
            )
        class_names, numbers = np.unique(names_of_classes, return_inverse=True)
    probe = Probe.of_texts(texts, num_sentences=len(texts), seed=seed, classes=numbers)
    sets = [TextSet("texts", probe, len(texts), list(map(str, class_names)))]
    return study(dict(zip(names, encoders, strict=True)), sets, maps=maps, seed=seed, **options)


def starting_encoder(run: str | Path) -> SentenceEncoder:
    """Load the encoder from which a finished run started, or its unchanged backbone.

    Args:
        run: Folder of the run.

    Returns:
        The encoder in evaluation mode.

    Raises:
        UserError: A run with templates, or a missing start or result.
    """
    if family_in(Path(run)) is FAMILIES["template"]:
        raise UserError(f"before={run}: reads sentences through templates. Name its backbone instead")
    return load_start(Result.read(run))


def require_sets(sets: Sequence[TextSet], *, maps: Sequence[str], colour: str | None) -> str:
    """Choose the colour of the maps, and check that the sets suit maps and colour.

    Args:
        sets: All texts that are drawn.
        maps: `pca`, `tsne`.
        colour: `class` or `set`. None: classes if it is one set that has them.

    Returns:
        `class` or `set`.

    Raises:
        UserError: Too few texts, or colours by class for a set without classes.
    """
    require_maps(maps, sum(len(part.probe.sentences) for part in sets))
    without = [part.name for part in sets if part.probe.classes is None]
    if colour == CLASS and without:
        raise UserError(
            f"colour=class: {', '.join(without)} has no classes. Type colour=set, or leave it out"
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
    """Encode the texts of all sets with one or two encoders, and measure the embeddings.

    Args:
        encoders: Name → an encoder or its source. The encoder before training comes first.
        sets: The texts.
        maps: Of pca and tsne.
        colour: Of the maps: class or set. None: class for a single set with classes, else set.
        seed: Of the maps and of the sampled pairs.
        batch_tokens: Tokens in a batch.
        show_progress: Show a progress bar. None: on a terminal.

    Returns:
        The embeddings' metrics, maps and neighbours.

    Raises:
        UserError: Too few texts for a map, an unknown map or colour, or an encoder without vectors.
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
        meanings=MEANINGS | (geometry.AGREEMENTS if len(spaces) > 1 else {}),
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
    share = geometry.neighbours_kept(*spaces, num_neighbours=geometry.NUM_NEIGHBOURS)
    return {"cka": geometry.linear_cka(*spaces), "neighbours_kept": share}


def _word_pairs(part: TextSet, spaces: Sequence[np.ndarray], *, first_row: int, seed: int) -> WordPairs:
    rows, grades, are = _pairs_of(part.probe, np.random.default_rng(seed))
    first, second = ([part.probe.sentences[row] for row in side] for side in rows)
    cosines = [np.einsum("pd,pd->p", *geometry.unit(embeddings)[rows]) for embeddings in spaces]
    return WordPairs(rows + first_row, lexical_scores(first, second, method=JACCARD), cosines, grades, are)


def _pairs_of(probe: Probe, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None, str]:
    """The pairs of a set. Without pairs, each text with one of its class and one of another class.

    Without classes, each text with a random one.
    """
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
    if colour == SET:
        return of_set, [part.name for part in sets]
    labels = [
        name if len(sets) == 1 else f"{part.name}: {name}"
        for part in sets
        for number in (() if part.probe.classes is None else part.probe.classes)
        for name in [part.class_names[number] if number < len(part.class_names) else f"class {number}"]
    ]
    names = list(dict.fromkeys(sorted(labels)))
    return np.array([names.index(label) for label in labels]), names


FIELDS = ("text", "label")
"""Of a table of texts."""

SPLITS = ("dev", "test", "train")
"""In the order in which they are looked for."""


def read_text_sets(
    names: Sequence[str],
    sets: ConfiguredSets,
    *,
    split: str | None,
    most: int,
    seed: int,
    reading: TableReading = AS_IT_LOOKS,
) -> list[TextSet]:
    """Sample at most `most` texts of each set or file.

    Args:
        names: Described sets, files with one text per line (.txt), or tables with a column `text`, and
            `label` for classes.
        sets: The described sets.
        split: Of the described sets. None: the first split with a file.
        most: At most this many texts of each.
        seed: Of the sample.
        reading: How to read the files.

    Returns:
        A sample for each name, in order.

    Raises:
        UserError: A name that is neither a set nor a file, or faulty rows.
    """
    if sets.files.keys() >= {*names}:
        reading.require_unread(names[0])
    chosen = []
    for name in names:
        if name in sets.files:
            chosen.append(_described(name, sets, split=split, most=most, seed=seed))
        elif Path(name).suffix:
            chosen.append(_of_file(Path(name), reading, most=most, seed=seed))
        else:
            require_set("data", name, sets.files)
    return chosen


def _described(name: str, sets: ConfiguredSets, *, split: str | None, most: int, seed: int) -> TextSet:
    splits = sets.splits(name, [split] if split else SPLITS, option="data")
    rows = next(rows for _, rows in splits if rows is not None)
    labels: dict[int, str] = {}
    for word, number in (read_description(sets.files[name]).labels or {}).items():
        labels.setdefault(number, word)  # a file may write a class in several ways; the first is its name
    probe = Probe.of(rows, num_sentences=most, seed=seed)
    names = [labels.get(number, f"class {number}") for number in range(max(labels, default=-1) + 1)]
    return TextSet(f"{name} ({rows.split})", probe, len(rows.sentences), names)


def _of_file(path: Path, reading: TableReading, *, most: int, seed: int) -> TextSet:
    require_fields(reading, *FIELDS)
    is_of_lines = suffix_of(path) == ".txt" and not reading.columns
    texts, labels = _lines(path, reading) if is_of_lines else _cells(path, reading)
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    classes, names = None, list[str]()
    if labels is not None:
        label_names, classes = np.unique([labels[row] for row in first.values()], return_inverse=True)
        names = label_names.tolist()
    probe = Probe.of_texts([*first], num_sentences=most, seed=seed, classes=classes)
    return TextSet(path.name, probe, len(first), names)


def _lines(path: Path, reading: TableReading) -> tuple[list[str], None]:
    table, texts, _, faults = sound_texts(path, reading)
    warn_dropped(table.place, len(faults))
    return texts, None


def _cells(path: Path, reading: TableReading) -> tuple[list[str], list[str] | None]:
    raw = read_raw(path, reading)
    if reading.columns:
        names = names_of(raw.table)
        columns = {
            field: names[column_place(raw.table, name, field, reading)]
            for field, name in reading.columns.items()
        }
    else:
        columns = {name: name for name in FIELDS if name in raw.names}
    if "text" not in columns:
        columns = guess(raw, columns={}).columns | columns
        if "text" not in columns:
            raise UserError(
                f"data={path}: no column `text`, but {listed(raw.names)}. Name the columns text and label, or type "
                f"{reading.spell('columns', {'text': '1', 'label': '2'})}"
            )
    kind = Kind.LABELLED_TEXT if "label" in columns else Kind.SENTENCE
    raw = split_raw(raw, Guess(kind, columns))
    faults, rows = raw.faults, []
    cells = {field: raw.cells[columns[field]].tolist() for field in FIELDS if field in columns}
    for row, (line, *values) in enumerate(zip(raw.cells.index.tolist(), *cells.values(), strict=True)):
        pairs = zip(cells, values, strict=True)
        wrong = [f"{field} {fault}" for field, value in pairs if (fault := text_fault(value))]
        if wrong:
            faults.setdefault(line, wrong[0])
        else:
            rows.append(row)
    refuse_rows(raw.table, faults, len(rows), reading)
    warn_dropped(raw.place, len(faults))
    texts, *labels = ([values[row] for row in rows] for values in cells.values())
    return texts, labels[0] if labels else None
