"""`juzhen characters` and `transfer`: what an encoder makes of characters, and what a classifier of its embeddings."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.atomic_write import write_json
from juzhen.core.file_guard import check_overwritable
from juzhen.core.machine import without_hub
from juzhen.core.paths import DATASETS
from juzhen.core.text import counted, percent

if TYPE_CHECKING:
    from juzhen.data.tables import TableReading
    from juzhen.evaluation.known_characters import KnownCharacters
    from juzhen.report.table import ReportTable

LIMIT = 2_000
"""Default number of texts to inspect."""

SHOWN = 40
"""Characters to list."""


def characters(
    encoder: options.Encoder,
    file: Annotated[
        Path | None,
        Argument(help="texts: .txt with one per line, or a table", show_default="lists of single characters"),
    ] = None,
    *,
    limit: Annotated[int, Option(min=1, help="texts to inspect, spread over the file")] = LIMIT,
    table: options.TableOptions = options.AS_IT_LOOKS,
    as_json: Annotated[bool, Option("--json", help="print one JSON object with all characters")] = False,
) -> None:
    """Finds characters that an encoder does not know, and compares other forms of each text.

    For a file it counts texts with unknown tokens, and pairs of different texts with equal token ids. It converts the
    texts to simplified and traditional characters, to full-width signs and to both cases, and counts how many keep
    their token ids. The score of a text and its other form is the cosine, or a cross-encoder's own score. OpenCC
    converts the scripts if it is installed. Without a file, the verb reads the two levels of GB 2312, traditional
    characters, kana, Latin letters and emoji one by one.

    juzhen characters builtin/mini_zh
    juzhen characters runs/NAME questions.txt
    juzhen characters runs/NAME faq.csv --columns text=问题 --json
    """
    texts = None if file is None else _texts(file, limit, table.reading)
    without_hub()
    from juzhen.evaluation.known_characters import known_characters, known_groups
    from juzhen.families.registry import open_weights

    opened = open_weights(encoder)
    found = known_groups(opened) if texts is None else known_characters(opened, texts)
    if as_json:
        print(json.dumps({"encoder": encoder, **found.facts()}, ensure_ascii=False))
        return
    from juzhen.report.table import show_tables

    show_tables(_tables(found), _notes(found))


def _texts(file: Path, limit: int, reading: "TableReading") -> list[str]:
    """Read the distinct texts of a file, spread over it."""
    from juzhen.data.tables import require_fields, sound_texts

    require_fields(reading, "text")
    _, texts, _, faults = sound_texts(file, reading)
    if faults:
        print(
            f"note: {file}: {counted(len(faults), 'faulty rows are left out', 'faulty row is left out')}",
            file=sys.stderr,
        )
    texts = [*dict.fromkeys(texts)]
    step = max(len(texts) / limit, 1.0)
    return [texts[int(number * step)] for number in range(min(limit, len(texts)))]


def _tables(found: "KnownCharacters") -> Iterator["ReportTable"]:
    from juzhen.report.table import MISSING, ReportTable

    def share(value: float | None) -> str:
        return MISSING if value is None else f"{100 * value:.1f}"

    if found.groups:
        body = [
            (name, f"{group.characters:,}", f"{len(group.unknown):,}", _named(group.unknown, 8))
            for name, group in found.groups.items()
        ]
        head = ("characters", "number", "unknown", "such as")
        yield ReportTable("groups", "", "", head, body)
    if found.forms:
        forms = [
            (
                name,
                form.by,
                f"{form.changed:,}",
                share(form.equal),
                MISSING if form.score is None else f"{form.score:.3f}",
            )
            for name, form in found.forms.items()
        ]
        yield ReportTable("forms", "", "", ("form", "by", "changed", "equal %", "score"), forms)


def _notes(found: "KnownCharacters") -> Iterator[str]:
    unknown = found.unknown
    if unknown is None:
        return
    yield (
        f"{unknown.texts:,} of {unknown.looked_at:,} texts ({percent(unknown.texts, unknown.looked_at)}) hold pieces "
        f"that this encoder does not know; "
        f"{counted(unknown.pairs, 'pairs of different texts have', 'pair of different texts has')} equal token numbers"
    )
    if found.characters:
        counts = [f"{one} {count:,}" for one, count in found.characters.items()]
        yield f"unknown, with how often each comes: {_named(counts, SHOWN)}"


def _named(values: list[str], most: int) -> str:
    return " ".join([*values[:most], *(["…"] if values[most:] else [])])


def transfer(
    encoder: options.Encoder,
    sets: Annotated[
        list[str],
        Argument(help="sets of 0/1 pairs, NLI pairs or texts with classes, such as mrpc, qqp, snli, tnews"),
    ],
    *,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    on_bad_row: options.OnBadRow = "error",
    limit: Annotated[int | None, Option(min=10, help="most rows of each split")] = None,
    seed: options.Seed = options.SEED,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    output: options.Numbers = None,
) -> None:
    """Trains a logistic regression on the frozen embeddings of an encoder.

    It is trained on train, its penalty is chosen on dev, and its accuracy is measured on test. If splits are missing,
    folds replace them.

    juzhen transfer runs/NAME mrpc snli tnews
    """
    if output:
        check_overwritable(output)
    without_hub()
    from juzhen.data.rows import ConfiguredSets
    from juzhen.encoders import load_encoder

    configured = ConfiguredSets(
        DATASETS, options.data_folder(data_dir), config_dir=config_dir, on_bad_row=on_bad_row
    )
    splits = {name: dict(configured.splits(name)) for name in sets}
    configured.tell_dropped()
    loaded = load_encoder(encoder)
    from juzhen.evaluation.run import transfer as classify

    scores = {}
    print("| set | accuracy | F1 | majority | rows | learnt from | how |\n|---|---|---|---|---|---|---|")
    for name in sets:
        score = classify(loaded, splits[name], batch_tokens=batch_tokens, seed=seed, limit=limit)
        scores[name] = vars(score)
        percents = " | ".join(
            "—" if value is None else f"{100 * value:.1f}"
            for value in (score.accuracy, score.f1, score.majority)
        )
        print(f"| {name} | {percents} | {score.rows:,} | {score.learnt_from:,} | {score.how} |", flush=True)
    if output:
        write_json(output, scores)
