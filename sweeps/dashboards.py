"""A report on Weights & Biases: a summary run with its files, and a workspace whose panels are written here."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, command, require_packages
from juzhen.core.machine import wandb_problem
from juzhen.report.build import Report, write_report
from juzhen.report.matrix import Matrix
from juzhen.report.table import heading

try:
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws
except ImportError:
    ws = None

SPECIFICATION = "workspace.json"
MOST_LETTERS = 128
"""Of the name of a group, as W&B has them."""
DIMENSIONS = {
    "Model": "model.name",
    "Loss": "loss.name",
    "Backbone": "backbone.path",
    "Hardware": "hardware.accelerator",
}
"""Name of a section → the configuration by which its bars are grouped."""


def publish(
    report: Report, folder: Path, *, title: str, project: str, entity: str | None, group: str | None
) -> None:
    """Write the report of runs, and publish it with a summary run and a workspace of panels.

    Without a key or a server the files are written, and a line describes what to type later.

    Args:
        report: Matrix, figures and leaks of the runs.
        folder: Folder for the files.
        title: Title of the page.
        project: Project on W&B.
        entity: Team or user on W&B. None: that of the account.
        group: Group of the summary. None: `group_of`.

    Raises:
        UserError: Runs of several groups without `group`.
    """
    group = group or group_of(report)
    files = write_report(report, folder, title=title)
    workspace = build_workspace(report.matrix, entity or "", project, group)
    specification = folder / SPECIFICATION
    write_text(specification, specification_text(workspace))
    problem = wandb_problem()
    target = {
        "group": group,
        "project": project,
        "entity": entity,
        "mode": "offline" if problem else "online",
    }
    run_folder = log_summary(report, [*files, specification], folder, **target)
    print(specification)
    if problem:
        print(
            f"nothing published: {problem}. Then type the same again; or send the summary alone: "
            f"{command('wandb', 'sync', run_folder)}"
        )
    else:
        import wandb

        workspace.entity = entity or str(wandb.Api().default_entity)
        print(workspace.save().url)


def group_of(report: Report) -> str:
    """Return the W&B group of a sweep's runs. Single runs use their names, as W&B groups their seeds.

    Args:
        report: Report with the results of the runs.

    Returns:
        A name of at most MOST_LETTERS characters if it is made of names of runs.

    Raises:
        UserError: The runs are in several groups.
    """
    results = [result for row in report.matrix.rows for column in row.results.values() for result in column]
    groups = {(result.config.get("logger") or {}).get("group") for result in results} - {None}
    if len(groups) > 1:
        raise UserError(
            f"these are runs of the groups {', '.join(sorted(groups))}. Name the group of the summary: "
            "--group NAME"
        )
    names = {result.name.removesuffix(f"-s{result.seed}") for result in results}
    return groups.pop() if groups else ", ".join(sorted(names))[:MOST_LETTERS]


def summary_id(group: str) -> str:
    """Return an id that is equal for equal groups, so that a later report continues the existing summary.

    Args:
        group: Group of the summary.

    Returns:
        Id of a W&B run.
    """
    return f"summary-{hashlib.sha256(group.encode()).hexdigest()[:8]}"


def matrix_rows(matrix: Matrix) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of the logged table: trained sets, setup, and scores ×100.

    Args:
        matrix: The transfer matrix.

    Returns:
        Headings, and one list for each row. None marks a missing score.
    """
    columns = ["trained on", "setup", "seeds", *(heading(column, matrix) for column in matrix.columns)]
    rows = [
        [row.label, row.setup, row.num_seeds]
        + [100 * row.cells[column].mean if column in row.cells else None for column in matrix.columns]
        for row in matrix.rows
    ]
    return columns, rows


def log_summary(report: Report, files: Iterable[Path], folder: Path, *, group: str, **target: Any) -> str:
    """Log the matrix as a table, the heat map as a picture, and all files as an artifact of the run.

    Args:
        report: Report with matrix and fidelity.
        files: Files for the artifact. `matrix.png` is the heat map.
        folder: Folder in which W&B keeps its own files.
        group: Group of the runs. It decides id and name of the summary.
        **target: project, entity and mode of `wandb.init`.

    Returns:
        Folder of the W&B run.
    """
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    identity = {"id": summary_id(group), "name": f"{group} summary", "group": group, "job_type": "summary"}
    summary = wandb.init(**identity, resume="allow", dir=str(folder), **target)
    columns, rows = matrix_rows(report.matrix)
    logged: dict[str, Any] = {"matrix": wandb.Table(columns=columns, data=rows)}
    artifact = wandb.Artifact(f"report-{summary_id(group)}", type="report", metadata={"group": group})
    for path in files:
        artifact.add_file(str(path))
        if path.name == "matrix.png":
            logged["heat_map"] = wandb.Image(str(path))
    summary.log(logged)
    fidelity = report.fidelity.dropna(subset="value").itertuples()
    summary.summary.update({f"fidelity/{row.source}/{row.scope}": row.value for row in fidelity})
    summary.log_artifact(artifact)
    run_folder = str(Path(summary.dir).parent)
    summary.finish()
    return run_folder


