"""A run of a search tells its trial how it does, ends when the pruner says so, and can be gone on with."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from jobs import run_job

from callbacks.reporting import PruneOnDev, pruning
from callbacks.trial import TrialAddress, open_journal
from juzhen.core.result import RESULT_FILE, Result
from launch.job import run_key

optuna = pytest.importorskip("optuna")

STEPS = ("training.duration=6 steps", "training.validate_every=2 steps", "resume=auto")


def study(folder: Path, pruner: dict) -> "optuna.Study":
    """A study with one trial that is at work; its pruner is told to the run as the search tells it."""
    storage = open_journal(folder / "s.journal")
    made = optuna.create_study(storage=storage, study_name="s", direction="maximize")
    made.set_user_attr("pruner", pruner)
    made.ask()
    return made


@pytest.mark.slow
def test_a_pruned_run_leaves_no_result_and_goes_on_for_another_trial(tmp_path, tiny_backbone, capsys):
    strict = study(tmp_path / "strict", {"_target_": "optuna.pruners.ThresholdPruner", "lower": 2.0})
    mild = study(tmp_path / "mild", {"_target_": "optuna.pruners.NopPruner"})
    with pytest.raises(SystemExit) as ended:
        run_job(tmp_path, tiny_backbone, *STEPS, f'trial="{tmp_path}/strict/s.journal#0"')
    assert ended.value.code == 0
    assert "pruned after validation 1: trial 0 of s" in capsys.readouterr().err
    assert not list(tmp_path.rglob(RESULT_FILE))
    (trial,) = strict.trials
    assert trial.user_attrs == {"pruned_at": 1}
    assert trial.state.name == "RUNNING"  # whoever runs the search says how it ended
    assert list(trial.intermediate_values) == [1]

    folder = run_job(tmp_path, tiny_backbone, *STEPS, f'trial="{tmp_path}/mild/s.journal#0"')
    result = Result.read(folder)
    assert result.training["steps"] == 6
    told = trial.intermediate_values | mild.trials[0].intermediate_values
    assert list(mild.trials[0].intermediate_values) == [2, 3]  # it has gone on, and not begun again
    assert result.training["best_dev_spearman"] == pytest.approx(max(told.values()))
    assert strict.trials[0].user_attrs == trial.user_attrs


def test_a_trial_that_was_given_up_is_told_nothing_and_ends_nothing(tmp_path):
    given_up = study(tmp_path, {"_target_": "optuna.pruners.ThresholdPruner", "lower": 2.0})
    given_up.tell(0, state=optuna.trial.TrialState.FAIL)
    callback = PruneOnDev(TrialAddress(str(tmp_path / "s.journal"), 0), monitor="dev/selection/spearman")
    callback.setup(SimpleNamespace(is_global_zero=True), None, "fit")
    assert callback._report(1, 0.5) is False
    assert given_up.trials[0].intermediate_values == {}


def test_only_the_last_stage_of_a_run_that_has_a_trial_reports(tmp_path):
    job = SimpleNamespace(trial="a#1", run_dir="runs/one")
    (callback,) = pruning(job, Path("runs/one"), monitor="m")
    assert callback.address == TrialAddress("a", 1)
    assert pruning(job, Path("runs/one/stages/0-a"), monitor="m") == []
    assert pruning(SimpleNamespace(trial=None, run_dir="runs/one"), Path("runs/one"), monitor="m") == []


def test_the_trial_is_no_part_of_what_a_run_is():
    assert run_key({"seed": 1, "trial": None}) == run_key({"seed": 1, "trial": "a#1"}) == run_key({"seed": 1})
