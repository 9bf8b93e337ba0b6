"""`advise`: read the target, try sources within some minutes, and answer.

Trainings are made by `fit` and not by the suite: the library alone is installed by pip, and a training of some hundred
rows takes less time than the start of a job.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from juzhen.advice.answer import Answer, answer_of
from juzhen.advice.prior import trial_order
from juzhen.advice.search import Search
from juzhen.advice.target import Reading, read_panel, read_sources, read_target
from juzhen.advice.trials import Trials
from juzhen.core.errors import require_number
from juzhen.core.text import counted
from juzhen.data.tables import TableReading


def advise(
    target: str | Path,
    *,
    encoder: str = "builtin/mini_zh",
    minutes: float = 15.0,
    sources: Sequence[str] | None = None,
    data_dir: str | Path = "data",
    config_dir: Path | None = None,
    table: TableReading | None = None,
    out: Path | None = None,
    learning_rate: float | None = None,
    seed: int = 42,
    report: Callable[[str], None] | None = None,
) -> Answer:
    """Find out which data to train on for a target, by small trainings within some minutes.

    Each training begins with the same encoder and is scored on the same rows. Rows of a source that the target has too
    are left out before. Every statement of the answer has a 95 % interval, or names the rows and seeds that
    it needs.

    Args:
        target: A table of pairs with labels, of positive pairs, or of triplets. Or the name of a set.
        encoder: Folder, run or built-in name.
        minutes: Time for all of it. Ctrl-C ends it earlier, with the answer so far.
        sources: Names of sets and further files. None: every set with a training file in the target's
            language.
        data_dir: Folder of the sets.
        config_dir: A further folder of dataset/ files.
        table: Options of the files. None: detected, and faulty rows are left out.
        out: Runs, advice.json, advice.md and index.html are written here. None: nothing is written.
        learning_rate: Peak learning rate. None: chosen by the size of the encoder.
        seed: Of splits, rows and batches.
        report: Called with a line after each training. None: lines go to stderr.

    Returns:
        The answer. It prints as sentences and a table.

    Raises:
        UserError: A target that cannot be read or scored, or no source.
    """
    require_number("--minutes", minutes, 0, open_low=True)
    say, begun = report or _to_stderr, time.monotonic()
    reading = Reading(Path(data_dir), config_dir, table or TableReading(on_bad_row="drop"), seed)
    read = read_target(str(target), reading)
    found, left_out = read_sources(sources, read, reading)
    own = f", {len(read.own.rows):,} to train on" if read.own is not None else ""
    say(f"{read.name}: {len(read.scored):,} {read.scored.kind.replace('_', ' ')}s are scored{own}")
    say(f"sources: {', '.join(f'{source.name} ({source.total:,})' for source in found) or 'own rows alone'}")
    leaks = {source.name: source.leaky for source in found}
    for name, count in leaks.items():
        if count:
            say(f"{name}: {counted(count, 'rows')} left out, which the target has too")
    trials = Trials(
        str(encoder), read, found, folder=out and out / "runs", learning_rate=learning_rate, seed=seed
    )
    order = trial_order(found, read, trials.base)
    trials.panel = read_panel(read, [trials.sources[name] for name in order], reading)
    search = Search(trials, order, minutes=minutes, seeds=(seed, seed + 1, seed + 2), report=say, begun=begun)
    search.run()
    answer = answer_of(search, leaks=leaks, left_out=left_out, folder=out)
    if out is not None:
        answer.write(out)
    return answer


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
