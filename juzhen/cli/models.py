"""`juzhen models`: encoders that a job may start from, and which one suits a use."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from juzhen.cli.arguments import VerbParser
from juzhen.core.errors import UserError
from juzhen.report.encoders import LANGUAGES, SOURCES, USES, Need, load_models, recommendation

if TYPE_CHECKING:
    from juzhen.report.encoders import Model

WIDTH = 80
FACTS = ("name", "path", "base", "layers", "dim", "tokens", "languages", "prompts", "license")
HEADINGS = {"name": "backbone", "path": "from"}
NUMBERS = ("layers", "dim", "tokens", "average", *USES, "sentences/s")


def parser() -> VerbParser:
    parser = VerbParser(
        "models",
        "Lists the backbones: what they are, their published scores, and their speed where it was measured. With --use "
        "it recommends one, and says why.",
    )
    parser.add_argument("--use", choices=tuple(USES), help="what for")
    parser.add_argument("--language", choices=LANGUAGES, help="of the texts (default: zh)")
    expected = "a number of documents, such as 100000"
    parser.add_count("--documents", "texts that are searched", expected=expected, metavar="N")
    parser.add_number("--latency-ms", "that a sentence may take on this processor", example=20, metavar="MS")
    return parser


def run(
    *,
    use: str | None = None,
    language: str | None = None,
    documents: int | None = None,
    latency_ms: float | None = None,
) -> None:
    """Prints the table, or a recommendation. Raises UserError for a limit without a use."""
    models = load_models()
    if use is None:
        if documents is not None or latency_ms is not None:
            raise UserError(f"--documents and --latency-ms: say for what, too: --use {', '.join(USES)}")
        _print_table([one for one in models if one.reads(language or "")])
        return
    if latency_ms is not None and latency_ms <= 0:
        raise UserError(f"--latency-ms {latency_ms:g}: expected more than 0 milliseconds")
    if latency_ms is not None and all(one.speed is None for one in models):
        raise UserError(
            "--latency-ms: speeds are in a clone of juzhen (results/bench), and this is none; leave it out"
        )
    for line in recommendation(Need(use, language or LANGUAGES[0], documents, latency_ms), models):
        print(
            textwrap.fill(line, WIDTH, subsequent_indent="  " * line.startswith("-"), break_on_hyphens=False)
        )


def _print_table(models: "Sequence[Model]") -> None:
    """A table as wide as the terminal; in a pipe Markdown, a line per encoder."""
    from juzhen.core.markup import markdown_table
    from juzhen.report.terminal import console_table, for_people

    keys = [*FACTS, "average", *USES, "sentences/s"]
    headings = [HEADINGS.get(key, key) for key in keys]
    rows = [[_cell(model, key) for key in keys] for model in models]
    if console := for_people():
        console.print(console_table(headings, rows, numbers=NUMBERS))
    else:
        print(markdown_table(headings, rows, numbers=[keys.index(one) for one in NUMBERS]))
    sources = "; ".join(
        f"{', '.join(one.name for one in models if one.source == key)}: {told}"
        for key, told in SOURCES.items()
        if any(one.source == key for one in models)
    )
    print(
        textwrap.fill(
            f"Published figures. {sources}. Speed: results/bench, this project on two cores.", WIDTH
        )
    )


def _cell(model: "Model", key: str) -> str:
    if key == "sentences/s":
        return "" if model.speed is None else f"{model.speed:,.0f}"
    if key in FACTS:
        value = getattr(model, key)
        return " ".join(value) if isinstance(value, tuple) else str(value)
    return f"{model.scores[key]:.2f}" if key in model.scores else ""
