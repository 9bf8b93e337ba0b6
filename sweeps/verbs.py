"""`juzhen status`, `published` and `dashboards`, which need the suite; what takes time is loaded when they run."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.cli.options import Leaks, Metric, Out, Reference, Runs, Split, Title
from juzhen.cli.runs import write_page
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable


def status(
    folder: Runs,
    *,
    watch: Annotated[
        bool, Option("--watch", help="look again every few seconds, until nothing is left to run")
    ] = False,
) -> None:
    """How far the sweeps of a folder are, which runs failed, and the time left.

    juzhen status runs --watch
    """
    from juzhen.core.progress import terminal
    from sweeps.status import read_status, to_console, watched

    if watch:
        watched(folder)
    else:
        terminal().print(to_console(read_status(folder)), highlight=False)


def published(
    page: Annotated[Path | None, Argument(help="Markdown file to write", show_default="the console")] = None,
) -> None:
    """Every published figure: which row of a sweep gives one of its like, or why none does.

    juzhen published docs/published.md
    """
    if page is not None:
        if page.suffix != ".md":
            raise UserError(
                f"{page}: one page has all figures. Give its file, such as figures.md, or leave it out"
            )
        check_overwritable(page)
    from juzhen.report.compare import load_published
    from sweeps import published_page

    text = published_page.page(load_published(), published_page.all_jobs())
    if page is None:
        print(text, end="")
    write_page(page, text)


def dashboards(
    folders: Annotated[list[Path], Argument(help="runs, or folders that hold runs, at any depth")],
    *,
    metric: Metric = None,
    split: Split = None,
    out: Out = None,
    reference: Reference = None,
    leaks: Leaks = None,
    title: Title = "Transfer matrix",
    project: Annotated[str, Option(help="where the runs are")] = "juzhen",
    entity: Annotated[str | None, Option(help="team or user", show_default="the account's own")] = None,
    group: Annotated[
        str | None, Option(help="group of runs", show_default="the group of the runs, else their name")
    ] = None,
) -> None:
    """Writes the report and its panels, and publishes both where there is a key and a server.

    juzhen dashboards runs --project juzhen
    juzhen dashboards runs/A runs/B
    """
    from juzhen.report.collect import read_report
    from sweeps.dashboards import publish

    above = folders[0] if len(folders) == 1 else folders[0].resolve().parent
    if out is None and any(folder.resolve().parent != above for folder in folders[1:]):
        raise UserError("--out is missing: the runs are in several folders. Type --out FOLDER for the report")
    report = read_report(*folders, metric=metric, split=split, reference=reference, leaks=leaks)
    publish(report, out or above / "report", title=title, project=project, entity=entity, group=group)