def build_workspace(matrix: Matrix, entity: str, project: str, group: str) -> "ws.Workspace":
    """Build panels for sets × model, loss, backbone and hardware. Needs neither a key nor a network.

    Args:
        matrix: Its columns and their metrics become panels.
        entity: Team or user on W&B. "": decided later.
        project: Project on W&B.
        group: Group of the runs, for names and texts.

    Returns:
        A workspace. It is not saved on the server.

    Raises:
        UserError: The package of an extra is missing.
    """
    require_packages("a dashboard", "wandb_workspaces", extra="dashboards")
    scores = [f"{column}/{matrix.measures[column]}" for column in matrix.columns]
    sections = [
        ws.Section(name="Transfer matrix", is_open=True, panels=_matrix_panels(group)),
        ws.Section(name="Model × loss × set × hardware", is_open=True, panels=[_all_at_once(scores)]),
        ws.Section(name="Sets, run by run", panels=_bars(scores, None)),
        *(
            ws.Section(name=f"Sets by {name.lower()}", panels=_bars(scores, key))
            for name, key in DIMENSIONS.items()
        ),
        ws.Section(name="Time and memory", panels=_hardware_panels(scores)),
    ]
    # The library refuses names with symbols, such as the + between the sets of a mixture.
    name = "".join("-" if unicodedata.category(letter)[0] == "S" else letter for letter in group)
    return ws.Workspace(entity=entity, project=project, name=f"juzhen: {name}", sections=sections)


def specification_text(workspace: "ws.Workspace") -> str:
    """Return the specification to send, as JSON.

    Args:
        workspace: Result of `build_workspace`.

    Returns:
        JSON with a final line break.
    """
    model = json.loads(workspace._to_model().model_dump_json(by_alias=True))
    return json.dumps(model, ensure_ascii=False, indent=1) + "\n"


def _matrix_panels(group: str) -> list[Any]:
    text = f"Row: trained on, column: evaluated on. All files of the report are in the artifact of *{group} summary*."
    return [
        wr.MediaBrowser(title="Heat map", media_keys=["heat_map"], layout=wr.Layout(0, 0, 12, 12)),
        wr.WeavePanelSummaryTable(table_name="matrix", layout=wr.Layout(12, 0, 12, 10)),
        wr.MarkdownPanel(markdown=text, layout=wr.Layout(12, 10, 12, 2)),
    ]


def _all_at_once(scores: Sequence[str]) -> Any:
    metrics = [*map(wr.Config, (*DIMENSIONS.values(), "seed")), *map(wr.SummaryMetric, scores)]
    columns = [wr.ParallelCoordinatesPlotColumn(metric=metric) for metric in metrics]
    layout = wr.Layout(0, 0, 24, 10)
    return wr.ParallelCoordinatesPlot(title="From configuration to scores", columns=columns, layout=layout)


def _bars(scores: Sequence[str], key: str | None) -> list[Any]:
    grouped = {} if key is None else {"groupby": wr.Config(key), "groupby_aggfunc": "mean"}
    return [wr.BarPlot(title=score, metrics=[score], **grouped) for score in scores]


def _hardware_panels(scores: Sequence[str]) -> list[Any]:
    accelerator, seconds = wr.Config(DIMENSIONS["Hardware"]), wr.SummaryMetric("_runtime")
    return [
        wr.BarPlot(title="Seconds", metrics=["_runtime"], groupby=accelerator, groupby_aggfunc="mean"),
        wr.LinePlot(title="Loss over time", x="_runtime", y=["train/loss"], groupby=accelerator),
        wr.LinePlot(title="GPU memory", x="_runtime", y=["system/gpu.0.memoryAllocatedBytes"]),
        wr.LinePlot(title="Process memory", x="_runtime", y=["system/proc.memory.rssMB"]),
        *(
            wr.ScatterPlot(title=f"Seconds and {score}", x=seconds, y=wr.SummaryMetric(score), z=accelerator)
            for score in scores
        ),
    ]
