"""Results, references, searches and runners that cannot be used are refused by file, key or name, with the way out."""

import sys
from pathlib import Path

import pytest
from fake_cells import SLURM
from refusals import rows
from report_fixture import report_of, small_picture, write_reference
from test_collect import a_run_below
from test_dashboards import grouped
from test_where_cells_run import PaperRunner, ray_runner, sweep

from juzhen.core.errors import UserError
from juzhen.report.collect import collect, export
from juzhen.report.compare import REQUIRED, figure, load_reference
from juzhen.report.matrix import build_matrix
from sweeps.dashboards import group_of
from sweeps.ledger import Ledger
from sweeps.runners import Ended, RayRunner, SlurmRunner


def into_a_file(f):
    (f.tmp_path / "file").write_text("precious")
    export(a_run_below(f.tmp_path), f.tmp_path / "file", report=print)


def of_too_large_a_score(f):
    f.make_result(["csts"], {"dev/csts/spearman": 1e308}).write(f.tmp_path)
    collect(f.tmp_path, report=print)


def matrix(f, scores, **asked):
    build_matrix([f.make_result(["csts"], scores)], **asked)


SCORED = {"dev/csts/spearman": 0.5, "dev/csts/accuracy": None}
RESULTS = [
    (lambda f: collect(f.tmp_path, report=pytest.fail), r"no result\.json of a run below it"),
    (lambda f: collect(f.tmp_path / "rnus", report=pytest.fail), "no such folder"),
    (of_too_large_a_score, "no result"),
    (
        lambda f: matrix(f, SCORED, metric="spearman", split="test"),
        "split=test: no result has a score of that split",
    ),
    (lambda f: matrix(f, SCORED, metric="spaerman"), r"metric=spaerman: .*accuracy, spearman"),
    (lambda f: matrix(f, {}, metric="spearman"), "no scores"),
    (
        lambda f: group_of(report_of(grouped(small_picture(f.make_result), "one", "two"))),
        r"groups one, two.*--group NAME",
    ),
]


def reference(f, text):
    (f.tmp_path / "faulty.csv").write_text(text)
    load_reference(f.tmp_path)


def figured(f, number):
    path = write_reference(f.tmp_path / "reference") / "somebody.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("58.18", number), encoding="utf-8")
    load_reference(path.parent)


REFERENCES = [
    (lambda f: reference(f, "a,b\n1,2\n"), r"faulty\.csv: columns a, b.* table, model.* metric, percent"),
    (
        lambda f: reference(f, "eval_set,metric,percent\nbq,spearman,12\nbq,spearman,many\n"),
        "line 3: could not convert string to float: 'many'",
    ),
    *(
        (
            lambda f, number=number: figured(f, number),
            rf"somebody.csv, line 5: percent.*{number}",
        )
        for number in ("nan", "inf", "1e400")
    ),
]


def searched(f, *words, before=lambda search: None, then=lambda search: None, **changes):
    """Opens a search beside one of a rate from 0 to 1."""
    pytest.importorskip("optuna")
    from search_cells import search_in

    with search_in(f.tmp_path) as first:
        before(first)
    with search_in(f.tmp_path, *words, **changes) as search:
        then(search)


def without_a_choice(f):
    """A search whose runs kept no checkpoint by dev."""
    pytest.importorskip("optuna")
    from search_cells import planner_of, search_in
    from test_search import Instant, finish

    def outcome(cell):
        finish(cell)
        path = Path(cell.run_dir) / "result.json"
        path.write_text(path.read_text().replace("best_dev_spearman", "other"))
        return Ended(0)

    with search_in(f.tmp_path) as search:
        planner_of(search, f.tmp_path, Instant(outcome)).run()


SEARCHES = [
    (
        lambda f: searched(f, "rate=interval(0,2)"),
        r'another space \(rate was .*"high": 1.0.*, now .*"high": 2.0',
    ),
    (lambda f: searched(f, key="1"), r"another run key .*hydra.sweeper.study=<name>"),
    (
        lambda f: searched(
            f,
            before=lambda search: search.judge_by("the best dev spearman of a"),
            then=lambda search: search.judge_by("the best dev ndcg_at_10 of b"),
        ),
        "by the best dev ndcg_at_10 of b, those before it by the best dev spearman",
    ),
    (without_a_choice, r"no checkpoint was chosen on dev.*training.monitor=dev/<set>/spearman"),
]


def without(f, name):
    f.monkeypatch.setitem(sys.modules, name, None)
    resources = {"address": None, "jobs": None, "cpus": 1, "gpus": None} if name == "ray" else SLURM
    (RayRunner if name == "ray" else SlurmRunner)([], Ledger("runs"), 1, **resources)


def submitted(f):
    runner = PaperRunner(refuses={"1-fine"}, keeps=True)
    sweep(f.tmp_path / "runs", ["fine", "fine"], runner)[0].run()


RUNNERS = [
    (submitted, "no such partition"),
    *(
        (
            lambda f, resources=resources: ray_runner(
                f.monkeypatch, (True, 16, 2), (True, 32, 0), (False, 64, 8), **resources
            ),
            r"no node of the Ray cluster has the \d+ CPUs and \d GPUs",
        )
        for resources in ({"devices": 4}, {"devices": 1, "cpus": 32})
    ),
    *(
        (lambda f, name=name: without(f, name), rf"{name}.*pip install -e .*\[(ray|launchers)\]")
        for name in ("ray", "submitit")
    ),
]
OF_OTHERS = [
    (
        lambda f: figure("somebody", dict.fromkeys(REQUIRED, "x") | {"percent": "1", "standing": "mesured"}),
        r"standing=mesured: .* measured, claim",
    ),
    (into_a_file, r"Not a directory|File exists"),
]
ERRORS = {OF_OTHERS[0][1]: ValueError, OF_OTHERS[1][1]: OSError}
"""What is told in an error that is not of the user."""
REFUSED = {
    "results": RESULTS,
    "a reference": REFERENCES,
    "a search": SEARCHES,
    "a runner": RUNNERS,
    "others": OF_OTHERS,
}


@pytest.mark.parametrize(("call", "told"), rows(REFUSED))
def test_what_cannot_be_used_is_refused_with_the_way_out(call, told, f):
    with pytest.raises(ERRORS.get(told, UserError), match=told):
        call(f)
