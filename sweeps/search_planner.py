"""Runs the trials of a search with the planner of sweeps: each as one cell, or as one for every seed."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from sweeps.backends.interface import Backend, Ended
from sweeps.ledger import Cell, Event, Ledger
from sweeps.planner import Planner, Running, Summary, Turn
from sweeps.search import Candidate, Search

SECONDS_BETWEEN_QUESTIONS = 5.0
BEST_DEV = "best_dev_"
"""`callbacks/training_record.py` keeps the score that chose the weights under a key that begins so."""


@dataclass
class Trying:
    """A trial of this process: cells that are still to be run, the first at work or next, and scores of the others."""

    number: int
    cells: list[Cell]
    done: list[Cell] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class SearchPlanner(Planner):
    """Asks the search for a trial whenever there is room for one, and tells what became of it.

    cells_of  makes the cells of a trial, one per seed; only the first reports validations
    """

    def __init__(
        self,
        search: Search,
        cells_of: Callable[[Candidate], Sequence[Cell]],
        ledger: Ledger,
        backend: Backend,
        *,
        attempts: int,
        report: Callable[[str], None],
    ) -> None:
        super().__init__([], ledger, backend, attempts=attempts, report=report)
        self.search = search
        self.cells_of = cells_of
        self.trying: list[Trying] = []
        self.waiting: list[Turn] = []
        self.ended = 0
        self._asked = float("-inf")

    def run(self) -> Summary:
        """Returns when the search has its trials and none of this process is at work."""
        first = self._ask()
        if first is None:
            return Summary([], [], {})
        self.cells = [first.cells[0]]
        return super().run()

    def _plan(self) -> None:
        wanted = self.search.settings.num_trials
        self.ledger.add(Event.SWEEP, cells=wanted, jobs=self.backend.capacity())
        self.report(f"search {self.search.settings.study}: {wanted} trials in all; {self.backend.describe()}")

    def _start_next(self) -> bool:
        while True:
            self._fill()
            came_forward = super()._start_next()
            if not self._idle():  # else its run was found finished: there may be room for another
                return came_forward

    def _fill(self) -> None:
        """Settles what has ended, and asks for a trial where there is room for one more."""
        for one in self._idle():
            self._settle(one)
        may_ask = not self.trying or time.monotonic() - self._asked > SECONDS_BETWEEN_QUESTIONS
        if len(self.trying) < self.backend.capacity() and may_ask:
            one = self._ask()
            if one is not None:
                self.waiting.append(Turn(one.cells[0]))

    def _end(self, one: Running, ended: Ended, seconds: float) -> None:
        """A run that its pruner has ended is no failure."""
        cell = one.turn.cell
        trial = next(trial for trial in self.trying if trial.cells[0] is cell)
        if ended.status == 0 and not cell.finished and self.search.pruned_at(trial.number) is not None:
            self.ledger.add(Event.PRUNED, cell=cell.name, seconds=round(seconds, 2))
            self.search.prune(trial.number, [done.run_dir for done in (*trial.done, cell)])
            self._close(trial, f"{cell.name}: pruned")
            return
        super()._end(one, ended, seconds)

    def _idle(self) -> list[Trying]:
        """Trials whose next cell is neither waiting nor at work: it has ended, or another process has run it."""
        busy = {id(turn.cell) for turn in self.waiting}
        busy |= {id(one.turn.cell) for one in self.running}
        return [trial for trial in self.trying if id(trial.cells[0]) not in busy]

    def _settle(self, trial: Trying) -> None:
        """Goes on to the trial's next cell, or tells the search how it ended."""
        cell = trial.cells[0]
        if not self._is_scored(trial):
            error = self.failed.pop(cell, "ended without a result")
            self.search.fail(trial.number, error)
            self._close(trial, f"failed ({error})")
        elif trial.cells:
            self.waiting.append(Turn(trial.cells[0]))

    def _is_scored(self, trial: Trying) -> bool:
        """Reads the results that are there; false when the next cell has none. With the last the trial is complete."""
        if not trial.cells[0].finished:
            return False
        while trial.cells and trial.cells[0].finished:
            score, measure = dev_score(trial.cells[0])
            self.search.judge_by(measure)
            trial.scores.append(score)
            trial.done.append(trial.cells.pop(0))
        if not trial.cells:
            score = statistics.fmean(trial.scores)
            self.search.complete(trial.number, score, [cell.run_dir for cell in trial.done])
            self._close(trial, f"{100 * score:.2f} on dev ×100")
        return True

    def _ask(self) -> Trying | None:
        """The next trial that has something to run; what runs have found before is only read."""
        self._asked = time.monotonic()
        while (candidate := self.search.next()) is not None:
            trial = Trying(candidate.number, list(self.cells_of(candidate)))
            self.trying.append(trial)
            if not self._is_scored(trial) or trial.cells:
                self._asked = float("-inf")  # there may be more
                self.ledger.plan(trial.cells)
                return trial
        return None

    def _close(self, trial: Trying, what: str) -> None:
        self.trying.remove(trial)
        self.ended += 1
        self.report(f"trial {trial.number}: {what}")

    def _count(self) -> str:
        return f"[{self.ended}]"

    def _left(self) -> str:
        return ""


def dev_score(cell: Cell) -> tuple[float, str]:
    """The score on dev that chose the weights of a finished run, and in words which one that is.

    Raises UserError when nothing was chosen on dev.
    """
    training = Result.read(cell.run_dir).training
    found = [value for key, value in training.items() if key.startswith(BEST_DEV) and value is not None]
    if not found:
        raise UserError(
            f"{cell.run_dir}: nothing was chosen on dev, so a search has nothing to go by; train on a set that has "
            f"a dev split, or evaluate on one (suite=…) and name it: training.monitor=dev/<set>/spearman"
        )
    return found[0], training.get("chosen_by") or f"dev of {', '.join(training.get('selected_on') or ())}"
