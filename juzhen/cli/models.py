"""`juzhen models`: encoders that a job may start from, and which one suits a use."""

import textwrap
from collections.abc import Sequence
from typing import Annotated, Literal

from typer import Option

from juzhen.core.errors import UserError
from juzhen.core.markup import markdown_table
from juzhen.report.encoders import LANGUAGES, SOURCES, USES, Model, Need, load_models, recommendation

WIDTH = 80
FACTS = ("name", "path", "base", "layers", "dim", "tokens", "languages", "prompts", "license")
SCORES = ("average", *USES, "sentences/s")
HEADINGS = {"name": "backbone", "path": "from"}


def models(
    *,
    use: Annotated[
        Literal["sts", "retrieval", "rerank", "classification", "clustering"] | None, Option(help="what for")
    ] = None,
    language: Annotated[
        Literal["zh", "en", "en-zh"] | None, Option(help="of the texts", show_default=LANGUAGES[0])
    ] = None,
    documents: Annotated[int | None, Option(min=1, help="texts that are searched")] = None,
    latency_ms: Annotated[
        float | None, Option(metavar="MS", help="that a sentence may take on this processor")
    ] = None,
) -> None:
    """Lists the backbones: what they are, their published scores, and their speed where it was measured.

    With --use it recommends one, and says why.

    juzhen models --language en
    juzhen models --use retrieval --documents 100000 --latency-ms 20
    """
    on_file = load_models()
    if use is None:
        if documents is not None or latency_ms is not None:
            raise UserError(f"--documents and --latency-ms: say for what, too: --use {', '.join(USES)}")
        _print_tables([model for model in on_file if model.reads(language or "")])
        return
    if latency_ms is not None and not latency_ms > 0:
        raise UserError(f"--latency-ms {latency_ms:g}: expected more than 0 milliseconds")
    if latency_ms is not None and all(model.speed is None for model in on_file):
        raise UserError(
            "--latency-ms: speeds are in a clone of juzhen (results/bench), and this is none; leave it out"
        )
    for line in recommendation(Need(use, language or LANGUAGES[0], documents, latency_ms), on_file):
        print(
            textwrap.fill(line, WIDTH, subsequent_indent="  " * line.startswith("-"), break_on_hyphens=False)
        )


def _print_tables(models: Sequence[Model]) -> None:
    """Facts and scores as two tables as wide as the terminal; in a pipe one of Markdown, a line per encoder."""
    from juzhen.report.terminal import console_table, for_people

    if console := for_people():
        for keys in (FACTS, ("name", *SCORES)):
            headings = [HEADINGS.get(key, key) for key in keys]
            rows = [[_cell(model, key) for key in keys] for model in models]
            console.print(console_table(headings, rows, numbers=("layers", "dim", "tokens", *SCORES)))
    else:
        columns = [*FACTS, *SCORES]
        numbers = [columns.index(key) for key in ("layers", "dim", "tokens", *SCORES)]
        rows = [[_cell(model, key) for key in columns] for model in models]
        print(markdown_table([HEADINGS.get(key, key) for key in columns], rows, numbers=numbers))
    sources = "; ".join(
        f"{', '.join(names)}: {source}"
        for key, source in SOURCES.items()
        if (names := [model.name for model in models if model.source == key])
    )
    print(
        textwrap.fill(
            f"Published figures. {sources}. Speed: results/bench, this project on two cores.", WIDTH
        )
    )


def _cell(model: Model, key: str) -> str:
    if key == "sentences/s":
        return "" if model.speed is None else f"{model.speed:,.0f}"
    if key in FACTS:
        value = getattr(model, key)
        return " ".join(value) if isinstance(value, tuple) else str(value)
    return f"{model.scores[key]:.2f}" if key in model.scores else ""
