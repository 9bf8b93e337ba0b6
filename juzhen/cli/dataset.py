"""`juzhen dataset`: makes a data set from a table of pairs, triplets or texts."""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TextIO

import typer
from typer import Argument, Option

from juzhen.cli import options
from juzhen.cli.options import DataDir, data_folder
from juzhen.core.errors import UserError, command, setting
from juzhen.core.paths import CONFIGURATION, IS_CLONE, ROOT, is_table
from juzhen.core.text import LARGEST, counted, short
from juzhen.models.settings import LEXICAL

if TYPE_CHECKING:
    from juzhen.data.dataset_from_table import NewSet, Origin
    from juzhen.data.row_kinds import Guess, RawTable
    from juzhen.data.tables import TableReading

NUM_LINES = 8
"""Line numbers to list for each reason."""

RowKind = Literal[
    "labelled_pair", "scored_pair", "nli_pair", "positive_pair", "triplet", "sentence", "labelled_text"
]
LOSSES: dict[str, dict[str, str]] = {
    "biencoder": {
        "positive_pair": "info_nce",
        "triplet": "info_nce",
        "sentence": "simcse",
        "labelled_text": "prototype",
    },
    "colbert": {"positive_pair": "info_nce", "triplet": "info_nce"},
    "crossencoder": {"labelled_pair": "bce", "scored_pair": "bce", "nli_pair": "ce"},
    "splade": {"positive_pair": "info_nce", "triplet": "info_nce"},
    "reranker": {"labelled_pair": "bce", "scored_pair": "bce"},
}
"""Model → loss for each row type, if it is not the default, cosent."""
SHARE = 0.1
"""Default share of the rows for dev, and for test."""


@dataclass(frozen=True)
class Choices:
    """User choices for a table. None means: recognise it."""

    name: Annotated[str | None, Option(help="name of the set", show_default="name of the file")] = None
    kind: Annotated[RowKind | None, Option(help="row type", show_default="recognised")] = None
    columns: options.Columns = None
    header: options.Header = None
    quoted: options.Quoted = None
    sheet: options.Sheet = None
    split_cells: options.SplitCells = None
    dev: Annotated[
        float | None,
        Option(
            help="share of rows for dev, which chooses the checkpoint", show_default="0.1, or 0 for retrieval"
        ),
    ] = None
    test: Annotated[
        float | None,
        Option(
            help="share of rows for test, which gives the final score",
            show_default="0.1, or all queries for retrieval",
        ),
    ] = None
    seed: Annotated[int, Option(min=0, max=LARGEST, help="seed of the split")] = 0

    def shares(self, dev: float, test: float) -> dict[str, float]:
        """Return the shares of both splits. If only one is chosen, the other one is `dev`.

        Args:
            dev: Default share of dev, 0 to 1.
            test: Default share of test, 0 to 1, if neither is chosen.

        Returns:
            `dev` and `test` → fraction of the rows.
        """
        if self.dev is None and self.test is None:
            return {"dev": dev, "test": test}
        return {
            name: dev if share is None else share for name, share in (("dev", self.dev), ("test", self.test))
        }

    def words(self) -> list[str]:
        """Return non-default choices as options of the verb.

        Returns:
            Options such as `--name` and their values. [] if all have their defaults.
        """
        usual = asdict(AS_IT_LOOKS) | AS_IT_LOOKS.shares(SHARE, SHARE)
        values = asdict(self) | self.shares(SHARE, SHARE)
        values = {key: value for key, value in values.items() if value != usual[key]}
        switches = {key: values.pop(key) for key in ("header", "quoted") if key in values}
        arguments = [f"--{key}" if value else f"--no-{key}" for key, value in switches.items()]
        return arguments + [
            word for key, value in values.items() for word in (f"--{key.replace('_', '-')}", str(value))
        ]

    def reading(self, spell: Callable[[str, object], str] | None) -> "TableReading":
        """Return how the table is read.

        Args:
            spell: Formats an option in messages. None formats it as an option of this verb.

        Returns:
            Columns, header, quotes, sheet and separator of cells.
        """
        from juzhen.core.errors import typed
        from juzhen.data.tables import TableReading, parse_columns

        return TableReading(
            columns=parse_columns(self.columns),
            header=self.header,
            quoted=self.quoted,
            sheet=self.sheet,
            split_cells=self.split_cells,
            spell=spell or typed,
        )


AS_IT_LOOKS = Choices()


