"""One pass of an encoder over sets: plan → encode once → score, and the row statistics that a result has of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.core.columns import as_list_of, table_columns
from juzhen.core.errors import UserError, in_python
from juzhen.core.examples import CLASSIFIED_KINDS, NUM_CANDIDATES, Examples, Kind, Side, too_few
from juzhen.core.machine import limit_threads, require_accelerator
from juzhen.core.paths import is_table
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import Unknown, added, collected, current, reported
from juzhen.data.leaks import Seen, SeenRows
from juzhen.data.loading import JobData, TransferTask, cut, load_job_data
from juzhen.data.rankings import RankingSet
from juzhen.data.running_text import TextTable
from juzhen.data.sampler import TokenBudget
from juzhen.data.spec import DatasetConfig, configured_set
from juzhen.encoders.chunks import TruncationStats, most_tokens, uncut
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.resolve_path import locate_folder
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import ReadSentences, characters
from juzhen.evaluation.encoding_plan import NOTHING, EmbeddingEvaluator, EncodingPlan, Evaluator, Sets
from juzhen.evaluation.evaluators import VectorEvaluator, embedding_cache_dir
from juzhen.evaluation.scoring import Evaluation, assemble_outputs, measure
from juzhen.evaluation.settings import EvaluationSettings, HardwareConfig, require_device
from juzhen.families.registry import family_of, find_family, open_encoder
from juzhen.metrics.classification import Features, TransferScore, classify, combined
from juzhen.metrics.ranking import RankedLists
from juzhen.models.settings import LEXICAL

Described = dict[str, dict[str, Any]]


def describe_rows(
    sets: Mapping[str, Examples],
    cut: Mapping[str, TruncationStats],
    unknown: Mapping[str, Unknown],
    *,
    temperature: float | None,
) -> Described:
    """Return row statistics of splits.

    Args:
        sets: `split/dataset` → rows.
        cut: `split/dataset` → counts of truncated texts. Splits may be missing.
        unknown: `split/dataset` → counts of unknown characters. Splits may be missing.
        temperature: Divides the scores of positive pairs. None if none are scored.

    Returns:
        `split/dataset` → counts and fingerprint.
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
    """Return row statistics of each split, with the rows that training has seen.

    Args:
        data: `split/set` → statistics. They are not changed.
        seen: `split/set` → rows that training has seen. Splits without an entry were not counted.

    Returns:
        A copy, with "leaked" where rows were counted.
    """
    leaks = {
        key: {"leaked": {"rows": len(rows.rows), "share": rows.share, "by_set": dict(rows.by_set)}}
        for key, rows in seen.items()
    }
    return {key: described | leaks.get(key, {}) for key, described in data.items()}


def cut_in_training(
    encoder: Any, collate: SentenceCollator, sets: Mapping[str, Examples]
) -> dict[str, TruncationStats]:
    """Count the truncated texts of training sets, from the tokens of the training.

    Args:
        encoder: The encoder. None for a model without one.
        collate: Has the tokens.
        sets: Name → training rows.

    Returns:
        `train/set` → counts. Empty without an encoder.
    """
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
    """Count the truncated texts, or pairs, of evaluation splits, from the tokens of the encoded sentences.

    Args:
        encoder: The encoder. None for a model without one.
        collate: Has the tokens.
        plan: What was encoded. None if nothing was.

    Returns:
        `split/set` → counts. Empty without an encoder, and for one that reads long texts in chunks.
    """
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
    """Count characters and texts of training sets that the encoder cannot distinguish, from the training tokens.

    Running text is left out, because its tokens are not stored.

    Args:
        encoder: The encoder. None for a model without one.
        collate: Has the tokens.
        sets: Name → training rows.

    Returns:
        `train/set` → counts. Empty without an encoder.
    """
    if encoder is None or not family_of(encoder).cuts:
        return {}
    counts = {}
    for name, examples in sets.items():
        if not isinstance(examples.sentences, TextTable):
            used = np.unique(np.stack(list(examples.columns.values())))
            read = collate.read_sentences(examples)
            counts[f"train/{name}"] = read.counted(examples.sentences, used, encoder.inner.tokenizer)
    return counts


