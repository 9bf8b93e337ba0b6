"""`juzhen merge`: one model of several that started alike, with a row in the matrix."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from juzhen.cli.options import SEED, RunDataDir, Seed
from juzhen.core.errors import UserError
from juzhen.core.process import without_hub
from juzhen.core.text import number_or_nan

Method = Literal[
    "linear",
    "slerp",
    "multislerp",
    "task_arithmetic",
    "ties",
    "dare",
    "model_stock",
    "greedy_soup",
]


def merge(
    models: Annotated[list[str], Argument(metavar="RUN", help="runs, or folders of encoders; two or more")],
    folder: Annotated[Path, Argument(metavar="OUT", help="where the merged model is written")],
    *,
    method: Annotated[Method, Option(help="how tensors are merged")] = "linear",
    weights: Annotated[
        str | None,
        Option(
            metavar="0.3,0.7|dev",
            help="a number for each model, in their order; dev: those that do best on dev splits",
            show_default="equal ones",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        Option(
            metavar="SET…",
            help="whose dev splits weights are chosen on",
            show_default="what the runs were trained on",
        ),
    ] = None,
    base: Annotated[
        str | None,
        Option(
            metavar="RUN",
            help="what the models started from, for task_arithmetic, ties, dare and model_stock",
            show_default="what the runs say",
        ),
    ] = None,
    density: Annotated[
        float, Option(metavar="SHARE", help="of what training added, how much stays: ties and dare")
    ] = 0.5,
    scale: Annotated[float, Option(help="factor of what is added to the base")] = 1.0,
    trials: Annotated[int, Option(min=1, help="mixtures that are measured on dev, at most")] = 30,
    seed: Seed = SEED,
    data_dir: RunDataDir = None,
) -> None:
    """Merges models that started from the same weights, and scores what comes of it beside them.

    linear, slerp (two models) and multislerp average weights. task_arithmetic, ties, dare and model_stock combine what
    training has added to the base. greedy_soup is the mean of the models that help on dev. With finished runs OUT is a
    run: `juzhen table` shows it with its parents, what it gains and what it has forgotten. All models are in memory,
    4 bytes for each of their numbers.

    juzhen merge runs/A runs/B runs/AB
    juzhen merge runs/A runs/B runs/C runs/ABC --method ties --density 0.3
    juzhen merge runs/A runs/B runs/AB --method slerp --weights dev --dataset csts lcqmc
    """
    without_hub()
    numbers = _weights(weights)
    from juzhen.merging.merge import Recipe
    from juzhen.merging.runs import merge_runs

    recipe = Recipe(method, numbers, density, scale, seed, trials)
    result, merged = merge_runs(
        models,
        folder,
        recipe,
        base=base,
        dataset=dataset or (),
        data_dir=data_dir,
        progress=sys.stderr.isatty(),
    )
    if merged.tried:
        print(
            f"weights {_listed(merged.weights)}: {100 * max(merged.tried.values()):.2f} on dev of "
            f"{', '.join(merged.sets)}, the best of {len(merged.tried)} that were measured"
        )
    if result is None:
        print(f"{folder}: an encoder; without a result of each model there is no row in a table")
        return
    from juzhen.report.insights import parents_table

    print(parents_table(result, models).markdown())
    print(f"{folder}: merged in {result.training['merge_seconds']:.1f} s of {len(models)} runs")


def _weights(text: str | None) -> list[float] | Literal["dev"] | None:
    if text is None:
        return None
    if text == "dev":
        return "dev"
    numbers = [number_or_nan(word) for word in text.split(",")]
    if any(number != number for number in numbers):
        raise UserError(
            f"--weights {text}: expected numbers with commas between them, such as 0.3,0.7, or dev"
        )
    return numbers


def _listed(weights: list[float]) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)
