"""Runs the trials of a search with the planner of sweeps: each as one cell, or as one for every seed."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.trial import TrialState

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from sweeps.ledger import Event, Ledger, SweepCell
from sweeps.local import Ended, Runner
from sweeps.planner import Planner, Turn
from sweeps.search import BEST_DEV, Search

SECONDS_BETWEEN_QUESTIONS = 5.0


@dataclass
class Trial:
    """A trial of this process: cells that are still to be run, the first at work or next, and scores of the others."""

    number: int
    cells: list[SweepCell]
    done: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class SearchPlanner(Planner):
    """Asks the search for a trial whenever there is room for one, and tells what became of it.

    cells_of  makes the cells of a trial, one per seed; only the first reports validations
    """

    def __init__(
        self,
        search: Search,
        cells_of: Callable[[optuna.Trial], Sequence[SweepCell]],
        ledger: Ledger,
        runner: Runner,
        *,
        attempts: int,
        report: Callable[[str], None],
        watch: Callable[[Planner], None] = lambda planner: None,
    ) -> None:
        super().__init__([], ledger, runner, attempts=attempts, report=report, watch=watch)
        self.search = search
        self.cells_of = cells_of
        self.trials: list[Trial] = []
        self.num_ended = 0
        self._asked = float("-inf")

    def _plan(self) -> None:
        settings = self.search.settings
        self.ledger.add(Event.SWEEP, cells=settings.num_trials, jobs=self.runner.capacity())
        self.report(f"search {settings.study}: {settings.num_trials} trials in all; {self.runner.describe()}")

    def _fill(self) -> bool:
        """Settles trials whose cell has ended, and asks for one where there is room; false when all are done."""
        busy = {id(turn.cell) for turn in (*self.waiting, *self.running)}
        for trial in [trial for trial in self.trials if id(trial.cells[0]) not in busy]:
            self._settle(trial)
        may_ask = not self.trials or time.monotonic() - self._asked > SECONDS_BETWEEN_QUESTIONS
        while may_ask and len(self.trials) < self.runner.capacity():
            self._asked = time.monotonic()
            candidate = self.search.next()
            if candidate is None:
                break
            self._asked = float("-inf")  # there may be more
            trial = Trial(candidate.number, list(self.cells_of(candidate)))
            self.trials.append(trial)
            self.ledger.plan(trial.cells)
            if trial.cells[0].finished:
                self._settle(trial)
            else:
                self.waiting.append(Turn(trial.cells[0]))
        return bool(self.trials)

    def _settle(self, trial: Trial) -> None:
        """Reads the results that are there, and goes on to the trial's next cell, or tells the search how it ended."""
        if not trial.cells[0].finished:
            error = self.summary.failed.pop(trial.cells[0], "ended without a result")
            self.search.tell(trial.number, TrialState.FAIL, error=error)
            self._close(trial, f"failed ({error})")
            return
        while trial.cells and trial.cells[0].finished:
            cell = trial.cells.pop(0)
            score, measure = dev_score(cell)
            self.search.judge_by(measure)
            trial.scores.append(score)
            trial.done.append(cell.run_dir)
        if trial.cells:
            self.waiting.append(Turn(trial.cells[0]))
            return
        score = statistics.fmean(trial.scores)
        self.search.tell(trial.number, score, runs=trial.done)
        self._close(trial, f"{100 * score:.2f} on dev ×100")

    def _end(self, turn: Turn, ended: Ended) -> None:
        """A run that its pruner has ended is no failure."""
        cell = turn.cell
        trial = next(trial for trial in self.trials if trial.cells[0] is cell)
        if ended.status == 0 and not cell.finished and self.search.pruned_at(trial.number) is not None:
            self.ledger.add(Event.PRUNED, cell=cell.name, seconds=turn.seconds)
            self.search.tell(trial.number, TrialState.PRUNED, runs=[*trial.done, cell.run_dir])
            self._close(trial, f"{cell.name}: pruned")
            return
        super()._end(turn, ended)

    def _close(self, trial: Trial, outcome: str) -> None:
        self.trials.remove(trial)
        self.num_ended += 1
        self.report(f"trial {trial.number}: {outcome}")

    def _count(self) -> str:
        return f"[{self.num_ended}]"


def dev_score(cell: SweepCell) -> tuple[float, str]:
    """The score on dev that chose the weights of a finished run, and in words which one that is.

    Raises UserError when nothing was chosen on dev.
    """
    training = Result.read(cell.run_dir).training
    scores = [value for key, value in training.items() if key.startswith(BEST_DEV) and value is not None]
    if not scores:
        raise UserError(
            f"{cell.run_dir}: nothing was chosen on dev, so a search has nothing to go by; train on a set that has "
            f"a dev split, or evaluate on one (benchmark=…) and name it: training.monitor=dev/<set>/spearman"
        )
    return scores[0], training.get("chosen_by") or f"dev of {', '.join(training.get('selected_on') or ())}"
