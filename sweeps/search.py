"""Hyper-parameter search with Optuna: the space, the shared study, the planner of trials and the report."""

import json
import math
import re
import statistics
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from hydra.core.override_parser.types import IntervalSweep, Override
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from callbacks.trial import PRUNED_AT, PRUNER, open_journal
from juzhen.core.atomic_write import remove_file
from juzhen.core.errors import UserError, command, require_choice
from juzhen.core.file_guard import claim_dir, refuse_links
from juzhen.core.result import Result
from juzhen.core.text import counted, in_markdown, markdown_table, short, short_where_apart
from sweeps.ledger import FOLDER, JOBS, Event, Ledger, SweepCell
from sweeps.planner import CellAttempt, Planner
from sweeps.runners import Ended, Runner

LOG = "log"
EXAMPLE = "'optimizer.lr=tag(log, interval(1e-5, 1e-3))'"


@dataclass(frozen=True)
class SearchSpace:
    """Arguments of the trials of a search.

    Args:
        fixed: Arguments of every trial.
        varied: Key → distribution.
    """

    fixed: tuple[str, ...]
    varied: Mapping[str, BaseDistribution]

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Return arguments with numbers in full, so that equal arguments are the same run.

        Args:
            values: Varied key → value of a trial.

        Returns:
            Fixed arguments, then `key=value` of each varied key.
        """
        texts = {key: value if isinstance(value, str) else repr(value) for key, value in values.items()}
        return [*self.fixed, *(f"{key}={texts[key]}" for key in self.varied)]


def read_space(overrides: Iterable[Override]) -> SearchSpace:
    """Read the space of overrides. The last entry of a key counts.

    Args:
        overrides: Parsed words of the file and of the command line, in order.

    Returns:
        The space. Overrides with one value are fixed.

    Raises:
        UserError: No key varies, or a tag or an interval cannot be used.
    """
    last = {override.get_key_element().lstrip("+"): override for override in overrides}.values()
    fixed = tuple(str(override.input_line) for override in last if not override.is_sweep_override())
    swept = [override for override in last if override.is_sweep_override()]
    varied = {override.get_key_element(): _distribution(override) for override in swept}
    if not varied:
        raise UserError(
            f"there is nothing to search: give a key several values, for example {EXAMPLE} or sweep=search"
        )
    return SearchSpace(fixed, varied)


def _distribution(override: Override) -> BaseDistribution:
    """Return the distribution of an override. Raises UserError for a tag that would be ignored."""
    line, value = str(override.input_line), override.value()
    tags = getattr(value, "tags", set())
    log = LOG in tags
    if tags - {LOG} or (log and override.is_choice_sweep()):
        raise UserError(f"{line}: expected the tag log, and that for numbers, as in {EXAMPLE}")
    if override.is_choice_sweep():
        choices = list(override.sweep_string_iterator())
        return CategoricalDistribution(choices)
    if isinstance(value, IntervalSweep):
        if not (math.isfinite(value.start) and math.isfinite(value.end) and value.start < value.end):
            raise UserError(f"{line}: expected two finite numbers, the lower first, as in {EXAMPLE}")
        both_int = isinstance(value.start, int) and isinstance(value.end, int)
        return (IntDistribution if both_int else FloatDistribution)(value.start, value.end, log=log)
    values = sorted(value.range())
    is_int = all(isinstance(number, int) for number in values)
    kind = IntDistribution if is_int else FloatDistribution
    return kind(values[0], values[-1], step=abs(value.step), log=log)


BEST_DEV = "best_dev_"
"""`callbacks/trainer.py` keeps the score that chose the weights under a key that begins so."""

JUDGED_BY = "judged_by"
"""Attribute of the study: what chose the weights of its trials, in words."""

WORKER, ABANDONED, CONTINUES, ERROR, RUNS = "worker", "abandoned", "continues", "error", "runs"
"""Attributes of trials in the journal."""

SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    # constant_liar: what others are trying at the moment is kept away from
    "tpe": lambda seed, after: TPESampler(seed=seed, n_startup_trials=after, constant_liar=True),
    "random": lambda seed, after: RandomSampler(seed=seed),
}

PRUNERS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "none": lambda trials, validations: _pruner("Nop"),
    "median": lambda trials, validations: _pruner(
        "Median", n_startup_trials=trials, n_warmup_steps=validations
    ),
    "hyperband": lambda trials, validations: _pruner("Hyperband", min_resource=max(1, validations)),
}


def _pruner(name: str, **numbers: int) -> dict[str, Any]:
    return {"_target_": f"optuna.pruners.{name}Pruner", **numbers}


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search, as conf/hydra/sweeper/optuna.yaml describes them.

    Args:
        study: Name of the study.
        num_trials: Trials of the study, of all processes together.
        seeds: Seeds of the runs of a trial. Empty: the job's seed.
        sampler, sampler_seed: Way to choose points, and its seed.
        random_trials: First trials, which are drawn at random.
        pruner: Rule that ends a trial early.
        prune_after_trials, prune_after_validations: Trials, and validations of a trial, before it is pruned.

    Raises:
        UserError: Contradictory settings, or a study that would be in another folder.
    """

    study: str
    num_trials: int
    seeds: tuple[int, ...]
    sampler: str
    sampler_seed: int
    random_trials: int
    pruner: str
    prune_after_trials: int
    prune_after_validations: int

    def __post_init__(self) -> None:
        for key, table in (("sampler", SAMPLERS), ("pruner", PRUNERS)):
            require_choice(f"hydra.sweeper.{key}", getattr(self, key), table)
        if not self.study or {*self.study} & {*"/\\#"}:
            raise UserError(f"hydra.sweeper.study={self.study}: expected a name without / \\ and #")
        if type(self.num_trials) is not int or self.num_trials < 1:
            raise UserError(
                f"hydra.sweeper.num_trials={self.num_trials}: expected a whole number, at least 1"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"hydra.sweeper.seeds={list(self.seeds)}: a seed is there twice. Keep one")


