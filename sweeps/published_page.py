"""docs/published.md: every published figure, with the sweep row or experiment that computes a comparable one.

The composed configuration of a job determines its figures.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from juzhen.core.examples import Kind
from juzhen.core.kinds import MEASURES
from juzhen.core.paths import CONFIGURATION
from juzhen.core.progress import progress_bar
from juzhen.core.result import Result
from juzhen.core.text import markdown_table
from juzhen.report.compare import MEASURED, Published, figure_text, unlike
from juzhen.report.training import Training, stand_ins, training_of

HEAD = """# Published figures

Written by `juzhen published docs/published.md` from `juzhen/report/published`, which
says where each is from, and from what every row of `conf/sweep` and every file of `conf/experiment` composes to; a
test keeps it so. A job gives a figure when it learns from the same sets in the same order, read as the same kind, by
the same loss and with the same family of models, and scores the same split of the same set:
`juzhen compare --published runs` then sets the two side by side. A curriculum gives the figures of its earlier stages
too. Backbones and lengths of training may differ. Small jobs learn from less than the names of their sets say, by a
limit or because the files that the sets are described with hold less; `compare` says so beside each cell.
"""

NO_RUN_BY_ITSELF = "published"
"""File of what experiments share, beside them."""


@dataclass(frozen=True)
class Job:
    """A run named by a sweep or an experiment.

    Args:
        group: `sweep=NAME` or `experiment=NAME`.
        row: Its row of the sweep, or "".
        config: Its composition.
    """

    group: str
    row: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """Training data of a stage of a job.

    Args:
        job: The job.
        training: The training data.
        less: Descriptions of rows left out of the sets.
        is_end: True for the last stage.
    """

    job: Job
    training: Training
    less: tuple[str, ...]
    is_end: bool


def all_jobs() -> Iterator[Job]:
    """Return every row of every sweep with rows, and every experiment. Composing all takes half a minute.

    Yields:
        A job with its words and its composition.
    """
    folder, sweeps = CONFIGURATION / "experiment", sorted((CONFIGURATION / "sweep").glob("*.yaml"))
    paths = [path for path in sorted(folder.rglob("*.yaml")) if path.stem != NO_RUN_BY_ITSELF]
    words = [f"experiment={path.relative_to(folder).with_suffix('').as_posix()}" for path in paths]
    with progress_bar("composing the jobs", len(sweeps) + len(words), shown=True) as advance:
        for path in sweeps:
            yield from sweep_jobs(path.stem)
            advance(1)
        for word in words:
            yield Job(word, "", _composed([[word]])[0])
            advance(1)


def sweep_jobs(name: str, rows: Sequence[str] | None = None) -> list[Job]:
    """Compose the rows of a sweep.

    Args:
        name: File of conf/sweep.
        rows: Names of the wanted rows. None: all.

    Returns:
        One job for each row. [] for a grid.
    """
    from omegaconf import OmegaConf

    (config,) = _composed([[f"sweep={name}"]], with_hydra=True)
    params, row_texts = (
        OmegaConf.to_container(OmegaConf.create(config.hydra.sweeper.get(key) or {}))
        for key in ("params", "rows")
    )
    chosen = {row: shlex.split(text) for row, text in row_texts.items() if rows is None or row in rows}
    cells = [_cell(params, row) for row in chosen.values()]
    return [Job(f"sweep={name}", row, job) for row, job in zip(chosen, _composed(cells), strict=True)]


def offers(jobs: Iterable[Job]) -> list[Offer]:
    """List the training data of every stage of jobs.

    Args:
        jobs: Composed jobs.

    Returns:
        One offer for each stage. `is_end` marks the last stage of a job.
    """
    return [
        Offer(job, training_of(result), tuple(stand_ins(result)), result is results[-1])
        for job in jobs
        for results in [stage_results(job.config)]
        for result in results
    ]


def giving(number: Published, offered: Iterable[Offer]) -> list[Offer]:
    """Find the stages that compute a comparable figure. In a group, prefer stages that end with it.

    Args:
        number: A published figure.
        offered: Result of `offers`.

    Returns:
        Some of `offered`, in order.
    """
    column = f"{number.split}/{number.dataset}"
    alike = [
        offer
        for offer in offered
        if not unlike(number, offer.training, column, number.metric) and _scores(offer.job.config, number)
    ]
    ends = {offer.job.group for offer in alike if offer.is_end}
    return [offer for offer in alike if offer.is_end or offer.job.group not in ends]


def stage_results(config: Mapping[str, Any]) -> list[Result]:
    """Return the results of a job's stages without scores: the training data of each, oldest first.

    Args:
        config: Configuration of the job in plain containers.

    Returns:
        One Result for each stage. [] for a job without training.
    """
    schedule, sets = config["schedule"], list(config["dataset"])
    order = (schedule["order"] or sets) if schedule["name"] == "serial" else ["+".join(sets)]
    chosen = [(schedule["stages"].get(name) or {}).get("dataset") for name in order]
    stages = ["+".join(names or [name]) for name, names in zip(order, chosen, strict=True)]
    one_by_one = stages[0].split("+") if len(stages) == 1 and sets else []
    return [
        Result("", "", one_by_one or stages[: index + 1], {}, dict(config), {}, {}, {}, 0, index)
        for index in range(len(stages) if sets else 0)
    ]


def _scores(config: Mapping[str, Any], number: Published) -> bool:
    """True if the job evaluates that split of that set, or of all that are averaged, by that metric, from own files."""
    from juzhen.evaluation.scoring import STS_SETS

    names = STS_SETS if number.dataset == "sts_mean" else (number.dataset,)
    described = [{**config["evaluate"], **config["dataset"]}.get(name) for name in names]
    return number.split in config["evaluation"]["splits"] and all(
        each is not None
        and number.split in each["layouts"][each["layout"]]["files"]
        and number.metric in MEASURES[Kind(each["kind"])]
        for each in described
    )


def _cell(params: Mapping[str, Any], row: Sequence[str]) -> list[str]:
    """Return a cell of a sweep whose grid has one choice per key. The row's overrides replace the grid's."""
    in_row = {word.partition("=")[0].lstrip("+") for word in row}
    return [*(f"{key}={value}" for key, value in params.items() if key not in in_row), *row]


def _composed(cells: Iterable[Sequence[str]], *, with_hydra: bool = False) -> list[Any]:
    """Compose command lines into plain containers, with Hydra's node unchanged."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        configs = [compose("train", overrides=list(cell), return_hydra_config=with_hydra) for cell in cells]
        return configs if with_hydra else [OmegaConf.to_container(config) for config in configs]


