"""What is said of a cell of a sweep: its name among the others, its progress and dev score, the time that is left."""

from collections.abc import Iterable, Sequence

from juzhen.core.result import Result, RunProgress
from sweeps.ledger import SweepCell

LONGEST_LABEL = 60


def cell_labels(cells: Iterable[SweepCell]) -> dict[str, str]:
    """Cell name → the words that not all cells have; its name where those are none, too many or not its alone."""
    cells = list({cell.name: cell for cell in cells}.values())
    shared = set.intersection(*(set(cell.words) for cell in cells)) if cells else set()
    labels = {cell.name: " ".join(word for word in cell.words if word not in shared) for cell in cells}
    for cell in cells:
        rows = [word.partition("=")[2].strip("\"'") for word in cell.words if word.startswith("sweep_row=")]
        if rows:
            seeds = [word for word in cell.words if word.startswith("seed=")]
            labels[cell.name] = " ".join([*rows, *seeds])
    values = list(labels.values())
    return {
        name: label if label and len(label) <= LONGEST_LABEL and values.count(label) == 1 else name
        for name, label in labels.items()
    }


def dev_score(cell: SweepCell) -> float | None:
    """The best dev score of a finished cell; None without one."""
    try:
        training = Result.read(cell.run_dir).training
    except Exception:  # whatever is wrong with it, the table of results says so
        return None
    scores = [value for key, value in training.items() if key.startswith("best_dev_")]
    return next((float(score) for score in scores if isinstance(score, int | float)), None)


def progress_words(progress: RunProgress | None) -> str:
    """Such as `training on csts 120/400`."""
    return "" if progress is None else f"{progress.work} {progress.done:,}/{progress.total:,}"


def share_done(progress: RunProgress | None) -> float:
    """Of the training; 0 before and 1 after it."""
    if progress is None or not progress.total:
        return 0.0
    if progress.work.startswith("training"):
        return min(1.0, progress.done / progress.total)
    return 0.0 if progress.work.endswith("before training") else 1.0


def percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.1f}"


def seconds_left(
    finished: Sequence[float], running: Sequence[tuple[float, float]], waiting: int, *, jobs: int
) -> float | None:
    """About how long a sweep still takes; None before anything can be told.

    finished  seconds of each finished cell
    running   of each at work, its seconds and its share that is done
    """
    seconds = list(finished) or [worked / share for worked, share in running if share > 0.01]
    if not seconds or not (running or waiting):
        return None
    mean = sum(seconds) / len(seconds)
    return mean * (waiting + sum(1 - share for _, share in running)) / max(1, jobs)