class HyperparameterSearch:
    """One study in `<folder>/.sweep/<study>.journal`. A context manager that marks this process as alive.

    Args:
        folder: Folder of the sweep.
        space: Fixed and varied arguments.
        settings: Settings of the search. Its `study` names the journal.
        key: Key that the same search shares on every machine: the run key of its first point.

    Raises:
        UserError: A study of that name started with another space or other arguments.
    """

    def __init__(self, folder: str | Path, space: SearchSpace, settings: SearchSettings, *, key: str) -> None:
        self.space = space
        self.settings = settings
        self.path = Path(folder) / FOLDER / f"{settings.study}.journal"
        refuse_links(Path(folder), [FOLDER], within=[JOBS])
        claim_dir(self.path.parent)
        self.storage = open_journal(self.path)
        self.lock = FileLock(self.path.with_suffix(".lock"), is_singleton=False)
        self.worker = uuid.uuid4().hex
        self._alive = self._lock_of(self.worker)
        with self.lock:
            self.study = optuna.create_study(
                storage=self.storage,
                study_name=settings.study,
                direction="maximize",
                load_if_exists=True,
                sampler=RandomSampler(),
                pruner=optuna.pruners.NopPruner(),
            )
            self._agree(key)

    def __enter__(self) -> "HyperparameterSearch":
        self._alive.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self._alive.release()
        remove_file(Path(self._alive.lock_file))

    def next(self) -> optuna.Trial | None:
        """Return an abandoned trial of a dead process, else a new one. None when there are enough.

        Returns:
            The trial, marked with this worker, or None.
        """
        with self.lock:
            self._take_back()
            trials = self.study.get_trials(deepcopy=False)
            has_waiting = any(trial.state is TrialState.WAITING for trial in trials)
            if not has_waiting and sum(map(_counts, trials)) >= self.settings.num_trials:
                return None
            # Not one sampler for all: processes with the same seed would draw the same points.
            seed = (self.settings.sampler_seed * 100_003 + len(trials)) % 2**32
            self.study.sampler = SAMPLERS[self.settings.sampler](seed, self.settings.random_trials)
            trial = self.study.ask(dict(self.space.varied))
            trial.set_user_attr(WORKER, self.worker)
            return trial

    def tell(
        self, number: int, outcome: float | TrialState, *, runs: Sequence[str] = (), error: str = ""
    ) -> None:
        """Report the end of a trial. A failed trial has no score and counts as tried.

        Args:
            number: Number of the trial.
            outcome: Dev score, or the final state of a trial without one.
            runs: Folders of its runs.
            error: Message of a failed trial. "": none.
        """
        self._note(number, RUNS, list(runs))
        if error:
            self._note(number, ERROR, error)
        if isinstance(outcome, TrialState):
            self.study.tell(number, state=outcome)
        else:
            self.study.tell(number, outcome)

    def pruned_at(self, number: int) -> int | None:
        """Return the validation after which the trial's run ended early.

        Args:
            number: Number of the trial.

        Returns:
            Number of the validation, from 1. None for a run that was not pruned.
        """
        return self.storage.get_trial(self._id(number)).user_attrs.get(PRUNED_AT)

    @property
    def has_score(self) -> bool:
        return any(trial.state is TrialState.COMPLETE for trial in self.trials())

    def trials(self) -> list[FrozenTrial]:
        """All trials of the study, in the order in which they were made.

        Returns:
            Trials of Optuna.
        """
        return self.study.get_trials(deepcopy=False)

    def _agree(self, key: str) -> None:
        settings = self.settings
        mine = {
            "space": {name: distribution_to_json(kind) for name, kind in self.space.varied.items()},
            "seeds": list(settings.seeds),
            "run_key": key,
            PRUNER: PRUNERS[settings.pruner](settings.prune_after_trials, settings.prune_after_validations),
        }
        theirs = self.study.user_attrs
        for name, value in mine.items():
            if theirs.get(name, value) != value:
                raise UserError(
                    f"{self.path}: the study {settings.study} has another {name.replace('_', ' ')} "
                    f"({short('. '.join(_differences(theirs[name], value)), 400)}). Repeat its command, or begin "
                    "another study: "
                    f"hydra.sweeper.study=<name>"
                )
        for name in mine.keys() - theirs.keys():
            self.study.set_user_attr(name, mine[name])

    def judge_by(self, measure: str) -> None:
        """Check that all trials are judged by the same metric and sets. Others cannot be ranked.

        Args:
            measure: Description of the score of a trial. The first one is kept in the study.

        Raises:
            UserError: Earlier trials have another description.
        """
        with self.lock:
            before = self.study.user_attrs.get(JUDGED_BY)
            if before is None:
                self.study.set_user_attr(JUDGED_BY, measure)
            elif before != measure:
                raise UserError(
                    f"{self.path}: a trial was judged by {measure}, those before it by {before}, and these cannot be "
                    "compared. Name one number for all and begin another: training.monitor=dev/<set>/<metric> "
                    "hydra.sweeper.study=<name>"
                )

    def _take_back(self) -> None:
        """Fail the trials of dead processes, and queue them again with their reports."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if self._is_alive(trial.user_attrs.get(WORKER)):
                continue
            self._note(trial.number, ABANDONED, True)
            self.study.tell(trial.number, state=TrialState.FAIL)
            if {*trial.params} == {*self.space.varied}:  # else it died while it chose them
                again = optuna.trial.create_trial(
                    state=TrialState.WAITING,
                    params=trial.params,
                    distributions=trial.distributions,
                    user_attrs={CONTINUES: trial.number},
                    intermediate_values=trial.intermediate_values,
                )
                self.study.add_trial(again)

    def _is_alive(self, worker: str | None) -> bool:
        # It died before it could sign: we hold the lock under which that is done. Or no search has signed.
        if not re.fullmatch(r"[0-9a-f]{32}", str(worker)):
            return False
        lock = self._lock_of(worker)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        with suppress(OSError):
            remove_file(Path(lock.lock_file))
        return False

    def _lock_of(self, worker: str) -> FileLock:
        folder = self.path.with_suffix(".workers")
        claim_dir(folder)
        return FileLock(folder / f"{worker}.lock", is_singleton=False)

    def _id(self, number: int) -> int:
        study = self.storage.get_study_id_from_name(self.settings.study)
        return self.storage.get_trial_id_from_study_id_trial_number(study, number)

    def _note(self, number: int, name: str, value: Any) -> None:
        self.storage.set_trial_user_attr(self._id(number), name, value)


def _differences(then: Any, now: Any) -> Iterator[str]:
    """What differs between two values of a study, a phrase each.

    >>> list(_differences({"lr": 0.1, "seed": [1]}, {"lr": 0.2, "rows": [2], "seed": [1]}))
    ['lr was 0.1, now 0.2', 'rows was null, now [2]']
    """
    if not (isinstance(then, dict) and isinstance(now, dict)):
        then, now = {"": then}, {"": now}
    for key in dict.fromkeys([*then, *now]):
        values = [side.get(key) for side in (then, now)]
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        if texts[0] != texts[1]:
            before, after = (short_where_apart(text, texts) for text in texts)
            yield f"{key} was {before}, now {after}".strip()


def _counts(trial: FrozenTrial) -> bool:
    """True for a requested trial. An abandoned trial of a dead process is retried under a new number."""
    return trial.state is not TrialState.WAITING and ABANDONED not in trial.user_attrs


SECONDS_BETWEEN_QUESTIONS = 5.0


@dataclass
class SearchTrial:
    """A trial of this process.

    Args:
        number: Number of the trial in the study.
        cells: Remaining cells. The first is running or next.
        done: Folders of finished cells.
        scores: Scores of finished cells.
    """

    number: int
    cells: list[SweepCell]
    done: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class SearchPlanner(Planner):
    """Requests a trial from the search whenever there is room for one, and reports its outcome.

    Args:
        search: The study, open in this process.
        cells_of: Makes the cells of a trial, one per seed. Only the first reports validations.
        ledger: As in Planner.
        runner: As in Planner.
        attempts: As in Planner.
        report: As in Planner.
        watch: As in Planner.
    """

    def __init__(
        self,
        search: HyperparameterSearch,
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
        self.trials: list[SearchTrial] = []
        self.num_ended = 0
        self._asked = float("-inf")

    def _plan(self) -> None:
        settings = self.search.settings
        self.ledger.add(Event.SWEEP, cells=settings.num_trials, jobs=self.runner.capacity())
        self.report(f"search {settings.study}: {settings.num_trials} trials in all; {self.runner.describe()}")

    def _fill(self) -> bool:
        """Settle trials whose cell has ended, and request one if there is room. False when all are done."""
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
            trial = SearchTrial(candidate.number, list(self.cells_of(candidate)))
            self.trials.append(trial)
            self.ledger.plan(trial.cells)
            if trial.cells[0].finished:
                self._settle(trial)
            else:
                self.waiting.append(CellAttempt(trial.cells[0]))
        return bool(self.trials)

    def _settle(self, trial: SearchTrial) -> None:
        """Read the available results. Then start the trial's next cell, or report its end to the search."""
        if not trial.cells[0].finished:
            error = self.summary.failed.pop(trial.cells[0], "ended without a result")
            self.search.tell(trial.number, TrialState.FAIL, error=error)
            self._close(trial, f"failed ({error})")
            return
        while trial.cells and trial.cells[0].finished:
            cell = trial.cells.pop(0)
            score, measure = _dev_score(cell)
            self.search.judge_by(measure)
            trial.scores.append(score)
            trial.done.append(cell.run_dir)
        if trial.cells:
            self.waiting.append(CellAttempt(trial.cells[0]))
            return
        score = statistics.fmean(trial.scores)
        self.search.tell(trial.number, score, runs=trial.done)
        self._close(trial, f"{100 * score:.2f} on dev ×100")

    def _end(self, turn: CellAttempt, ended: Ended) -> None:
        """End a trial. A pruned run is not a failure."""
        cell = turn.cell
        trial = next(trial for trial in self.trials if trial.cells[0] is cell)
        if ended.status == 0 and not cell.finished and self.search.pruned_at(trial.number) is not None:
            self.ledger.add(Event.PRUNED, cell=cell.name, seconds=turn.seconds)
            self.search.tell(trial.number, TrialState.PRUNED, runs=[*trial.done, cell.run_dir])
            self._close(trial, f"{cell.name}: pruned")
            return
        super()._end(turn, ended)

    def _close(self, trial: SearchTrial, outcome: str) -> None:
        self.trials.remove(trial)
        self.num_ended += 1
        self.report(f"trial {trial.number}: {outcome}")

    def _count(self) -> str:
        return f"[{self.num_ended}]"


