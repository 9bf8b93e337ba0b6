"""Which row of a sweep, or which experiment, gives a published figure: by what their configurations compose to."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from juzhen.core.examples import Kind
from juzhen.core.measures import MEASURES
from juzhen.core.places import CONFIGURATION
from juzhen.core.result import Result
from juzhen.report.compare import unlike
from juzhen.report.figures import Published
from juzhen.report.training import Training, stand_ins, training_of

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
