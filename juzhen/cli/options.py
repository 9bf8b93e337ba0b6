"""Arguments and options of verbs. What several verbs have is declared here once.

A metavar that ends in … takes every word up to the next option: `--sets lcqmc atec`.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError, require_packages
from juzhen.core.text import LARGEST

if TYPE_CHECKING:  # it loads numpy
    from juzhen.data.tables import TableReading

SEED = 42
BATCH_TOKENS = 16384

Encoder = Annotated[str, Argument(help="run folder, or folder of an encoder")]
BatchTokens = Annotated[int, Option(min=1, help="tokens at a time")]
Backend = Annotated[BackendName, Option(help="what computes the embeddings")]
Cache = Annotated[Path | None, Option(metavar="FOLDER", help="keep embeddings here for the next time")]
TruncateDim = Annotated[
    int | None, Option(metavar="N", min=1, help="only the first N numbers of embeddings", show_default="all")
]
LongTexts = Annotated[
    Literal["cut", "chunk"],
    Option(help="of more tokens than the encoder reads: cut there · chunk: the mean of their chunks"),
]
Overlap = Annotated[
    int | None, Option(metavar="N", min=0, help="tokens that neighbouring chunks share", show_default="0")
]
Seed = Annotated[int, Option(min=0, max=LARGEST, help="of all that is drawn")]

DataDir = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="where the data sets lie", show_default="$JUZHEN_DATA, or data"),
]
RunDataDir = Annotated[
    Path | None,
    Option(
        "--data-dir",
        metavar="FOLDER",
        help="where the data sets lie",
        show_default="where the run read its sets",
    ),
]
ConfigDir = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="a further folder of dataset/ files, such as juzhen mine writes"),
]
OnBadRow = Annotated[
    Literal["error", "drop"], Option(help="what faulty rows do: end the work, or are left out")
]
Columns = Annotated[
    str | None,
    Option(
        metavar="FIELD=COLUMN,…",
        help="of a table: which column is what, by name, or by number from 1",
        show_default="as they look",
    ),
]
Header = Annotated[
    bool | None,
    Option(
        "--header/--no-header",
        help="of a table: whether the first line names the columns",
        show_default="as it looks",
    ),
]
Quoted = Annotated[
    bool | None,
    Option(
        "--quoted/--no-quoted",
        help='of a table: whether cells may be in double quotes ("")',
        show_default="as it looks",
    ),
]
Sheet = Annotated[
    str | None,
    Option(help="of an Excel file: by name, or by number from 1", show_default="the first that is not empty"),
]
SplitCells = Annotated[
    str | None,
    Option(metavar="SIGN", help="what divides several texts of one cell, such as '||': each becomes a row"),
]
ReadSplit = Annotated[Literal["train", "dev", "test"], Option(help="split to read")]
Table = Annotated[Path, Option(metavar="FILE.tsv", help="table to write; its name names the set")]
Numbers = Annotated[Path | None, Option(help="also write the numbers here, as JSON")]
FittedSets = Annotated[
    list[str] | None,
    Option(metavar="SET…", help="sets to fit on", show_default="every fitting set of the run"),
]
Analysis = Annotated[
    Path | None, Option(metavar="FOLDER", help="where to write", show_default="analysis/ in the (first) run")
]

Runs = Annotated[Path, Argument(help="folder that holds runs, at any depth")]
Metric = Annotated[
    str | None,
    Option(help="spearman, recall_at_1, nDCG@10, accuracy, …", show_default="of each set what speaks for it"),
]
Split = Annotated[
    Literal["dev", "test", "both"] | None,
    Option(
        help="columns of this split, or of both side by side",
        show_default="one of each set, test if it is as full",
    ),
]
Debug = Annotated[bool, Option("--debug", help="also debug runs, which learn from some rows alone")]
Markdown = Annotated[Path | None, Option(help="also write the table as Markdown")]
Out = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="where to write", show_default="report/ in the folder of the runs"),
]
Reference = Annotated[
    Path | None, Option(metavar="FOLDER", help="published numbers as CSV", show_default="the shipped ones")
]
Leaks = Annotated[Path | None, Option(help="audit of leaks", show_default="results/leaks/pairs.json")]
Title = Annotated[str, Option(help="of the page")]


@dataclass(frozen=True)
class TableOptions:
    """Options of verbs that read a table; the defaults recognise it."""

    columns: Columns = None
    header: Header = None
    quoted: Quoted = None
    sheet: Sheet = None
    split_cells: SplitCells = None
    on_bad_row: OnBadRow = "error"

    @property
    def reading(self) -> "TableReading":
        """How the table is read."""
        from juzhen.data.tables import TableReading, parse_columns

        return TableReading(**vars(self) | {"columns": parse_columns(self.columns)})


AS_IT_LOOKS = TableOptions()


def flat_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are dataclasses by their fields, as options of their own.

    The help of an option is its line under `Args:` in the docstring of the dataclass, unless the field is annotated
    with an option of its own.

    Args:
        function: A verb. It is called with an object of each dataclass.
    """
    signature = inspect.signature(function)
    groups = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    if not groups:
        return function

    def called(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{each: values.pop(each) for each in _options_of(kind)})
        function(**values)

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += _options_of(groups[name]).values() if name in groups else [parameter]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__doc__ = function.__doc__
    return called


@cache
def _options_of(kind: type) -> dict[str, inspect.Parameter]:
    """Name of a field → the parameter that typer reads."""
    hints, about = get_type_hints(kind, include_extras=True), described_args(kind.__doc__ or "")
    parameters = {}
    for field in fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is not Annotated:
            hint = Annotated[hint, Option(help=about[field.name])]
        parameters[field.name] = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hint,
        )
    return parameters


def described_args(docstring: str) -> Mapping[str, str]:
    """Read the lines under `Args:`, or `Attributes:`, of a docstring.

    >>> described_args("Sum.\\n\\nArgs:\\n    a: One number,\\n        or several.\\n    b: Another.\\n")
    {'a': 'One number, or several.', 'b': 'Another.'}
    """
    _, *after = re.split(r"^(?:Args|Attributes):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    block = re.split(r"^\S", after[0] if after else "", maxsplit=1, flags=re.MULTILINE)[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", block, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def data_folder(folder: Path | None, *, may_lack: bool = False) -> Path:
    """Where the data sets lie. Raises UserError for a folder that is not there, unless it is to be made."""
    if folder is not None and not may_lack and not folder.expanduser().is_dir():
        raise UserError(f"--data-dir {folder}: no such folder; give the one that holds the data sets")
    return folder or Path(os.environ.get("JUZHEN_DATA", "data"))


def require_matplotlib(otherwise: str = "") -> None:
    """Raises UserError where there is no matplotlib: better before scores are computed than after.

    otherwise  end of the message: what can be done instead
    """
    require_packages("the picture", "matplotlib", extra="analysis", otherwise=otherwise)
