"""What a search found: its best trials, what mattered, and the command line that repeats the best."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from juzhen.core.commands import command
from juzhen.core.errors import UserError
from juzhen.core.markup import in_markdown, markdown_table
from juzhen.core.result import Result
from sweeps.search import RUNS, Search, counts

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
    complete = sorted(
        (one for one in trials if one.state is TrialState.COMPLETE), key=lambda one: one.value, reverse=True
    )
    parts = [f"# Search {search.settings.study}", _counted(search, trials)]
    if complete:
        parts += [
            _table(complete[:SHOWN], list(search.space.varied)),
            _importances(search.study, len(complete)),
            "The best again (what is there is shown and not trained twice):",
            _block([_command(search, complete[0], ["resume=auto"])]),
            CAVEAT,
            _block(_with_new_seeds(search, complete[0], seed)),
        ]
    failed = [one for one in trials if one.state is TrialState.FAIL and counts(one)]
    parts += [
        f"Trial {one.number} failed: {in_markdown(str(one.user_attrs.get('error', '')))}"
        for one in failed[:SHOWN]
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(search: Search, trials: Sequence[FrozenTrial]) -> str:
    states = [one.state for one in trials if counts(one)]
    words = {
        TrialState.COMPLETE: "complete",
        TrialState.PRUNED: "pruned",
        TrialState.FAIL: "failed",
        TrialState.RUNNING: "still running in other processes",
    }
    found = [f"{states.count(state)} {word}" for state, word in words.items() if states.count(state)]
    left = search.settings.num_trials - len(states)
    if left > 0:
        found.append(f"{left} to go: the same command goes on")
    return f"{max(len(states), search.settings.num_trials)} trials: {', '.join(found)}. Scores are dev ×100."


def _table(trials: Sequence[FrozenTrial], keys: Sequence[str]) -> str:
    lines = []
    for trial in trials:
        values = [shown(trial.params[key]) for key in keys]
        runs = [str(run) for run in trial.user_attrs.get(RUNS, [])]
        lines.append([str(trial.number), _score(trial.value, runs), *values, ", ".join(runs)])
    return markdown_table(["trial", "dev", *keys, "run"], lines, numbers=[0])


def shown(value: Any) -> str:
    """A value in a table: four digits are enough to read, and a blank needs no backslash as on a command line.

    >>> shown(0.000123456), shown(32), shown("5\\\\ percent")
    ('0.0001235', '32', '5 percent')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("\\ ", " ")


def _score(score: float, runs: Sequence[str]) -> str:
    """One run: with its interval, where it was judged on one set; several: their mean."""
    text = f"{100 * score:.2f}"
    if len(runs) > 1:
        return f"{text} (mean of {len(runs)} seeds)"
    interval = _interval(runs[0]) if runs else None
    return text if interval is None else f"{text} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def _interval(run_dir: str) -> tuple[float, float] | None:
    try:
        result = Result.read(run_dir)
    except UserError:
        return None  # the folder was moved or deleted; the journal has the score
    judged: Mapping[str, Any] = result.training
    if len(judged.get("selected_on") or []) != 1:
        return None
    metric = next(key.removeprefix("best_dev_") for key in judged if key.startswith("best_dev_"))
    score = result.scores.get(f"dev/{judged['selected_on'][0]}/{metric}")
    if score is None or score.low is None or score.high is None:
        return None
    return score.low, score.high


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
    found = ", ".join(f"{key} {100 * share:.0f} %" for key, share in shares.items())
    return f"What mattered, by {num_complete} trials (rough): {found}."


def _words(search: Search, trial: FrozenTrial) -> list[str]:
    return [word for word in search.space.words(trial.params) if not word.startswith("logger.group=")]


def _command(search: Search, trial: FrozenTrial, more: Sequence[str]) -> str:
    seed = [f"seed={search.settings.seeds[0]}"] if search.settings.seeds else []
    return command("python", "train.py", *_words(search, trial), *seed, *more)


def _with_new_seeds(search: Search, trial: FrozenTrial, seed: int) -> list[str]:
    first = max(search.settings.seeds or (seed,)) + 1
    seeds = " ".join(str(first + number) for number in range(NEW_SEEDS))
    words = [word for word in _words(search, trial) if not word.startswith("seed=")]
    return [
        f"for seed in {seeds}; do",
        f"  {command('python', 'train.py', *words, unquoted=['seed=$seed'])}",
        "done",
    ]


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```bash", *lines, "```"])