def page(published: Sequence[Published], jobs: Iterable[Job]) -> str:
    """Write the page: measurements source by source, then claims, which are not compared.

    Args:
        published: Published figures.
        jobs: Composed jobs. They may compute some of the figures.

    Returns:
        Markdown.
    """
    offered = offers(jobs)
    measured = [number for number in published if number.standing == MEASURED]
    parts = [HEAD, _counts(measured, offered)]
    for source in dict.fromkeys(number.source for number in measured):
        parts.append(_source(source, [number for number in measured if number.source == source], offered))
    parts.append(
        "## Claims\n\nFor reading; `compare` shows the plain claims among them as goals, beside our best.\n"
    )
    claims = [number for number in published if number.standing != MEASURED]
    columns = ("source", "what", "figure", "standing", "named", "note")
    parts.append(markdown_table(columns, map(_claim, claims)) + "\n")
    return "\n".join(parts)


def reason(number: Published) -> str:
    """Explain why no job computes a figure.

    Args:
        number: The published figure.

    Returns:
        Part of a sentence.
    """
    if not number.dataset:
        return "an average, or a difference, that is no column here"
    if not number.trained_on:
        return "its training sets have no equal here"
    by = {"": "", "by_kind": " by the losses of their kinds"}.get(number.loss, f" by {number.loss}")
    return f"no row or experiment trains a {number.family} on {number.trained_on}{by} and scores this"


def _counts(measured: Sequence[Published], offered: Sequence[Offer]) -> str:
    columns = ("source", "figures", "given by a job", "of these by small jobs alone", "by none")
    rows = []
    for source in dict.fromkeys(number.source for number in measured):
        given_by = [giving(number, offered) for number in measured if number.source == source]
        given = [offers for offers in given_by if offers]
        small = sum(all(offer.less for offer in offers) for offers in given)
        rows.append((source, *map(str, (len(given_by), len(given), small, len(given_by) - len(given)))))
    return markdown_table(columns, rows, numbers=range(1, 5)) + "\n"


def _source(source: str, numbers: Sequence[Published], offered: Sequence[Offer]) -> str:
    """Return one line for the figures of a model in a table that the same jobs compute."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for number in numbers:
        given_by = giving(number, offered)
        complete = _named(offer for offer in given_by if not offer.less)
        small = _named(offer for offer in given_by if offer.less)
        complete = complete or ("" if small else reason(number))
        key = (number.table, number.model, number.trained_on, complete, small)
        metric = "" if number.metric == "spearman" else f" {number.metric}"
        figure = (number.dataset, f"{number.split}{metric}", f"{number.percent:.2f}")
        groups.setdefault(key, []).append(" ".join(filter(None, figure)))
    columns = ("table", "model", "trained on", "figures", "given by", "small")
    rows = [
        (table, model, f"`{trained}`" if trained else "", ", ".join(figures), complete, small)
        for (table, model, trained, complete, small), figures in groups.items()
    ]
    return f"## {source}\n\n{markdown_table(columns, rows)}\n"


def _named(offers: Iterable[Offer]) -> str:
    """Return the jobs, with the rows of a sweep together: `sweep=simclue` v1, v2."""
    groups: dict[str, list[str]] = {}
    for offer in offers:
        groups.setdefault(offer.job.group, []).append(offer.job.row)
    return "; ".join(f"`{group}` {', '.join(filter(None, rows))}".strip() for group, rows in groups.items())


def _claim(number: Published) -> tuple[str, ...]:
    on = f" on {number.dataset}" if number.dataset else ""
    label = f"{number.table}: {number.model}, {number.metric}{on}"
    return (number.source, label, figure_text(number), number.standing, number.named, number.note)
