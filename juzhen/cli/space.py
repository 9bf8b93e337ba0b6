"""`juzhen space`: maps and measures of embeddings, before and after training."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.machine import without_hub
from juzhen.core.paths import DATASETS
from juzhen.core.text import markdown_table


def space(
    encoder: options.Encoder,
    other: Annotated[
        str | None, Argument(help="second encoder, drawn on the right", show_default=False)
    ] = None,
    *,
    data: Annotated[
        list[str] | None,
        Option(
            metavar="SET|FILE…",
            help="sets of conf/dataset, or files: .txt with one text per line, or a table with columns "
            "text and label",
            show_default="demo_sts",
        ),
    ] = None,
    before: Annotated[
        bool, Option("--before", help="compare with the initial weights of the run, on the left")
    ] = False,
    split: Annotated[
        Literal["dev", "test", "train"] | None,
        Option(help="split to read", show_default="the first one with a file"),
    ] = None,
    texts: Annotated[int, Option(min=10, max=20_000, help="most texts of each set")] = 1000,
    maps: Annotated[
        list[str] | None,
        Option(metavar="MAP…", help="maps to draw: pca, tsne", show_default="pca tsne"),
    ] = None,
    colour: Annotated[
        Literal["class", "set"] | None,
        Option(help="what the colours show", show_default="class, for one set with classes"),
    ] = None,
    seed: options.Seed = options.SEED,
    table: options.TableOptions = options.AS_IT_LOOKS,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    out: Annotated[Path, Option(metavar="FOLDER", help="folder for the page and the picture")] = Path(
        "space"
    ),
    json: Annotated[Path | None, Option(metavar="FILE", help="write the numbers as JSON")] = None,
) -> None:
    """Draws and measures the embeddings of some sets for one encoder, or for two side by side.

    The verb writes index.html with interactive maps, and space.svg. It measures spread, directions, neighbours and
    hubs, separation of classes, correlation with word overlap, and agreement of two encoders. Alignment needs a set of
    pairs. Silhouette and V-measure need one with classes.

    juzhen space runs/NAME --before --data tnews
    juzhen space builtin/mini_zh runs/NAME --data csts lines.txt --maps pca
    """
    if other is not None and before:
        raise UserError("--before: there is a second encoder already. Leave out one of the two")
    if other == encoder:
        raise UserError(f"{encoder}: given twice. Name two encoders, or one")
    check_overwritable(*(path for path in (out / "index.html", out / "space.svg", json) if path))
    without_hub()
    from juzhen.data.rows import ConfiguredSets
    from juzhen.evaluation.run import require_vectors
    from juzhen.evaluation.space import (
        MAPS,
        read_text_sets,
        require_sets,
        starting_encoder,
        study,
    )
    from juzhen.report.space_page import number_text, write_space

    sources = [encoder, *([other] if other else [])]
    require_vectors(*sources)
    configured = ConfiguredSets(
        DATASETS, options.data_folder(data_dir), config_dir=config_dir, on_bad_row=table.on_bad_row
    )
    sets = read_text_sets(
        data or ["demo_sts"], configured, split=split, most=texts, seed=seed, reading=table.reading
    )
    configured.tell_dropped()
    methods = tuple(dict.fromkeys(maps or MAPS))
    require_sets(sets, maps=methods, colour=colour)
    encoders: dict[str, Any] = {f"start of {encoder}": starting_encoder(encoder)} if before else {}
    encoders |= {source: source for source in sources}
    studied = study(encoders, sets, maps=methods, colour=colour, seed=seed, batch_tokens=batch_tokens)
    numbers = studied.plain()
    for name, of_runs in studied.numbers.items():
        head = ["measure", *studied.runs] if len(studied.numbers) == 1 else [name, *studied.runs]
        lines = [
            [measure, *(number_text(values.get(measure)) for values in of_runs), meaning]
            for measure, meaning in studied.meanings.items()
            if any(values.get(measure) is not None for values in of_runs)
        ]
        for measure, value in studied.together.get(name, {}).items():
            lines.append([measure, "", number_text(value), studied.meanings[measure]])
        print(markdown_table([*head, "meaning"], lines, numbers=range(1, len(head))))
    write_space(studied, out)
    if json:
        write_json(json, numbers)
