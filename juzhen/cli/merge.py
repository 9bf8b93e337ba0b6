"""`juzhen merge`: one model from several with the same start."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from juzhen.cli.options import SEED, RunDataDir, Seed
from juzhen.core.errors import UserError
from juzhen.core.machine import without_hub
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
    models: Annotated[list[str], Argument(metavar="RUN", help="two or more runs or folders of encoders")],
    folder: Annotated[Path, Argument(metavar="OUT", help="folder for the merged model")],
    *,
    method: Annotated[Method, Option(help="merge method")] = "linear",
    weights: Annotated[
        str | None,
        Option(
            metavar="0.3,0.7|dev",
            help="one weight per model, in their order, or dev: the best weights on dev splits",
            show_default="equal weights",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        Option(
            metavar="SET…",
            help="sets whose dev splits choose the weights",
            show_default="training sets of the runs",
        ),
    ] = None,
    base: Annotated[
        str | None,
        Option(
            metavar="RUN",
            help="common start of the models, for task_arithmetic, ties, dare and model_stock",
            show_default="taken from the runs",
        ),
    ] = None,
    density: Annotated[
        float, Option(metavar="SHARE", help="share of the training updates to keep, for ties and dare")
    ] = 0.5,
    scale: Annotated[float, Option(help="factor for the updates that are added to the base")] = 1.0,
    trials: Annotated[int, Option(min=1, help="most mixtures to evaluate on dev")] = 30,
    seed: Seed = SEED,
    data_dir: RunDataDir = None,
) -> None:
    """Merges models that started from the same weights, and scores the result next to them.

    linear, slerp (two models) and multislerp average weights. task_arithmetic, ties, dare and model_stock combine the
    training updates of the base. greedy_soup averages the models that help on dev. If all models are finished runs, OUT
    is a run too: `juzhen table` shows it next to its parents, with gains and losses. All models are in memory, with 4
    bytes per parameter.

    juzhen merge runs/A runs/B runs/AB
    juzhen merge runs/A runs/B runs/C runs/ABC --method ties --density 0.3
    juzhen merge runs/A runs/B runs/AB --method slerp --weights dev --dataset csts lcqmc
    """
    without_hub()
    words = [*models, str(folder)] if weights else []
    if loose := [word for word in words if number_or_nan(word) == number_or_nan(word)]:
        given = " ".join([weights or "", *loose])
        raise UserError(f"--weights {given}: is one word. Type --weights {given.replace(' ', ',')}")
    if len(models) < 2 and dataset is not None and len(dataset) > 1:
        raise UserError(
            f"--dataset takes all words behind it, also {dataset[-1]}. Type RUN RUN OUT before it"
        )
    numbers = _weights(weights)
    from juzhen.merging.merge import MergeRecipe
    from juzhen.merging.runs import merge_runs

    recipe = MergeRecipe(method, numbers, density, scale, seed, trials)
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
            f"weights {', '.join(f'{weight:.3g}' for weight in merged.weights)}: "
            f"{100 * max(merged.tried.values()):.2f} on dev of "
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
            f"--weights {text}: not numbers. Give numbers separated by commas, such as 0.3,0.7, or dev"
        )
    return numbers
