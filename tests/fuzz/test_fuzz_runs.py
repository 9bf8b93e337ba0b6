"""Whatever files of runs, sweeps and reports hold, they are read, left out with a line, or end in one UserError."""

import io
import json

import pytest
from fuzzing import JSON, answer, any_file, any_json, changed, dumped, memory_bound, on_examples, sizes
from hypothesis import strategies as st
from rich.console import Console

from juzhen.core.file_guard import claim_dir
from juzhen.core.result import RESULT_FILE, Result
from juzhen.evaluation.saved_run import missing_sets, saved_runs, unchecked_sets
from juzhen.report.build import build_report, markdown
from juzhen.report.collect import export, read_all
from juzhen.report.compare import Reference, compare, load_published
from juzhen.report.matrix import build_matrix
from juzhen.report.page import html
from juzhen.report.table import to_console, to_csv, to_markdown
from launch.console import result_table, show_result
from sweeps.ledger import EVENTS, Ledger, SweepCell
from sweeps.planner import late_columns_line
from sweeps.status import read_status
from sweeps.status import to_console as status_to_console
from tools.archives import unpacked

KEPT = sorted((unpacked() / "transfer" / "runs").rglob(RESULT_FILE), key=lambda path: path.stat().st_size)


def kept(path):
    return json.loads(path.read_text(encoding="utf-8"))


VALID = [kept(KEPT[0]), kept(KEPT[len(KEPT) // 2])]
PUBLISHED = load_published()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    memory_bound()
    return tmp_path_factory.mktemp("runs")


def shown(what):
    """On a terminal of strangers' names: brackets are no markup there."""
    Console(file=io.StringIO(), markup=False, width=80).print(what)


@sizes
@pytest.mark.slow
def test_results(folder, size):
    """Read, shown, gathered in tables beside one that is whole, filled in, exported."""
    for name, value in (("whole", VALID[0]), ("broken", VALID[1])):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / RESULT_FILE).write_bytes(dumped(value))

    @on_examples(size, raw=any_json(*VALID))
    def holds(raw):
        (folder / "broken" / RESULT_FILE).write_bytes(raw)
        result = answer(lambda: Result.read(folder / "broken"))
        if isinstance(result, Result):
            answer(lambda: shown(result_table(result)))
            answer(lambda: show_result(result, folder="a[/b]"))
            answer(lambda: missing_sets(result))
            answer(lambda: unchecked_sets(result))
            answer(lambda: late_columns_line([SweepCell(str(folder / "broken"), ())]))
        answer(lambda: saved_runs([folder]))
        told = []
        results = answer(lambda: read_all(folder, report=told.append))
        assert all("\n" not in line for line in told)
        assert folder / "whole" / RESULT_FILE in results
        matrix = answer(lambda: build_matrix(list(results.values()), metric="spearman"))
        if not isinstance(matrix, str):
            answer(lambda: (shown(to_console(matrix)), to_csv(matrix), to_markdown(matrix)))
            answer(lambda: compare(matrix, PUBLISHED))


@sizes
@pytest.mark.slow
def test_reports(folder, size):
    for name, value in (("whole", VALID[0]), ("broken", VALID[1])):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / RESULT_FILE).write_bytes(dumped(value))

    @on_examples(size, 0.2, value=changed(VALID[1]))
    def holds(value):
        (folder / "broken" / RESULT_FILE).write_bytes(dumped(value))
        results = list(read_all(folder, report=lambda line: None).values())
        how = {"metric": "spearman", "reference": Reference(PUBLISHED, []), "audit": None}
        report = answer(lambda: build_report(results, **how))
        if not isinstance(report, str):
            answer(lambda: (html(report, title="x"), markdown(report)))
        answer(lambda: export(folder, folder.parent / "exported", report=lambda line: None))


EVENTS_KEPT = [
    {"event": "sweep", "cells": 2, "jobs": 1, "at": "2025-01-01T00:00:00+00:00", "host": "a"},
    {
        "event": "planned",
        "run_dir": "runs/x",
        "words": ["seed=1"],
        "devices": 0,
        "at": "2025-01-01T00:00:00+00:00",
    },
    {
        "event": "started",
        "cell": "x",
        "attempt": 1,
        "process": 3,
        "at": "2025-01-01T00:00:00+00:00",
        "host": "a",
    },
    {
        "event": "failed",
        "cell": "x",
        "seconds": 1.5,
        "status": 1,
        "error": "e",
        "at": "2025-01-01T00:00:01+00:00",
    },
]


@sizes
def test_ledgers(folder, size):
    ledger = Ledger(folder / "ledger")
    claim_dir(ledger.folder)
    lines = "\n".join(map(json.dumps, EVENTS_KEPT)).encode() + b"\n"
    spoilt_events = st.lists(
        st.one_of(
            JSON, *(st.just(event) for event in EVENTS_KEPT), *(changed(event) for event in EVENTS_KEPT)
        ),
        max_size=8,
    ).map(lambda events: b"\n".join(map(dumped, events)))

    @on_examples(size, raw=st.one_of(any_file(lines), spoilt_events))
    def holds(raw):
        (ledger.folder / EVENTS).write_bytes(raw)
        answer(ledger.histories)
        status = answer(lambda: read_status(folder / "ledger"))
        if not isinstance(status, str):
            answer(lambda: shown(status_to_console(status)))
        ledger.add("sweep", cells=1, jobs=1)
        assert any(event["event"] == "sweep" for event in ledger.events())


@sizes
def test_journals(folder, size):
    optuna = pytest.importorskip("optuna")
    from callbacks.trial import TrialAddress, open_journal

    path = folder / "study.journal"
    storage = open_journal(path)
    study = optuna.create_study(storage=storage, study_name="study", direction="maximize")
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    trial.report(0.5, 1)
    study.tell(trial, 0.5)
    whole = path.read_bytes()

    @on_examples(size, raw=any_file(whole, whole * 2))
    def holds(raw):
        path.write_bytes(raw)
        answer(lambda: TrialAddress(str(path), 0).open())
        answer(lambda: open_journal(path))


FITTED = {
    "run": "runs/a",
    "runs": ["runs/a", "runs/b"],
    "fitted": {"temperature": [2.0], "platt": [1.5, -0.2]},
    "weights": "0123",
    "alpha": 0.4,
    "means": [0.1, 0.2],
    "deviations": [1.0, 2.0],
}
