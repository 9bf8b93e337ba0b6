"""What a search found: its best trials, what mattered, and the command line that repeats the best."""

import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from juzhen.core.errors import UserError, command
from juzhen.core.result import Result
from juzhen.core.text import in_markdown, markdown_table
from sweeps.search import BEST_DEV, ERROR, RUNS, Search, counts

SHOWN = 10
NEW_SEEDS = 3
ENOUGH_FOR_IMPORTANCES = 10
CAVEAT = (
    "These scores were chosen on dev, so the best of them flatters itself, the more the more was tried; trials "
    "whose intervals overlap cannot be told apart. Report test scores, and of runs with new seeds:"
)


def search_markdown(search: Search, *, seed: int) -> str:
    """The report as Markdown.

    seed  of a run where the search has no seeds of its own
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
    failed = [trial for trial in trials if trial.state is TrialState.FAIL and counts(trial)]
    parts += [
        f"Trial {trial.number} failed: {in_markdown(str(trial.user_attrs.get(ERROR, '')))}"
        for trial in failed[:SHOWN]
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(search: Search, trials: Sequence[FrozenTrial]) -> str:
    states = [trial.state for trial in trials if counts(trial)]
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
        values = [shown(trial.params[key]) for key in keys]
        rows.append([str(trial.number), _score(trial.value, runs), *values, ", ".join(runs)])
    return markdown_table(["trial", "dev", *keys, "run"], rows, numbers=[0])


def shown(value: Any) -> str:
    """A value in a table: four digits are enough to read, and a blank needs no backslash as on a command line.

    >>> shown(0.000123456), shown(32), shown("5\\\\ percent")
    ('0.0001235', '32', '5 percent')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("\\ ", " ")


def _score(score: float, runs: Sequence[str]) -> str:
    """One run: with its interval, where it was judged on one set; several: their mean."""
    if len(runs) > 1:
        return f"{100 * score:.2f} (mean of {len(runs)} seeds)"
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
    """Shares of what the score depends on; with few trials they would be noise, and nothing is said."""
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


def _words(search: Search, trial: FrozenTrial) -> list[str]:
    return [word for word in search.space.words(trial.params) if not word.startswith("logger.group=")]


def _best_again(search: Search, trial: FrozenTrial) -> str:
    seed = [f"seed={search.settings.seeds[0]}"] if search.settings.seeds else []
    return f"```bash\n{command('python', 'train.py', *_words(search, trial), *seed, 'resume=auto')}\n```"


def _with_new_seeds(search: Search, trial: FrozenTrial, seed: int) -> str:
    first = max(search.settings.seeds or (seed,)) + 1
    seeds = " ".join(str(first + number) for number in range(NEW_SEEDS))
    overrides = [word for word in _words(search, trial) if not word.startswith("seed=")]
    line = command("python", "train.py", *overrides, unquoted=["seed=$seed"])
    return f"```bash\nfor seed in {seeds}; do\n  {line}\ndone\n```"
