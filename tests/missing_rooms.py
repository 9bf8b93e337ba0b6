"""A pytest plugin for a copy of the project without some rooms. A test that fails because it uses them is skipped."""

import json
from pathlib import Path

import pytest

TRACES = json.loads(Path("traces.json").read_text(encoding="utf-8"))
"""What the failure of such a test names: modules, choices of the configuration, verbs, names of the library."""


def uses_a_missing_room(report: pytest.TestReport | pytest.CollectReport) -> bool:
    seen = report.longreprtext + "".join(text for _, text in report.sections)
    return any(trace in seen for trace in TRACES)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and uses_a_missing_room(report):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), None, "Skipped: uses a missing room")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    report = (yield).get_result()
    if report.failed and uses_a_missing_room(report):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), None, "Skipped: uses a missing room")