def dataset(
    file: Annotated[
        Path | None,
        Argument(
            help="csv, tsv, txt, jsonl, parquet, arrow or xlsx, in UTF-8, UTF-16, GBK or Big5. With --queries: "
            "name of the set",
            show_default=False,
        ),
    ] = None,
    *,
    queries: Annotated[
        Path | None,
        Option(metavar="TABLE", help="queries of a retrieval set: an id and a text per row, or texts"),
    ] = None,
    corpus: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="documents of a retrieval set: id, text and optional title",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="judgements of a retrieval set: query and document by id or text, and optional gain",
            show_default="a column of the queries with documents",
        ),
    ] = None,
    choices: Choices = AS_IT_LOOKS,
    data_dir: DataDir = None,
    config_dir: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="folder whose dataset/ gets the description",
            show_default="conf of the clone, or of this folder",
        ),
    ] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="accept the guess without asking")] = False,
) -> None:
    """Makes a data set from a table: recognises the columns, drops bad rows, splits the rows and writes a description.

    No sentence is in two splits, on either side. In a terminal the verb shows its guess and asks.

    A retrieval set takes two or three tables. Its queries are split. By default all of them are for test.

    juzhen dataset faq.csv
    juzhen dataset search --queries queries.csv --corpus documents.csv --answers answers.csv
    juzhen dataset faq.xlsx --name faq --columns anchor=标准问,positive=相似问
    juzhen dataset pairs.csv --columns text_a=1,text_b=2,label=3
    """
    ask = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    folder = _descriptions(config_dir)
    is_search = (queries, corpus, answers) != (None, None, None)
    if is_search:
        tables = _tables(file, queries, corpus, answers)
        _make_search(file, tables, choices, data_dir=data_dir, config_dir=config_dir, ask=ask)
        return
    if file is None:
        raise UserError(
            "no table. Type juzhen dataset faq.csv, or give the tables of a retrieval set: --queries, --corpus"
        )
    place = data_folder(data_dir, may_lack=True)
    new_set, origin = _read(file, choices, descriptions=folder, ask=ask)
    _write(new_set, origin, data_dir=place, descriptions=folder)
    print("\n".join(_next(new_set, config_dir, place)))


def _tables(
    file: Path | None, queries: Path | None, corpus: Path | None, answers: Path | None
) -> dict[str, Path]:
    """Return the table of each part of a retrieval set, and check that queries and documents are there."""
    if queries is None and file is not None and is_table(file):
        queries = file
    given = {"queries": queries, "corpus": corpus, "answers": answers}
    for part in ("queries", "corpus"):
        if given[part] is None:
            raise UserError(f"--{part}: missing. A search needs the tables --queries and --corpus")
    return {part: path for part, path in given.items() if path is not None}


def _make_search(
    file: Path | None,
    tables: dict[str, Path],
    choices: Choices,
    *,
    data_dir: Path | None,
    config_dir: Path | None,
    ask: bool,
) -> None:
    from juzhen.data.dataset_from_table import Origin, read_origin
    from juzhen.data.search_tables import content_of, search_of_tables, write_search

    if choices.kind is not None:
        raise UserError(f"--kind {choices.kind}: a retrieval set has no row type. Leave it out")
    stem = None if file is None or is_table(file) else str(file)
    name, folder = choices.name or stem or "search", _descriptions(config_dir)
    shares = choices.shares(0.0, 1.0)
    search = search_of_tables(
        name, tables["queries"], tables["corpus"], tables.get("answers"), choices.reading(None)
    )
    print("\n".join(search.taken))
    if ask and not typer.confirm("Is this right?", default=True):
        raise UserError("nothing was written. Name the columns: --columns query=…,document=…")
    words = [word for part, path in tables.items() for word in (f"--{part}", path.resolve())]
    said = replace(choices, name=None, dev=None, test=None).words()
    if shares != {"dev": 0.0, "test": 1.0}:
        said += [word for key, share in shares.items() for word in (f"--{key}", str(share))]
    origin = Origin(content_of(tables.values()), command("juzhen", "dataset", name, *words, *said))
    previous = read_origin(name, folder, tables["queries"])
    if previous is not None and previous.path != origin.path:
        raise UserError(f"{name}: a set of this name was made by {previous.command}. Choose another name")
    judged = search.splits(**shares, seed=choices.seed)
    places = {"data_dir": data_folder(data_dir, may_lack=True), "descriptions": folder}
    path = write_search(search, judged, **places, origin=origin)
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    for place, lines in search.left_out.items():
        print("\n".join(f"{place}: {line}" for line in _left_out(lines)))
    sizes = ", ".join(f"{split} {len({query for query, *_ in rows}):,}" for split, rows in judged.items())
    print(
        f"{name}: {counted(len(search.queries), 'queries')} ({sizes}) in {counted(len(search.corpus), 'documents')}"
    )
    print(f"written: {path}")
    tree = ["--config-dir", config_dir] if config_dir else []
    if IS_CLONE:
        print(f"next: {command('juzhen', 'evaluate', 'builtin/mini_zh', '--dataset', name, *tree)}")


