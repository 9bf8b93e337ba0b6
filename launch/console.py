"""What a person sees at the end of a run."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from conf.job import JobConfig
from juzhen.core.kinds import main_metric_keys, metric_title, speaking
from juzhen.core.progress import console_table, terminal
from juzhen.core.result import WEIGHT_FILES, WITHOUT_LEAKS, Result, Score, without_size
from juzhen.core.text import counted
from juzhen.encoders.resolve_path import ENCODER_FOLDER
from launch.run_folder import RunFolder, changed_code, is_finished, is_helper, offline_line, require_same_data


def show_result(result: Result, *, folder: str, earlier: Sequence[Result] = ()) -> None:
    """Print the scores of a result as a table: Spearman ×100 per evaluation set, with its interval.

    Args:
        result: The result.
        folder: Folder of the run.
        earlier: Results of the stages before the last one, in order.
    """
    console = terminal()
    if earlier:
        console.print(stage_table([*earlier, result]))
    if (table := result_table(result)).row_count:
        console.print(table)
    else:
        trained = " + ".join(result.trained_on) or "nothing"
        console.print(
            f"trained on {trained}. Nothing was scored: no set has a dev or a test split", highlight=False
        )
    if result.thresholds:
        # pandas comes with it, and training would wait for both.
        from juzhen.report.table import decision_table

        decisions = decision_table(result.thresholds.items())
        console.print(f"{decisions.title}. {decisions.note}", decisions.console(), sep="\n", highlight=False)
    for name, count in leaky_counts(result).items():
        console.print(f"{name}: {count:,} rows left out that an evaluation set has too (filter_leaks)")
    for name, reason in result.unscored.items():
        console.print(f"{name} is not scored. {reason}", soft_wrap=True)
    for line in [*_size_lines(result), *_undefined_lines(result), *_leak_lines(result), *tie_lines(result)]:
        console.print(line, soft_wrap=True)
    training = result.training
    if training.get("train_seconds") and {"rows_seen", "rows_per_second"} <= training.keys():
        mib = training.get("peak_memory_mib")
        memory = "" if mib is None else f", at most {mib:,.0f} MiB"
        console.print(
            f"trained {counted(training['rows_seen'], 'rows')} in {training['train_seconds']:.0f} s "
            f"({training['rows_per_second']:.0f} rows/s{memory}), {best_on_dev(training)}",
            highlight=False,
        )
    for line in set_lines(training.get("sets", {})):
        console.print(line)
    ending = f"result and encoder: {folder}"
    if not any(Path(folder).rglob(ENCODER_FOLDER)):  # a stage has its own
        ending = f"result, without an encoder: {folder}"
    console.print(ending, soft_wrap=True, highlight=False)
    if (line := offline_line([folder])) is not None:
        console.print(line, soft_wrap=True, highlight=False)


def show_finished(job: JobConfig) -> bool:
    """Show the result of a job that is finished.

    Args:
        job: Its `run_dir` and `resume` are read.

    Returns:
        False if something is left to do, or all is done again (`resume=never`). Nothing is shown then.

    Raises:
        UserError: The run was made from other data than the job would read now.
    """
    if is_helper() or not is_finished(job):
        return False
    with RunFolder(job.run_dir, resume="auto") as folder:
        result = folder.result()
        require_same_data(folder.path, job)
        print(f"already finished ({result.finished_at}), shown again. Type resume=never to train again")
        if changed := changed_code(folder.path, job):
            print(f"warning: {', '.join(changed)}: the code has changed since", file=sys.stderr)
        place = folder.path / ENCODER_FOLDER
        if result.weights and not any(next(place.rglob(pattern), None) for pattern in WEIGHT_FILES):
            print(
                f"warning: {place}: its weights are gone. To train them again: resume=never", file=sys.stderr
            )
        show_result(result, folder=str(folder.path), earlier=folder.earlier_results())
    return True


def best_on_dev(training: dict) -> str:
    """Format the dev score that chose the weights.

    Args:
        training: `training` of a Result.

    Returns:
        A phrase. Without a score: the reason, and the kept weights.
    """
    best = next((key for key in training if key.startswith("best_dev_")), "best_dev_spearman")
    best_dev = f"best dev {_words(best.removeprefix('best_dev_'))} {_percent(training.get(best))}"
    sets = ", ".join(training.get("selected_on") or ())
    if best == "best_dev_mean":  # of several metrics
        sets = training["chosen_by"].removeprefix("the best mean dev ")
    if training.get(best) is not None:
        return f"{best_dev} ({sets})" if sets else best_dev
    why = f"undefined on {sets}: gold values or scores are all equal" if sets else "no dev split was scored"
    return f"{best_dev} ({why}; the weights of the last step were kept)"


MEASURED = {"loss": "loss", "gradient_norm": "gradient", "weight": "weight"}
"""What a result may tell of a set of a mixture → how a line says it."""


def set_lines(sets: dict[str, dict[str, float]]) -> list[str]:
    """Describe the share of each set in the training of a mixture.

    Args:
        sets: Dataset key → counts and shares, as in `training["sets"]` of a Result.

    Returns:
        One line for each set. [] for a single set.
    """
    if len(sets) < 2:
        return []
    batches, rows = (sum(counts[unit] for counts in sets.values()) for unit in ("batches", "rows"))
    return [
        f"{name}: {counts['batches']:,} of {batches:,} batches ({100 * counts['share_of_batches']:.1f} %), "
        f"{counts['rows']:,} of {rows:,} rows ({100 * counts['share_of_rows']:.1f} %)"
        + "".join(f", {word} {counts[key]:.3g}" for key, word in MEASURED.items() if key in counts)
        + (f" at step {counts['weight_step']}" if "weight_step" in counts else "")
        for name, counts in sets.items()
    ]


def leaky_counts(result: Result) -> dict[str, int]:
    """Count the training rows that `filter_leaks` left out.

    Args:
        result: Result of a run or a stage.

    Returns:
        Training set → rows. {} without the filter.
    """
    read = {key: rows.get("leaky") for key, rows in result.data.items() if key.startswith("train/")}
    return {key.split("/")[1]: count for key, count in read.items() if count is not None}


def _leak_lines(result: Result) -> list[str]:
    """One line for each evaluation split of which training has seen rows, as `evaluation.without_leaks` found them."""
    notes = []
    for column, described in result.data.items():
        leaked = described.get("leaked")
        measure = _speaker(result, column)
        score = result.scores.get(f"{column}/{measure}{WITHOUT_LEAKS}")
        if not leaked or not leaked["rows"] or score is None:
            continue
        if score.value is not None:
            without = f"{_words(measure)} without them {_percent(score.value)}"
        else:
            without = "the others have no correlation" if score.count else "no row is left"
        most = max(leaked["by_set"], key=leaked["by_set"].get)
        share = f"{counted(leaked['rows'], 'rows')} ({100 * leaked['share']:.1f} %)"
        notes.append(f"{column}: {share} are in training, most of them in {most}; {without}")
    return notes


def _undefined_lines(result: Result) -> list[str]:
    """One line for each reason why a set that was evaluated lacks scores of the table."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for key, score in result.scores.items():
        column, _, metric = key.rpartition("/")
        if score.why and column in result.data and metric in (_speaker(result, column), "accuracy"):
            reasons.setdefault((column, score.why), []).append(_words(metric))
    return [f"{column}: no {' and no '.join(metrics)}: {why}" for (column, why), metrics in reasons.items()]


