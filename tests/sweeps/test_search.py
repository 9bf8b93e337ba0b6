"""A search: its space, its shared journal, and what becomes of trials, whoever dies."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fake_cells import start
from forks import python
from hydra.utils import instantiate
from jobs import SMALL
from search_cells import planner_of, result_text, search_in

from callbacks.trial import TrialAddress, open_journal
from juzhen.core.errors import UserError
from sweeps.ledger import Event, Ledger
from sweeps.status import State, read_status

optuna = pytest.importorskip("optuna")

from optuna.trial import TrialState  # noqa: E402

from sweeps.runners import Ended  # noqa: E402
from sweeps.search import PRUNERS, search_markdown  # noqa: E402

DRIVER = Path(__file__).with_name("search_cells.py")


def states(search) -> list[str]:
    return [trial.state.name for trial in search.trials()]


@pytest.mark.parametrize("pruner", PRUNERS)
def test_every_pruner_can_be_made_and_asked_by_a_run(tmp_path, pruner):
    with search_in(tmp_path, pruner=pruner, num_trials=2) as search:
        good, bad = search.next().number, search.next().number
        for validation in range(1, 10):
            search.storage.set_trial_intermediate_value(search._id(good), validation, 0.9)
        search.tell(good, 0.9)
        made = instantiate(search.study.user_attrs["pruner"])
        asked = []
        for validation in range(1, 10):
            search.storage.set_trial_intermediate_value(search._id(bad), validation, 0.1)
            asked.append(bool(made.prune(search.study, search.storage.get_trial(search._id(bad)))))
    # hyperband wants several in a bracket before it ends one
    assert any(asked) == (pruner == "median")


def test_two_share_a_study_and_a_third_goes_on(tmp_path):
    with search_in(tmp_path, num_trials=3) as one, search_in(tmp_path, num_trials=3) as two:
        found = [one.next(), two.next(), one.next()]
        assert [candidate.number for candidate in found] == [0, 1, 2]
        assert len({candidate.params["rate"] for candidate in found}) == 3
        assert one.next() is two.next() is None  # those of the other are at work, and so not taken back
        two.tell(1, 0.5, runs=["run"])
        one.tell(0, TrialState.FAIL, error="no luck")
        assert states(one) == ["FAIL", "COMPLETE", "RUNNING"]
    for words, changes in ((["rate=interval(0,2)"], {}), ([], {"key": "1"})):
        with suppress(UserError):  # which changes nothing
            search_in(tmp_path, *words, **changes)
    with search_in(tmp_path, num_trials=4) as more:
        more.tell(more.next().number, 0.1)
        assert states(more) == ["FAIL", "COMPLETE", "FAIL", "COMPLETE"]  # what was left, under a new number
        assert more.next().number == 4


def test_what_a_dead_process_tried_is_tried_again_with_what_it_had_reported(tmp_path):
    dead = search_in(tmp_path, num_trials=1).__enter__()
    left = dead.next()
    dead.storage.set_trial_intermediate_value(dead._id(left.number), 1, 0.25)
    dead._alive.release()  # as the system does for a process that dies
    with search_in(tmp_path, num_trials=1) as search:
        again = search.next()
        assert (again.number, again.params) == (1, left.params)
        assert search.trials()[1].intermediate_values == {1: 0.25}
        search.tell(1, 0.5)
        assert search.next() is None
        assert states(search) == ["FAIL", "COMPLETE"]
        assert "1 trials: 1 complete." in search_markdown(search, seed=1)


def test_a_torn_line_of_the_journal_is_dropped(tmp_path):
    with search_in(tmp_path) as search:
        search.tell(search.next().number, 0.5)
    with search.path.open("ab") as file:
        file.write(b'{"op_code": 5, "wor')
    with search_in(tmp_path) as search:
        search.next()
    assert len(open_journal(search.path).get_all_trials(0)) == 2


class Instant:
    """A runner that has done a cell as soon as it is started: `outcome` says how, and leaves what a run leaves."""

    begins, poll_seconds = Event.STARTED, 0.0

    def __init__(self, outcome, jobs=2):
        self.outcome, self.jobs, self.started = outcome, jobs, []

    def capacity(self):
        return self.jobs

    def describe(self):
        return f"{self.jobs} at a time"

    def start(self, cell, log):
        log.write_text("error: no luck\n")
        self.started.append(cell)
        self.ended = self.outcome(cell)
        return self

    def close(self):
        pass

    facts, since = {"process": 1}, 0.0

    def poll(self):
        return self.ended


def finish(cell, score=0.5):
    Path(cell.run_dir).mkdir(parents=True)
    (Path(cell.run_dir) / "result.json").write_text(result_text(score))
    return Ended(0)


def test_failed_pruned_and_finished_trials_are_told_and_reported(tmp_path):
    def outcome(cell):
        number = TrialAddress.parse(cell.words[2].partition("=")[2]).number
        if number == 0:
            return Ended(1)
        if number == 1:
            search._note(number, "pruned_at", 2)
            search.storage.set_trial_intermediate_value(search._id(number), 2, 0.1)
            return Ended(0)
        return finish(cell, number / 10)

    with search_in(tmp_path, num_trials=5) as search:
        planner_of(search, tmp_path, Instant(outcome)).run()
        assert states(search) == ["FAIL", "PRUNED", "COMPLETE", "COMPLETE", "COMPLETE"]
        found = search_markdown(search, seed=7)
    assert "5 trials: 3 complete, 1 pruned, 1 failed" in found
    assert found.index("| 4 | 40.00 [40.0, 60.0]") < found.index("| 3 | 30.00")
    assert "Trial 0 failed: error: no luck" in found
    rate = search.trials()[4].params["rate"]
    assert f"python train.py rate={rate!r} resume=auto" in found
    assert "for seed in 8 9 10; do" in found
    status = read_status(tmp_path)
    assert (status.count(State.PRUNED), status.count(State.FAILED)) == (1, 1)


def test_runs_that_are_finished_are_read_and_not_started(tmp_path):
    words = ("rate=choice(1,2)",)
    runner = Instant(finish)
    with search_in(tmp_path, *words, num_trials=8) as search:
        planner_of(search, tmp_path, runner).run()
        assert states(search) == ["COMPLETE"] * 8
    assert len(runner.started) == 2


def test_a_trial_is_the_mean_of_its_seeds(tmp_path):
    runner = Instant(lambda cell: finish(cell, 0.2 if cell.run_dir.endswith("b") else 0.6))
    with search_in(tmp_path, num_trials=1, seeds=(1, 2)) as search:
        planner_of(search, tmp_path, runner, seeds=("a", "b")).run()
        assert search.trials()[0].value == pytest.approx(0.4)
        found = search_markdown(search, seed=9)
    assert "40.00 (mean of 2 seeds)" in found
    assert "for seed in 3 4 5; do" in found


@pytest.mark.slow
def test_two_processes_share_the_trials_and_none_is_run_twice(tmp_path):
    folder = tmp_path / "runs"
    searches = [start(DRIVER, folder, 8, SECONDS=0.05) for _ in range(2)]
    told = [one.communicate(timeout=120)[0] for one in searches]
    assert all(one.returncode == 0 for one in searches), told
    with search_in(folder, num_trials=8) as search:
        trials = search.trials()
    assert states(search) == ["COMPLETE"] * 8
    assert len({trial.user_attrs["worker"] for trial in trials}) == 2
    assert sorted(path.read_text() for path in folder.glob("*/starts")) == ["x"] * 8
    for trial in trials:
        assert trial.value == pytest.approx(1 - (trial.params["rate"] - 0.3) ** 2)


def num_starts(folder: Path) -> int:
    return sum(event["event"] == Event.STARTED for event in Ledger(folder).events())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_and_taken_up_it_has_all_its_trials(tmp_path, seed):
    folder, draw = tmp_path / "runs", random.Random(seed)
    for _ in range(4):
        pair = [start(DRIVER, folder, 12, SECONDS=0.4) for _ in range(2)]
        before = num_starts(folder)
        while num_starts(folder) < before + 2 and pair[0].poll() is None:
            time.sleep(0.05)
        time.sleep(draw.uniform(0, 0.6))
        pair[0].kill()
        time.sleep(draw.uniform(0, 0.6))
        pair[1].kill()
        for one in pair:
            one.wait()
    last = start(DRIVER, folder, 12, SECONDS=0.1)
    told, _ = last.communicate(timeout=120)
    assert last.returncode == 0, told
    with search_in(folder, num_trials=12) as search:
        trials = search.trials()
    assert any(trial.state is TrialState.FAIL for trial in trials)
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    assert len(complete) == 12
    assert len({trial.params["rate"] for trial in complete}) == 12
    assert all(trial.user_attrs["abandoned"] for trial in trials if trial.state is TrialState.FAIL)
    finished = [event["cell"] for event in Ledger(folder).events() if event["event"] == Event.FINISHED]
    assert len(finished) == len({*finished})


@pytest.mark.slow
def test_train_m_searches_with_seeds_and_reads_what_it_has_found(tmp_path, tiny_backbone):
    words = [
        *(word for word in SMALL if "progress" not in word),
        f"backbone.path={tiny_backbone}",
        "training.duration=4 steps",
        "hydra/sweeper=optuna",
        "hydra.sweeper.num_trials=2",
        "hydra.sweeper.seeds=[1,2]",
        "hydra.launcher.jobs=2",
        "optimizer.lr=tag(log,interval(1e-4,1e-2))",
        f"output_dir={tmp_path}",
    ]
    for _ in range(2):
        done = python("train.py", "-m", *words)
        assert done.returncode == 0, done.stderr
        assert "2 trials: 2 complete." in done.stdout
        assert "(mean of 2 seeds)" in done.stdout
    assert "started" not in done.stderr  # the second time all runs were there
    assert len(list(tmp_path.glob("*/result.json"))) == 4
    assert (tmp_path / ".sweep" / "search.md").read_text() == done.stdout
