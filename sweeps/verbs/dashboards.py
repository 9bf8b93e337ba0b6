"""`juzhen dashboards`: the report and its panels on Weights & Biases."""

from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.report import add_report
from juzhen.cli.table import add_runs, add_split


def parser() -> VerbParser:
    parser = VerbParser(
        "dashboards",
        "Writes the report and its panels, and publishes both where there is a key and a server.",
    )
    add_runs(parser)
    add_split(parser)
    add_report(parser)
    parser.add_argument("--project", help="where the runs are (default: juzhen)")
    parser.add_argument("--entity", metavar="NAME", help="team or user; default: the account's own")
    parser.add_argument("--group", metavar="NAME", help="default: the group of the runs")
    return parser


def run(
    folder: Path,
    *,
    metric: str = "spearman",
    split: str | None = None,
    out: Path | None = None,
    reference: Path | None = None,
    leaks: Path | None = None,
    title: str = "Transfer matrix",
    project: str = "juzhen",
    entity: str | None = None,
    group: str | None = None,
) -> None:
    """Writes the report and the workspace's specification; publishes both when there is a key and a server."""
    from juzhen.report.collect import read_report
    from sweeps.dashboards import publish

    report = read_report(folder, metric=metric, split=split, reference=reference, leaks=leaks)
    publish(report, out or folder / "report", title=title, project=project, entity=entity, group=group)