def _size_lines(result: Result) -> list[str]:
    """One line for each split that was scored by embeddings cut to their first numbers, too."""
    sizes: dict[str, dict[int, str]] = {}
    for key, score in result.scores.items():
        column, _, metric = key.rpartition("/")
        whole, dim = without_size(column)
        if dim is not None and whole in result.data and metric == _speaker(result, column):
            sizes.setdefault(f"{whole} {_words(metric)}", {})[dim] = _percent(score.value)
    return [
        f"{name} by the first " + ", ".join(f"{dim} numbers {value}" for dim, value in of_sizes.items())
        for name, of_sizes in sizes.items()
    ]


def tie_lines(result: Result) -> list[str]:
    """Describe scores that the order of equally scored documents moves by a point or more.

    Args:
        result: Result of a run or a stage.

    Returns:
        One line for each such score.
    """
    return [
        f"{column} {_words(metric)}: {_percent(score.value)} on average over the orders of equally scored documents, "
        f"{_percent(score.worst)} in the worst and {_percent(score.best)} in the best"
        for column, metric, score in (
            (*key.rsplit("/", 1), score) for key, score in result.scores.items() if score.is_tied
        )
        if metric == _speaker(result, column)
    ]


def result_table(result: Result) -> Table:
    """Rows: evaluation sets. Columns: dev and test Spearman ×100 [95 % interval], accuracy at the dev threshold.

    If some sets have another metric, a column names it. A classifier on a set with another main metric has a
    separate row.

    Args:
        result: Result of a run or a stage.

    Returns:
        Table of rich.
    """
    between = " → " if result.config["schedule"]["name"] == "serial" else " + "
    trained = between.join(result.trained_on) or "nothing"
    rows = [(name, measure) for name, measure in _measured(result.scores) if without_size(name)[1] is None]
    mixed = any(measure != "spearman" for _, measure in rows)
    columns = ["evaluated on", *(["measure"] if mixed else [])]
    numbers = [*(["before"] if result.untrained else []), "dev", "95 %", "test", "95 %", "accuracy"]
    table_rows, trained_sets = [], " ".join(result.trained_on).replace("+", " ").split()
    for name, measure in rows:
        dev, test = (result.scores.get(f"{split}/{name}/{measure}") for split in ("dev", "test"))
        if _is_for_training_alone(result, name) and all(
            score is None or score.value is None for score in (dev, test)
        ):
            continue
        if dev is None and test is None:
            dev = result.scores.get(f"train/{name}/{measure}")  # folds of train: there was nothing else
        keys = [f"test/{name}/accuracy", f"dev/{name}/accuracy", f"dev/{name}/mlm_accuracy"]
        accuracy = _first(result.scores, *keys) if measure == "spearman" else None
        before = _first(result.untrained, f"test/{name}/{measure}", f"dev/{name}/{measure}")
        table_rows.append(
            (
                name,
                *([_words(measure)] if mixed else []),
                *([_percent(before and before.value)] if result.untrained else []),
                *_cells(dev),
                *_cells(test),
                _percent(accuracy and accuracy.value),
            )
        )
    return console_table(
        [*columns, *numbers],
        table_rows,
        numbers=numbers,
        title=f"{'Scores' if mixed else 'Spearman'} ×100, trained on {trained}",
        bold=[number for number, line in enumerate(table_rows) if line[0] in trained_sets],
    )