class SetOfFile(NamedTuple):
    """A set by its name, row type and, if it was not written, its description as YAML.

    Args:
        name: Name of the set.
        kind: Kind of its rows.
        description: Description as YAML, if the set was not written.
    """

    name: str
    kind: str
    description: str = ""


def set_of_file(
    file: Path, *, data_dir: Path | None = None, config_dir: Path | None = None, write: bool = True
) -> SetOfFile:
    """Make the set of a file, unless it exists and the file is unchanged.

    Args:
        file: Table with the rows.
        data_dir: Folder of the data sets.
        config_dir: Folder whose dataset/ has the description.
        write: Write the set. False only makes the description.

    Returns:
        Name, row type and description of the set.

    Raises:
        UserError: A set of this name comes from another file, or from other content with other choices.
    """
    from juzhen.core.errors import typed
    from juzhen.data.dataset_from_table import description, files_of, origin_of, read_origin
    from juzhen.data.rows import set_name
    from juzhen.data.spec import read_description

    name, folder = set_name(file), _descriptions(config_dir)
    previous, origin = read_origin(name, folder, file), origin_of(file, [])
    if previous is not None and previous.content == origin.content:
        described = read_description(folder / f"{name}.yaml")
        if all(Path(path).is_file() for path in described.layouts[described.layout].files.values()):
            return SetOfFile(name, described.kind)
    if previous is not None and previous.command != origin.command:
        raise UserError(
            f"data={file}: the set {name} was made by {previous.command}, from other content. Type that again, "
            f"or {command('juzhen', 'dataset', file, '--name', f'{name}_2')}"
        )

    def spell(option: str, value: object) -> str:
        return f"{command('juzhen', 'dataset', file)} {typed(option, value)}"

    new_set = (
        _checked.pop(origin, None)
        or _read(file, AS_IT_LOOKS, descriptions=folder, ask=False, to=sys.stderr, spell=spell)[0]
    )
    place = data_folder(data_dir, may_lack=True)
    if write:
        _write(new_set, origin, data_dir=place, descriptions=folder, to=sys.stderr)
        return SetOfFile(name, new_set.guess.kind)
    _checked[origin] = new_set
    return SetOfFile(name, new_set.guess.kind, description(new_set, files_of(new_set, place), origin))


_checked: "dict[Origin, NewSet]" = {}
"""Sets that are written once their job is checked."""


def _read(
    file: Path,
    choices: Choices,
    *,
    descriptions: Path,
    ask: bool,
    to: TextIO | None = None,
    spell: Callable[[str, object], str] | None = None,
) -> "tuple[NewSet, Origin]":
    from juzhen.core.kinds import Kind
    from juzhen.data.dataset_from_table import make_set, origin_of, read_origin
    from juzhen.data.row_kinds import guess, read_raw
    from juzhen.data.rows import set_name, split_raw

    name = choices.name or set_name(file)
    origin, previous = origin_of(file, choices.words()), read_origin(name, descriptions, file)
    if previous is not None and previous.path != origin.path and previous.content != origin.content:
        other = command("juzhen", "dataset", file, "--name", f"{name}_2")
        raise UserError(f"{name}: a set of this name was made by {previous.command}. Choose another: {other}")
    table = read_raw(file, choices.reading(spell))
    rows = guess(table, kind=Kind(choices.kind) if choices.kind else None)
    print("\n".join(_described(table, rows)), file=to)
    if ask and not typer.confirm("Is this right?", default=True):
        raise UserError("nothing was written. Describe the rows: --kind, --columns, --header, --no-header")
    shares = choices.shares(SHARE, SHARE)
    new_set = make_set(name, split_raw(table, rows), rows, **shares, seed=choices.seed)
    print("\n".join(_summary(new_set)), file=to)
    return new_set, origin