def read_in_evaluation(
    encoder: Any, collate: SentenceCollator, plan: EncodingPlan | None
) -> ReadSentences | None:
    """Find unknown characters in the sentences of a plan, from the encoded tokens.

    Sentences with embeddings from a cache, or read in chunks, have no tokens at this point, and are tokenised.

    Args:
        encoder: The encoder. None for a model without one.
        collate: Has the tokens.
        plan: What was encoded. None if nothing was.

    Returns:
        The tokens of each sentence. None without an encoder.
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
    """Count characters of evaluation splits that the encoder does not know.

    Args:
        encoder: The encoder.
        plan: What was encoded. None if nothing was.
        read: Output of `read_in_evaluation`.

    Returns:
        `split/set` → counts.
    """
    if plan is None or read is None:
        return {}
    return {
        f"{dataset.split}/{dataset.name}": read.counted(
            plan.sentences, np.unique(numbers[numbers >= 0]), encoder.inner.tokenizer
        )
        for dataset, numbers in plan.tables()
    }


def unknown_line(counts: Mapping[str, Unknown], where: str) -> str | None:
    """Write a line about the unknown characters of several splits.

    Args:
        counts: `split/set` → counts.
        where: "training" or "evaluation", the first word of the line.

    Returns:
        One line. None if all characters are known and no two texts are equal.
    """
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
    """Write a line about the truncated texts of several splits.

    Args:
        cuts: `split/set` → counts.
        where: "training" or "evaluation".

    Returns:
        One line. None if nothing is truncated.
    """
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


HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.half}


@dataclass(frozen=True)
class EvaluationRun:
    """Encodes and scores with one encoder.

    Attributes:
        encoder: Of any family.
        settings: Sets, hardware and options.
        cache_dir: Folder for token numbers of large sets, and for embeddings if `settings` cache them.
        progress: Show progress bars.
    """

    encoder: Any
    settings: EvaluationSettings
    cache_dir: str | None = None
    progress: bool = False

    def __call__(
        self, sets: Sets, tasks: Sequence[TransferTask] = (), *, seen: Mapping[str, Seen]
    ) -> tuple[Evaluation, Described]:
        """Score the sets. Returns the scores and the statistics of the scored rows."""
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
        is_ours = not isinstance(self.evaluator, VectorEvaluator)
        cut = cut_in_evaluation(self._reader, self._collate, plan) if is_ours else {}
        read = read_in_evaluation(self._reader, self._collate, plan) if is_ours else None
        unknown = unknown_in_evaluation(self._reader, plan, read)
        if (call := current()) is not None and read is not None and self.settings.long_texts == "cut":
            tokenizer = self._reader.inner.tokenizer  # what reads long texts in chunks has told of them
            call.read(
                tokenizer,
                plan.sentences,
                read.is_unknown,
                read.codes,
                partial(characters, tokenizer),
            )
        return scored, with_leaks(describe_rows(rows, cut, unknown, temperature=plan.temperature), seen)

    def lists(self, ranking: RankingSet, *, depth: int) -> tuple[RankedLists, Callable[[int], float]]:
        """Rank the documents of every query, best first.

        Args:
            ranking: Queries and corpus.
            depth: Number of documents to keep for a query.

        Returns:
            The lists, and a function: number of a query → seconds to encode and search it again, alone.
        """
        plan, outputs = self._encoded([ranking])
        (lists,), (score,) = plan.ranked(outputs, depth=depth), plan.matchers(outputs)

        def find(query: int) -> float:
            since = time.perf_counter()
            with collected():  # the pass has counted it
                self.evaluator.read_query(ranking.queries[query], ranking.symmetric)
            Best(1, depth).add(score(np.array([query]), None), 0)
            return time.perf_counter() - since

        return lists, find

    @cached_property
    def evaluator(self) -> Evaluator:
        if not hasattr(self.encoder, "family"):
            return VectorEvaluator(self.encoder)
        evaluation = self.settings.evaluation
        return family_of(self.encoder).evaluator(
            self._reader,
            backend=evaluation.backend,
            cache_dir=embedding_cache_dir(evaluation.cache_embeddings, self.cache_dir),
            precision=self.settings.hardware.precision,
        )

    @cached_property
    def _reader(self) -> Any:
        """The encoder with the configured handling of long texts. Raises UserError without support."""
        if self.settings.long_texts == "cut":
            return self.encoder
        if not isinstance(self.encoder, SentenceEncoder):
            raise UserError(
                "long_texts=chunk: this model gives no text vectors to average. Leave it out, or "
                "take a bi-encoder"
            )
        return self.encoder.with_long_texts("chunk", self.settings.chunk_overlap)

    @cached_property
    def _collate(self) -> SentenceCollator:
        return family_of(self.encoder).collate(self._reader, cache_dir=self.cache_dir, progress=self.progress)

    def _encoded(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> tuple[EncodingPlan, np.ndarray]:
        plan = self.evaluator.plan(sets, tasks)
        self.evaluator.begin(plan)
        if isinstance(self.evaluator, VectorEvaluator):
            return plan, self.evaluator.vectors(plan)
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


@takes_peer_options
def evaluate(
    encoder: str | Path | Any,
    sets: Any,
    *,
    columns: Mapping[str, str | int] | None = None,
    sheet: str | int | None = None,
    on_bad_row: str = "error",
    score_range: tuple[float, float] = (0.0, 1.0),
    data_dir: str | Path = "data",
    trained_on: Sequence[Examples] = (),
    settings: EvaluationSettings | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
) -> Evaluation:
    """Score an encoder on rows, files or described sets.

    Each kind of rows has its metrics: Spearman of graded, 0/1 and NLI pairs, R@1 and MRR of positive pairs
    among all standard questions, nDCG@10 of rankings (docs/concepts/statistics.md).

    Args:
        encoder: A run, a folder or built-in name, a loaded encoder, "lexical" (TF-IDF) or "bm25". Models of
            other libraries work if they have `encode(texts)`. So does a function from texts to vectors.
        sets: One set or a list of sets. A set is rows as `juzhen.data.rows.as_examples` reads them (a list of
            tuples or dicts, a DataFrame, the path of a file), the name of a set of conf/dataset, its
            description, Examples or a RankingSet. Rows and files count as a dev split with cross-fitted
            thresholds, except for files called test.
        columns: Column name of each role, of rows and files, as in `as_examples`.
        sheet: Sheet of an Excel file. None: the first one.
        on_bad_row: error, or drop to leave faulty rows out.
        score_range: Lowest and highest gold score. They are mapped to 0 and 1.
        data_dir: Folder of the sets that are not built in.
        trained_on: Training rows of the encoder. A set that shares rows with them is also scored without these rows.
        settings: Splits, seed, intervals and device. Its sets are ignored.
        cache_dir: Folder for the cached token numbers of large sets.
        progress: Show progress bars.

    Returns:
        `scores`, metric key → Score with value, 95 % interval and count, and `thresholds`. It prints as a
        table.

    Raises:
        UserError: A missing encoder or set, unreadable rows, or rows that this encoder cannot score.

    Example:
        >>> rows = [("怎么退货", "东西想退掉"), ("几天发货", "什么时候能寄出"), ("能开发票吗", "要发票")]
        >>> found = evaluate("builtin/mini_zh", rows)
        >>> found.scores["dev/rows/recall_at_1"].value, found.scores["dev/rows/recall_at_1"].count
        (1.0, 3)
    """
    reading = {"columns": columns, "sheet": sheet, "on_bad_row": on_bad_row, "score_range": score_range}
    settings = replace(settings or EvaluationSettings(), data_dir=str(data_dir), dataset={}, evaluate={})
    settings.on_bad_row = on_bad_row if on_bad_row != "error" else settings.on_bad_row
    sets = _listed(sets, reading)
    trained_on = as_list_of(
        trained_on, "trained_on", Examples, way="Read rows with juzhen.data.rows.as_examples"
    )
    opened = open_encoder(encoder)
    loaded = [dataset for dataset in sets if isinstance(dataset, Examples | RankingSet)]
    named = [configured_set(dataset) if isinstance(dataset, str) else dataset for dataset in sets]
    settings.evaluate = {dataset.name: dataset for dataset in named if isinstance(dataset, DatasetConfig)}
    run = EvaluationRun(opened, settings, cache_dir, progress)
    for each in loaded:
        if isinstance(each, Examples) and each.kind in run.evaluator.unscored:
            raise UserError(f"{each.split}/{each.name}: {run.evaluator.unscored[each.kind]}")
    data = JobData({}, [])
    if settings.evaluate:
        data = load_job_data(settings, {}, unscored=run.evaluator.unscored)
    rows = SeenRows([dataset for dataset in (*data.evaluation, *loaded) if isinstance(dataset, Examples)])
    rows.learn({str(number): dataset for number, dataset in enumerate(trained_on)})
    tasks = [*data.tasks, *class_tasks(loaded)]
    leaks = rows.seen() if trained_on else {}
    with reported() as seen:
        evaluation, described = run([*data.evaluation, *loaded], tasks, seen=leaks)
        for cut in [about["cut"] for about in described.values() if "cut" in about]:
            seen.add(cut["unit"], cut["max_length"], cut["cut"], cut["looked_at"])
    return replace(evaluation, scores=evaluation.scores | data.missing)


Listed = str | DatasetConfig | Examples | RankingSet


def _listed(sets: Any, reading: Mapping[str, Any]) -> list[Listed]:
    """Sets one by one. Files and rows count as a dev split. Raises UserError for duplicate names."""
    single = str | Path | DatasetConfig | Examples | RankingSet
    if isinstance(sets, single):
        sets = [sets]
    elif (
        not isinstance(sets, list | tuple)
        or not sets
        or not all(isinstance(one, single) or table_columns(one) is not None for one in sets)
    ):
        return [rows_to_score(sets, **reading)]
    given = sets
    sets = [
        one if isinstance(one, single) else replace(rows_to_score(one, **reading), name=f"rows_{number}")
        for number, one in enumerate(sets, 1)
    ]
    listed: list[Listed] = [
        rows_to_score(one, **reading)
        if isinstance(one, str | Path) and (is_table(one) or Path(one).is_file())
        else one
        for one in sets
    ]
    is_given = reading["columns"] or reading["sheet"] is not None or reading["score_range"] != (0.0, 1.0)
    if is_given and all(one is other for one, other in zip(given, listed, strict=True)):
        from juzhen.data.rows import require_unread  # with pandas
        from juzhen.data.tables import TableReading

        place = getattr(listed[0], "name", listed[0])
        table = TableReading(columns=reading["columns"] or {}, sheet=reading["sheet"], spell=in_python)
        require_unread(f"the set {place}", table, reading["score_range"])
    require_names_once([one for one in listed if not isinstance(one, str | Path)])
    return [str(one) if isinstance(one, Path) else one for one in listed]


def require_names_once(sets: Sequence[DatasetConfig | Examples | RankingSet]) -> None:
    """Check that the sets have different names, because a name is part of the keys of scores.

    Args:
        sets: Descriptions and loaded rows. Rows may share a name if their splits differ.

    Raises:
        UserError: Two sets of one name.
    """
    names = [one.name if isinstance(one, DatasetConfig) else f"{one.split}/{one.name}" for one in sets]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{twice[0]}: two sets have this name. Rename one of the files, or score them apart")


def rows_to_score(rows: Any, **reading: Any) -> Examples:
    """Read rows, or a file of them, as a dev split.

    `faq/test.csv` is the test split of faq, as `juzhen dataset` writes it.

    Args:
        rows: Path of a table, or rows as `as_examples` takes them.
        **reading: Columns, sheet, on_bad_row and score_range, as `as_examples` takes them.

    Returns:
        The rows. A file is named after itself or its folder.
    """
    from juzhen.data.rows import as_examples, set_and_split  # with pandas, which a training need not import

    if isinstance(rows, str | Path) and is_table(rows):
        name, split = set_and_split(Path(rows))
        return replace(as_examples(rows, split=split, **reading), name=name)
    return as_examples(rows, split="dev", **reading)


def class_tasks(sets: Sequence[Examples | RankingSet], *, by_means: bool = False) -> list[TransferTask]:
    """Make classification tasks of the loaded texts with classes.

    Args:
        sets: Rows of other kinds are ignored. Splits of one name become one task.
        by_means: As in `TransferTask`.

    Returns:
        A task for each name.

    Raises:
        UserError: A set with too few rows of a class.
    """
    splits: dict[str, dict[str, Examples]] = {}
    for dataset in sets:
        if isinstance(dataset, Examples) and dataset.kind is Kind.LABELLED_TEXT:
            splits.setdefault(dataset.name, {})[dataset.split] = dataset
    tasks = [TransferTask(name, of_set, by_means=by_means) for name, of_set in splits.items()]
    for task in tasks:
        if reason := too_few(task.labels):
            raise UserError(f"{task.name}: {reason}")
    return tasks


def transfer(
    encoder: SentenceEncoder,
    splits: Mapping[str, Examples | None],
    *,
    batch_tokens: int,
    seed: int,
    limit: int | None,
) -> TransferScore:
    """Score the embeddings with `juzhen.metrics.classification.classify`.

    Args:
        encoder: Computes the features.
        splits: train, dev and test. None for a missing file.
        batch_tokens: Tokens in a batch.
        seed: Of the sample and of the classifier.
        limit: At most this many rows of each split, drawn with the seed. None: all rows.

    Returns:
        Scores of a classifier over the frozen embeddings.

    Raises:
        UserError: No split has rows, their kind is not classified, or a class has too few rows.
    """
    given_splits = {
        name: cut(examples, limit, seed) for name, examples in splits.items() if examples is not None
    }
    if not given_splits:
        raise UserError("no file of any split was found. Set data_dir=<folder that holds the data sets>")
    task = TransferTask(next(iter(given_splits.values())).name, given_splits)
    if task.kind not in CLASSIFIED_KINDS:
        raise UserError(
            f"{task.name}: its rows are {task.kind}s, and transfer needs 0/1 pairs or NLI pairs, such as mrpc, qqp or "
            "snli, or texts with a class, such as tnews"
        )
    labels = task.labels
    if why := too_few(labels):
        raise UserError(f"{task.name}: {why}. Give rows of two classes or more")
    data = {
        name: (_features(encoder, examples, batch_tokens), labels[name])
        for name, examples in given_splits.items()
    }
    return classify(data, seed=seed)


def _features(encoder: SentenceEncoder, examples: Examples, batch_tokens: int) -> Features:
    texts = [text for column in examples.columns for text in examples.texts(column)]
    embeddings = encoder.encode(texts, batch_tokens=batch_tokens)
    return combined(np.split(embeddings, len(examples.columns)), examples.kind)


def require_vectors(*sources: str | Path) -> None:
    """Check that sources give one embedding for a text, before data are read. The hub is not asked.

    Args:
        *sources: Runs, folders, built-in names and ids of the hub. The latter pass.

    Raises:
        UserError: A cross-encoder, or another encoder without embeddings of length `dim`.
    """
    for source in sources:
        is_on_hub = str(source) not in LEXICAL and locate_folder(str(source)) is None
        if not is_on_hub and not find_family(source).has_embeddings:
            raise UserError(f"{source}: does not give one embedding for a text. Name a bi-encoder")
