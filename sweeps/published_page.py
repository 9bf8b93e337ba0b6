"""docs/published.md: every published figure, and which row of a sweep or which experiment gives one of its like.

What a job gives is told by what its configuration composes to.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from juzhen.core.examples import Kind
from juzhen.core.markup import markdown_table
from juzhen.core.measures import MEASURES
from juzhen.core.places import CONFIGURATION
from juzhen.core.result import Result
from juzhen.report.compare import figure_text, unlike
from juzhen.report.figures import MEASURED, Published
from juzhen.report.training import Training, stand_ins, training_of

HEAD = """# Published figures

Written by `juzhen published docs/published.md` from `juzhen/report/published`, which
says where each is from, and from what every row of `conf/sweep` and every file of `conf/experiment` composes to; a
test keeps it so. A job gives a figure when it learns from the same sets in the same order, read as the same kind, by
the same loss and with the same family of models, and scores the same split of the same set:
`juzhen compare runs` then sets the two side by side. A curriculum gives the figures of its earlier stages
too. Backbones and lengths of training may differ. Small jobs learn from less than the names of their sets say, by a
limit or because the files that the sets are described with hold less; `compare` says so beside each cell.
"""

NO_RUN_BY_ITSELF = "published"
"""File of what experiments share, beside them."""


@dataclass(frozen=True)
class Job:
    """A run that a sweep or an experiment names.

    group   `sweep=simclue` or `experiment=csts_cosent`
    row     of the sweep, "" for an experiment
    config  as it is composed, in plain containers
    """

    group: str
    row: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Offer:
    """What a stage of a job has learnt from.

    less    in what way from less than the sets' names say
    is_end  the job's last stage
    """

    job: Job
    training: Training
    less: tuple[str, ...]
    is_end: bool


def all_jobs() -> Iterator[Job]:
    """Every row of every sweep that has rows, and every experiment; composing each takes a fraction of a second."""
    for path in sorted((CONFIGURATION / "sweep").glob("*.yaml")):
        yield from sweep_jobs(path.stem)
    folder = CONFIGURATION / "experiment"
    for path in sorted(folder.rglob("*.yaml")):
        if path.stem != NO_RUN_BY_ITSELF:
            name = path.relative_to(folder).with_suffix("").as_posix()
            (config,) = _composed([[f"experiment={name}"]])
            yield Job(f"experiment={name}", "", config)


def sweep_jobs(name: str, rows: Sequence[str] | None = None) -> list[Job]:
    """The rows of a sweep, or those that are named; none where it is a grid."""
    params, found = _grid_and_rows(f"sweep={name}")
    chosen = {row: shlex.split(words) for row, words in found.items() if rows is None or row in rows}
    lines = [_words(params, words) for words in chosen.values()]
    return [Job(f"sweep={name}", row, one) for row, one in zip(chosen, _composed(lines), strict=True)]


def offers(jobs: Iterable[Job]) -> list[Offer]:
    found = []
    for job in jobs:
        stages = stage_results(job.config)
        found += [Offer(job, training_of(one), tuple(stand_ins(one)), one is stages[-1]) for one in stages]
    return found


def giving(number: Published, known: Iterable[Offer]) -> list[Offer]:
    """The stages that give a figure of the like of this one; of a group those that end with it, if any does."""
    column = f"{number.split}/{number.dataset}"
    found = [
        one
        for one in known
        if not unlike(number, one.training, column, number.metric) and _scores(one.job.config, number)
    ]
    ends = {one.job.group for one in found if one.is_end}
    return [one for one in found if one.is_end or one.job.group not in ends]


def stage_results(config: Mapping[str, Any]) -> list[Result]:
    """What the stages of a job would leave behind, without a score: what each has learnt from, oldest first."""
    schedule, sets = config["schedule"], list(config["dataset"])
    order = (schedule["order"] or sets) if schedule["name"] == "serial" else ["+".join(sets)]
    own = [(schedule["stages"].get(name) or {}).get("dataset") for name in order]
    stages = ["+".join(names or [name]) for name, names in zip(order, own, strict=True)]
    one_by_one = stages[0].split("+") if len(stages) == 1 and sets else []
    return [
        Result("", "", one_by_one or stages[: index + 1], {}, dict(config), {}, {}, {}, 0, index)
        for index in range(len(stages) if sets else 0)
    ]


def _scores(config: Mapping[str, Any], number: Published) -> bool:
    """The job evaluates on that split of that set, which has a file of its own, by that metric."""
    described = {**config["evaluate"], **config["dataset"]}.get(number.dataset)
    if described is None or number.split not in config["evaluation"]["splits"]:
        return False
    files = described["layouts"][described["layout"]]["files"]
    return number.split in files and number.metric in MEASURES[Kind(described["kind"])]


def _words(params: Mapping[str, Any], row: Sequence[str]) -> list[str]:
    """A cell of a sweep whose grid has one choice a key: the row's words take the place of the grid's."""
    given = {word.partition("=")[0].lstrip("+") for word in row}
    return [*(f"{key}={value}" for key, value in params.items() if key not in given), *row]


def _grid_and_rows(sweep: str) -> Iterator[dict[str, Any]]:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        sweeper = compose("train", overrides=[sweep], return_hydra_config=True).hydra.sweeper
    for key in ("params", "rows"):
        yield OmegaConf.to_container(OmegaConf.create(sweeper.get(key) or {}))


def _composed(lines: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        return [OmegaConf.to_container(compose("train", overrides=list(one))) for one in lines]


def page(published: Sequence[Published], jobs: Iterable[Job]) -> str:
    """The page: measurements source by source, then claims, which nothing is compared with."""
    known = offers(jobs)
    measured = [one for one in published if one.standing == MEASURED]
    parts = [HEAD, _counts(measured, known)]
    for source in dict.fromkeys(one.source for one in measured):
        parts.append(_source(source, [one for one in measured if one.source == source], known))
    parts.append(
        "## Claims\n\nFor reading; `compare` shows the plain claims among them as goals, beside our best.\n"
    )
    claims = [one for one in published if one.standing != MEASURED]
    columns = ("source", "what", "figure", "standing", "named", "note")
    parts.append(markdown_table(columns, map(_claim, claims)) + "\n")
    return "\n".join(parts)


def reason(number: Published) -> str:
    if not number.dataset:
        return "an average, or a difference, that is no column here"
    if not number.trained_on:
        return "its training sets have no equal here"
    by = {"": "", "by_kind": " by the losses of their kinds"}.get(number.loss, f" by {number.loss}")
    return f"no row or experiment trains a {number.family} on {number.trained_on}{by} and scores this"


def _counts(measured: Sequence[Published], known: Sequence[Offer]) -> str:
    columns = ("source", "figures", "given by a job", "of these by small jobs alone", "by none")
    lines = []
    for source in dict.fromkeys(one.source for one in measured):
        found = [giving(one, known) for one in measured if one.source == source]
        small = sum(bool(one) and all(each.less for each in one) for one in found)
        none = sum(not one for one in found)
        lines.append((source, str(len(found)), str(len(found) - none), str(small), str(none)))
    return markdown_table(columns, lines, numbers=range(1, 5)) + "\n"


def _source(source: str, numbers: Sequence[Published], known: Sequence[Offer]) -> str:
    """One line for figures of a model of a table that the same jobs give."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in numbers:
        found = giving(one, known)
        whole, small = [each for each in found if not each.less], [each for each in found if each.less]
        told = (_spoken(whole) or ("" if small else reason(one)), _spoken(small))
        groups.setdefault((one.table, one.model, one.trained_on, *told), []).append(_figure(one))
    columns = ("table", "model", "trained on", "figures", "given by", "small")
    lines = [
        (table, model, f"`{trained}`" if trained else "", ", ".join(figures), whole, small)
        for (table, model, trained, whole, small), figures in groups.items()
    ]
    return f"## {source}\n\n{markdown_table(columns, lines)}\n"


def _figure(one: Published) -> str:
    metric = "" if one.metric == "spearman" else f" {one.metric}"
    return " ".join(filter(None, (one.dataset, f"{one.split}{metric}", f"{one.percent:.2f}")))


def _spoken(found: Sequence[Offer]) -> str:
    """Jobs, the rows of a sweep together: `sweep=simclue` v1, v2."""
    groups: dict[str, list[str]] = {}
    for one in found:
        groups.setdefault(one.job.group, []).append(one.job.row)
    return "; ".join(f"`{group}` {', '.join(filter(None, rows))}".strip() for group, rows in groups.items())


def _claim(one: Published) -> tuple[str, ...]:
    what = f"{one.table}: {one.model}, {one.metric}{f' on {one.dataset}' if one.dataset else ''}"
    return (one.source, what, figure_text(one), one.standing, one.named, one.note)