def _write(
    new_set: "NewSet", origin: "Origin", *, data_dir: Path, descriptions: Path, to: TextIO | None = None
) -> None:
    from juzhen.data.dataset_from_table import write_set

    path = write_set(new_set, data_dir=data_dir, descriptions=descriptions, origin=origin)
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    print(f"written: {path}", file=to)


def training_words(name: str, kind: str, *, model: str = "biencoder") -> list[str]:
    """Return the arguments of train.py that train on a set and score its test split.

    Args:
        name: Name of the set.
        kind: Its row type.
        model: Option of the group `model`. It decides about the loss.

    Returns:
        Overrides of train.py.
    """
    if model in LEXICAL:
        return ["dataset=[]", setting(f"+dataset@evaluate.{name}", name), "benchmark=none"]
    arguments = [setting("dataset", name)]
    if kind != "sentence":  # sentences alone are scored by those of other sets
        arguments.append("benchmark=none")
    arguments += [f"loss={LOSSES[model][kind]}"] if kind in LOSSES.get(model, {}) else []
    return arguments + (["evaluation.untrained=true"] if model == "biencoder" else [])


def _descriptions(config_dir: Path | None) -> Path:
    return (config_dir or (CONFIGURATION if IS_CLONE else Path("conf"))) / "dataset"


def _described(table: "RawTable", rows: "Guess") -> Iterator[str]:
    yield f"{table.place}: {counted(len(table.cells), 'rows')}; {table.format}"
    scores = ", scores from {} to {}".format(*rows.score_range) if rows.score_range else ""
    yield f"each row is a {rows.kind}{scores}:"
    for field, column in rows.columns.items():
        cells = table.cells[column]
        examples = " · ".join(short(cell, 20) for cell in cells[cells != ""].unique()[:3])
        yield f"  {field:10} = {short(column, 30)}: {examples}"
    meanings = [f"{label} = {meant}" for label, meant in (rows.labels or {}).items() if label != meant]
    if meanings:
        yield f"  {'':10}   {', '.join(meanings)}"
    yield from (f"  note: {note}" for note in dict.fromkeys([*table.notes, *rows.notes]))


def _summary(new_set: "NewSet") -> Iterator[str]:
    yield from _left_out(new_set.left_out)
    sizes = ", ".join(f"{split} {len(rows):,}" for split, rows in new_set.splits.items())
    parted = "query or positive" if new_set.guess.kind == "triplet" else "sentence"
    yield f"{new_set.name}: {sizes} rows; no {parted} is in two splits"


def _left_out(lines: Mapping[int, str]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for line, reason in lines.items():
        by_reason.setdefault(reason, []).append(line)
    for reason, line_numbers in sorted(by_reason.items(), key=lambda item: -len(item[1]))[:NUM_LINES]:
        numbers = ", ".join(map(str, line_numbers[:NUM_LINES])) + (
            ", …" if len(line_numbers) > NUM_LINES else ""
        )
        yield f"left out, {reason}: {counted(len(line_numbers), 'rows')} (line {numbers})"
    if len(by_reason) > NUM_LINES:
        yield f"left out for other reasons: {counted(sum(map(len, by_reason.values())), 'rows')} in all"


def _next(new_set: "NewSet", config_dir: Path | None, data_dir: Path) -> Iterator[str]:
    """Return the command that trains on a set, or lines of Python without a clone."""
    arguments = training_words(new_set.name, new_set.guess.kind)
    if IS_CLONE:
        program = "train.py" if Path.cwd() == ROOT else ROOT / "train.py"
        tree = ["--config-dir", config_dir] if config_dir else []
        yield f"next: {command('python', program, *tree, *arguments, setting('run_dir', f'runs/{new_set.name}'))}"
        return
    if new_set.guess.kind in ("nli_pair", "labelled_text"):
        yield "next: train on it in a clone of juzhen, whose train.py reads such rows"
        return
    files = (
        json.dumps(str(data_dir / new_set.name / f"{split}.csv"), ensure_ascii=False)
        for split in new_set.splits
    )
    arguments = [next(files), *(f"dev={file}" for file in itertools.islice(files, 1))]
    arguments.append(f"loss={LOSSES['biencoder'].get(new_set.guess.kind, 'cosent')!r}")
    arguments += [f"score_range={new_set.guess.score_range}"] if new_set.guess.score_range else []
    yield "next, in Python:"
    yield "  from juzhen import fit"
    yield f"  encoder = fit('builtin/mini_zh', {', '.join(arguments)})"