def stage_table(results: Sequence[Result]) -> Table:
    """Tabulate test ×100 (dev without a test) by evaluation set after each stage, and its change.

    Args:
        results: Results of the stages of one job, in order. The first may have the scores before training.
            The training sets of a stage are in bold type.

    Returns:
        Table of rich.
    """
    order = results[-1].config["schedule"]["order"] or list(results[-1].config["dataset"])
    stages = [f"{number}. {name}" for number, name in enumerate(order[: len(results)], start=1)]
    rows = []
    for name, measure in _measured(results[-1].scores):
        keys = [f"{split}/{name}/{measure}" for split in ("test", "dev")]
        last = {key: results[-1].scores[key].value for key in keys if key in results[-1].scores}
        key = next((key for key, value in last.items() if value is not None), keys[-1])
        scores = [results[0].untrained.get(key), *(result.scores.get(key) for result in results)]
        values = [score and score.value for score in scores]
        cells: list[str | Text] = [_percent(values[0])] if results[0].untrained else []
        for result, before, value in zip(results, values, values[1:], strict=False):
            change = "" if None in (before, value) else f" {100 * (value - before):+.1f}"
            is_learnt = name in result.trained_on[-1].split("+")
            cells.append(Text(f"{_percent(value)}{change}", style="bold" if is_learnt else ""))
        label = name if measure == "spearman" else f"{name} ({_words(measure)})"
        rows.append([f"{label}, {key.partition('/')[0]}", *cells])
    before = ["before"] if results[0].untrained else []
    title = "After each stage ×100, and the change by it; bold: sets that the stage learns from"
    return console_table(["evaluated on", *before, *stages], rows, numbers=[*before, *stages], title=title)


def _is_for_training_alone(result: Result, name: str) -> bool:
    """The set was trained on, and its description has neither a dev nor a test split, as what `juzhen mine` writes."""
    described = result.config.get("dataset", {}).get(name)
    if not described:
        return False
    if (described.get("source") or result.config.get("source")) == "hub":
        splits = (described.get("hub") or {}).get("splits") or {}
    else:
        splits = described.get("layouts", {}).get(described.get("layout"), {}).get("files") or {}
    return not {"dev", "test"} & {split for split, score in splits.items() if score}


def _measured(scores: dict[str, Score]) -> Iterator[tuple[str, str]]:
    """Every set with its main metrics. A set of texts alone has the metric of its table."""
    for name in dict.fromkeys(key.split("/")[1] for key in scores):
        metrics = {key.split("/")[2] for key in scores if key.split("/")[1] == name}
        yield from ((name, measure) for measure in speaking(metrics) or ["spearman"])


def _speaker(result: Result, column: str) -> str | None:
    """The measure that speaks for a column of a result. None where it has none."""
    spoken = main_metric_keys(key for key in result.scores if key.startswith(f"{column}/"))
    return next((key.rpartition("/")[2] for key in spoken), None)


def _words(metric: str) -> str:
    return metric_title(metric).replace("spearman", "Spearman")


def _first(scores: dict[str, Score], *keys: str) -> Score | None:
    return next((scores[key] for key in keys if key in scores and scores[key].value is not None), None)


def _cells(score: Score | None) -> tuple[str, str]:
    if score is None:
        return "–", ""
    interval = "" if None in (score.low, score.high) else f"{100 * score.low:.1f}–{100 * score.high:.1f}"
    return _percent(score.value), interval


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
