"""A study that any number of processes share: who tries what, what became of it, and whose work is taken up again."""

import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import distribution_to_json
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from callbacks.trial import open_journal
from juzhen.core.atomic_write import remove_file
from juzhen.core.errors import UserError, require_choice
from juzhen.core.file_guard import claim_dir, refuse_links
from juzhen.core.text import short, short_where_apart
from sweeps.ledger import FOLDER, JOBS
from sweeps.search_space import SearchSpace

BEST_DEV = "best_dev_"
"""`callbacks/training_record.py` keeps the score that chose the weights under a key that begins so."""

JUDGED_BY = "judged_by"
"""Attribute of the study: what chose the weights of its trials, in words."""

WORKER, ABANDONED, CONTINUES, ERROR, RUNS = "worker", "abandoned", "continues", "error", "runs"
PRUNED_AT = "pruned_at"
"""Attributes of trials in the journal; `pruned_at` is set by the run itself (`callbacks/pruning.py`)."""

PRUNER = "pruner"
"""Attribute of the study that tells every run how to make its pruner."""

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
    """How a search goes about it; conf/hydra/sweeper/optuna.yaml says what each key means.

    Raises UserError for what cannot be meant, and for a study that would lie in another folder.
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
            raise UserError(f"hydra.sweeper.seeds={list(self.seeds)}: a seed is there twice; keep one")


class Search:
    """One study in `<folder>/.sweep/<study>.journal`, as a context: until its end this process counts as alive.

    key  what the same search has in common on every machine: the run key of its first point

    Raises UserError when a study of that name was begun with another space or other words.
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

    def __enter__(self) -> "Search":
        self._alive.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self._alive.release()
        remove_file(Path(self._alive.lock_file))

    def next(self) -> optuna.Trial | None:
        """A trial for this process: one that a dead process left, else a new one; None when there are enough."""
        with self.lock:
            self._take_back()
            trials = self.study.get_trials(deepcopy=False)
            has_waiting = any(trial.state is TrialState.WAITING for trial in trials)
            if not has_waiting and sum(map(counts, trials)) >= self.settings.num_trials:
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
        """How a trial has ended: with that score, or in that state; one that fails has no score and counts as tried."""
        self._note(number, RUNS, list(runs))
        if error:
            self._note(number, ERROR, error)
        if isinstance(outcome, TrialState):
            self.study.tell(number, state=outcome)
        else:
            self.study.tell(number, outcome)

    def pruned_at(self, number: int) -> int | None:
        """The validation after which the trial's run ended itself."""
        return self.storage.get_trial(self._id(number)).user_attrs.get(PRUNED_AT)

    @property
    def has_score(self) -> bool:
        return any(trial.state is TrialState.COMPLETE for trial in self.trials())

    def trials(self) -> list[FrozenTrial]:
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
                    f"{self.path}: the study {settings.study} was begun with another {name.replace('_', ' ')} "
                    f"({short('; '.join(differences(theirs[name], value)), 400)}). Repeat its words, or begin another: "
                    f"hydra.sweeper.study=<name>"
                )
        for name in mine.keys() - theirs.keys():
            self.study.set_user_attr(name, mine[name])

    def judge_by(self, measure: str) -> None:
        """Raises UserError where trials before were judged by another number or other sets, which rank nothing."""
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
        """Trials of processes that have died fail, and are there to be tried again with what they had reported."""
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


def differences(then: Any, now: Any) -> Iterator[str]:
    """What differs between two values of a study, a phrase each.

    >>> list(differences({"lr": 0.1, "seed": [1]}, {"lr": 0.2, "rows": [2], "seed": [1]}))
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


def counts(trial: FrozenTrial) -> bool:
    """The trial is one of those that were asked for; one that a dead process left is tried again under a new number."""
    return trial.state is not TrialState.WAITING and ABANDONED not in trial.user_attrs
