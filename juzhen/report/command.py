"""From results to the files of a report."""

import sys
from importlib.util import find_spec
from pathlib import Path

from juzhen.core.owned import require_ours
from juzhen.core.places import ROOT
from juzhen.core.whole import write_text, writing_to
from juzhen.report.build import Report, build_report
from juzhen.report.collect import collect
from juzhen.report.leaks import Audit
from juzhen.report.page import html
from juzhen.report.reference import load_reference
from juzhen.report.text import differences_csv, latex, markdown, matrix_csv, table_csv

SHIPPED_AUDIT = ROOT / "results" / "leaks" / "pairs.json"


def read_report(
    folder: Path, *, metric: str, split: str | None, reference: Path | None, leaks: Path | None
) -> Report:
    """What the runs below `folder` say, beside published numbers and an audit of leaks; None: the shipped ones."""
    audit_file = leaks or (SHIPPED_AUDIT if SHIPPED_AUDIT.exists() else None)
    return build_report(
        collect(folder, report=_tell),
        metric=metric,
        split=split,
        reference=load_reference(reference),
        audit=Audit.read(audit_file) if audit_file else None,
    )


def write_report(report: Report, folder: Path, *, title: str) -> list[Path]:
    """Writes all files and gives their paths. Without matplotlib the pictures are left out, and it says so."""
    published = [table for table in report.tables if table.key.startswith("published-")]
    texts = {
        "index.html": html(report, title=title),
        "report.md": markdown(report),
        "matrix.csv": matrix_csv(report.matrix),
        "matrix.tex": latex(report.matrix),
        "differences.csv": differences_csv(report),
        "published.csv": table_csv(published),
    }
    require_ours(*(folder / name for name in (*texts, "matrix.svg", "matrix.png")))
    with writing_to(f"--out {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_text(folder / name, text)
        return [*(folder / name for name in texts), *_pictures(report, folder)]


def _pictures(report: Report, folder: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        _tell('no heat map: matplotlib is missing; pip install -e ".[report]" brings it')
        return []
    from juzhen.report.complement import clustered
    from juzhen.report.picture import draw_heat_map

    matrix = report.matrix
    return draw_heat_map(*clustered(matrix, matrix.columns), matrix.metric, folder)


def _tell(line: str) -> None:
    print(line, file=sys.stderr)