def _dev_score(cell: SweepCell) -> tuple[float, str]:
    """Return the dev score that chose the weights of a finished run, and its description.

    Raises UserError if dev chose nothing.
    """
    training = Result.read(cell.run_dir).training
    scores = [value for key, value in training.items() if key.startswith(BEST_DEV) and value is not None]
    if not scores:
        raise UserError(
            f"{cell.run_dir}: no checkpoint was chosen on dev, so a search has no goal. Train on a set with "
            f"a dev split, or evaluate on one (benchmark=…) and name it: training.monitor=dev/<set>/spearman"
        )
    return scores[0], training.get("chosen_by") or f"dev of {', '.join(training.get('selected_on') or ())}"


SHOWN = 10
NEW_SEEDS = 3
ENOUGH_FOR_IMPORTANCES = 10
CAVEAT = (
    "These scores were chosen on dev, so the best of them flatters itself, the more the more was tried; trials "
    "whose intervals overlap cannot be told apart. Report test scores, and of runs with new seeds:"
)


def search_markdown(search: HyperparameterSearch, *, seed: int) -> str:
    """Return the report as Markdown.

    Args:
        search: The study.
        seed: Seed of a run if the search has no list of seeds.

    Returns:
        Markdown with a final line break.
    """
    trials = search.trials()
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    complete.sort(key=lambda trial: trial.value, reverse=True)
    parts = [f"# Search {search.settings.study}", _counted(search, trials)]
    if complete:
        parts += [
            _table(complete[:SHOWN], list(search.space.varied)),
            _importances(search.study, len(complete)),
            "The best again (what is there is shown and not trained twice):",
            _best_again(search, complete[0]),
            CAVEAT,
            _with_new_seeds(search, complete[0], seed),
        ]
    failed = [trial for trial in trials if trial.state is TrialState.FAIL and _counts(trial)]
    parts += [
        f"Trial {trial.number} failed: {in_markdown(str(trial.user_attrs.get(ERROR, '')))}"
        for trial in failed[:SHOWN]
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(search: HyperparameterSearch, trials: Sequence[FrozenTrial]) -> str:
    states = [trial.state for trial in trials if _counts(trial)]
    names = {
        TrialState.COMPLETE: "complete",
        TrialState.PRUNED: "pruned",
        TrialState.FAIL: "failed",
        TrialState.RUNNING: "still running in other processes",
    }
    counted = [f"{states.count(state)} {name}" for state, name in names.items() if states.count(state)]
    num_left = search.settings.num_trials - len(states)
    if num_left > 0:
        counted.append(f"{num_left} to go: the same command goes on")
    return (
        f"{max(len(states), search.settings.num_trials)} trials: {', '.join(counted)}. Scores are dev ×100."
    )


def _table(trials: Sequence[FrozenTrial], keys: Sequence[str]) -> str:
    rows = []
    for trial in trials:
        runs = [str(run) for run in trial.user_attrs.get(RUNS, [])]
        values = [_shown(trial.params[key]) for key in keys]
        rows.append([str(trial.number), _score(trial.value, runs), *values, ", ".join(runs)])
    return markdown_table(["trial", "dev", *keys, "run"], rows, numbers=[0])


def _shown(value: Any) -> str:
    """A value in a table: four digits are enough to read, and a blank needs no backslash as on a command line.

    >>> _shown(0.000123456), _shown(32), _shown("5\\\\ percent")
    ('0.0001235', '32', '5 percent')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("\\ ", " ")


def _score(score: float, runs: Sequence[str]) -> str:
    """Format the score. One run: with its interval, if evaluated on one set. Several: their mean."""
    if len(runs) > 1:
        return f"{100 * score:.2f} (mean of {counted(len(runs), 'seeds')})"
    low, high = (_interval(runs[0]) if runs else None) or (None, None)
    return f"{100 * score:.2f}" if low is None else f"{100 * score:.2f} [{100 * low:.1f}, {100 * high:.1f}]"


def _interval(run_dir: str) -> tuple[float | None, float | None] | None:
    try:
        result = Result.read(run_dir)
    except UserError:
        return None  # the folder was moved or deleted; the journal has the score
    judged_on = result.training.get("selected_on") or []
    metric = next((key.removeprefix(BEST_DEV) for key in result.training if key.startswith(BEST_DEV)), "")
    score = result.scores.get(f"dev/{judged_on[0]}/{metric}") if len(judged_on) == 1 else None
    return score and (score.low, score.high)


def _importances(study: optuna.Study, num_complete: int) -> str:
    """Return shares of the score's dependence on each key. With few trials they are omitted as noise."""
    if num_complete < ENOUGH_FOR_IMPORTANCES:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = optuna.importance.get_param_importances(study)
    except (ValueError, RuntimeError):
        return ""  # all scores are equal, or nothing was varied in them
    text = ", ".join(f"{key} {100 * share:.0f} %" for key, share in shares.items())
    return f"What mattered, by {num_complete} trials (rough): {text}."


def _words(search: HyperparameterSearch, trial: FrozenTrial) -> list[str]:
    return [word for word in search.space.words(trial.params) if not word.startswith("logger.group=")]


def _best_again(search: HyperparameterSearch, trial: FrozenTrial) -> str:
    seed = [f"seed={search.settings.seeds[0]}"] if search.settings.seeds else []
    return f"```bash\n{command('python', 'train.py', *_words(search, trial), *seed, 'resume=auto')}\n```"


def _with_new_seeds(search: HyperparameterSearch, trial: FrozenTrial, seed: int) -> str:
    first = max(search.settings.seeds or (seed,)) + 1
    seeds = " ".join(str(first + number) for number in range(NEW_SEEDS))
    overrides = [word for word in _words(search, trial) if not word.startswith("seed=")]
    line = command("python", "train.py", *overrides, unquoted=["seed=$seed"])
    return f"```bash\nfor seed in {seeds}; do\n  {line}\ndone\n```"
