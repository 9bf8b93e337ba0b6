"""Arguments and options of several verbs, each declared once.

A metavar that ends in … takes all words up to the next option: `--sets lcqmc atec`.
"""

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError, require_packages
from juzhen.core.paths import is_table
from juzhen.core.text import LARGEST

if TYPE_CHECKING:  # it loads numpy
    from juzhen.data.tables import TableReading

SEED = 42
BATCH_TOKENS = 16384

Encoder = Annotated[str, Argument(help="run folder, or folder of an encoder")]
BatchTokens = Annotated[int, Option(min=1, help="tokens per batch")]
Backend = Annotated[BackendName, Option(help="backend that computes the embeddings")]
Cache = Annotated[Path | None, Option(metavar="FOLDER", help="folder for a cache of embeddings")]
TruncateDim = Annotated[
    int | None,
    Option(metavar="N", min=1, help="truncate embeddings to the first N dimensions", show_default="all"),
]
LongTexts = Annotated[
    Literal["cut", "chunk"],
    Option(
        help="for texts above the length of the encoder: truncate · chunk: average the embeddings of chunks"
    ),
]
Overlap = Annotated[
    int | None, Option(metavar="N", min=0, help="tokens shared by neighbouring chunks", show_default="0")
]
Seed = Annotated[int, Option(min=0, max=LARGEST, help="random seed")]

DataDir = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="folder of the data sets", show_default="$JUZHEN_DATA, or data"),
]
RunDataDir = Annotated[
    Path | None,
    Option(
        "--data-dir",
        metavar="FOLDER",
        help="folder of the data sets",
        show_default="the folder that the run used",
    ),
]
ConfigDir = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="another folder with dataset/ files, such as juzhen mine writes"),
]
OnBadRow = Annotated[Literal["error", "drop"], Option(help="stop at a faulty row, or drop faulty rows")]
Columns = Annotated[
    str | None,
    Option(
        metavar="FIELD=COLUMN,…",
        help="columns of a table, by name or by number from 1",
        show_default="recognised",
    ),
]
Header = Annotated[
    bool | None,
    Option(
        "--header/--no-header",
        help="the first line of a table names the columns, or not",
        show_default="recognised",
    ),
]
Quoted = Annotated[
    bool | None,
    Option(
        "--quoted/--no-quoted",
        help='cells of a table may be in double quotes (""), or not',
        show_default="recognised",
    ),
]
Sheet = Annotated[
    str | None,
    Option(
        help="sheet of an Excel file, by name or by number from 1", show_default="the first non-empty sheet"
    ),
]
SplitCells = Annotated[
    str | None,
    Option(metavar="SIGN", help="separator of several texts in one cell, such as '||'. Each becomes a row"),
]
ReadSplit = Annotated[Literal["train", "dev", "test"], Option(help="split to read")]
Table = Annotated[
    Path, Option(metavar="FILE.tsv", help="table to write, whose name becomes the name of the set")
]
Numbers = Annotated[Path | None, Option(help="write the numbers as JSON")]
FittedSets = Annotated[
    list[str] | None,
    Option(metavar="SET…", help="sets for the fit", show_default="every suitable set of the run"),
]
Analysis = Annotated[
    Path | None, Option(metavar="FOLDER", help="where to write", show_default="analysis/ in the (first) run")
]

Runs = Annotated[Path, Argument(help="folder with runs, at any depth")]
Metric = Annotated[
    str | None,
    Option(
        help="metric, such as spearman, recall_at_1, nDCG@10 or accuracy",
        show_default="the main metric of each set",
    ),
]
Split = Annotated[
    Literal["dev", "test", "both"] | None,
    Option(
        help="split of the columns",
        show_default="one per set, test if it is as complete",
    ),
]
Debug = Annotated[bool, Option("--debug", help="include debug runs, which train on a few rows")]
Markdown = Annotated[Path | None, Option(help="write the table as Markdown, too")]
Out = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="where to write", show_default="report/ in the folder of the runs"),
]
Reference = Annotated[
    Path | None,
    Option(
        metavar="FOLDER", help="folder of CSV files with published numbers", show_default="the included ones"
    ),
]
Leaks = Annotated[
    Path | None, Option(help="JSON file of the leak audit", show_default="results/leaks/pairs.json")
]
Title = Annotated[str, Option(help="title of the page")]


@dataclass(frozen=True)
class TableOptions:
    """Options of verbs that read a table. The defaults recognise its format."""

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
    """Replace parameters that are dataclasses by their fields, each as an option.

    The help of an option comes from `Args:` in the docstring of the dataclass, unless the field is annotated with an
    option. A field that is a parameter of the function, too, has the value of that parameter, unless it is None.

    Args:
        function: A verb, which is called with an object of each dataclass.

    Returns:
        A function with the options as parameters, for typer.
    """
    signature = inspect.signature(function)
    kinds: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }
    if not kinds:
        return function
    own = {name: _options_of(kind, signature.parameters.keys()) for name, kind in kinds.items()}

    def called(**values: Any) -> None:
        objects = {}
        for name, kind in kinds.items():
            shared = {each.name for each in fields(kind)} & signature.parameters.keys()
            given = {each: values[each] for each in shared if values[each] is not None}
            objects[name] = kind(**given, **{each: values.pop(each) for each in own[name]})
        function(**values, **objects)

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += own[name].values() if name in kinds else [parameter]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__doc__ = function.__doc__
    return called


def _options_of(kind: Any, taken: Collection[str]) -> dict[str, inspect.Parameter]:
    """Return the parameter for typer of each field that is not taken."""
    hints, about = get_type_hints(kind, include_extras=True), described_args(kind.__doc__ or "")
    parameters = {}
    for field in fields(kind):
        if field.name in taken:
            continue
        hint = hints[field.name]
        if get_origin(hint) is not Annotated:
            hint = Annotated[hint, _option(about[field.name], hint, field.default)]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        parameters[field.name] = inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
        )
    return parameters


def _option(about: str, hint: Any, default: Any) -> Any:
    """Make the option of a field. `none` switches a number off that is on by default."""
    about = about[0].lower() + about[1:].rstrip(".")
    if hint == float | None and default is not None:
        about = about.replace("None: ", "none: ")
        return Option(help=about, parser=lambda text: None if text == "none" else float(str(text)))
    return Option(help=re.sub(r"\. None: [^.]*$", "", about))


def described_args(docstring: str) -> Mapping[str, str]:
    """Read the entries under `Args:`, or `Attributes:`, of a docstring.

    Args:
        docstring: A docstring in Google style.

    Returns:
        Name → description in one line.

    Example:
        >>> described_args("Sum.\\n\\nArgs:\\n    a: One number,\\n        or several.\\n    b: Another.\\n")
        {'a': 'One number, or several.', 'b': 'Another.'}
    """
    _, *after = re.split(r"^(?:Args|Attributes):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    block = re.split(r"^\S", after[0] if after else "", maxsplit=1, flags=re.MULTILINE)[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", block, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def refuse_file_names(texts: Sequence[str], remedy: str) -> None:
    """Check that no text is the name of an existing table.

    Args:
        texts: Arguments of a verb that takes texts.
        remedy: End of the message.

    Raises:
        UserError: One of them is.
    """
    if files := [text for text in texts if text == "-" or (is_table(text) and Path(text).is_file())]:
        raise UserError(f"{files[0]}: is a file, where a text is expected. {remedy}")


def require_one_way(backend: str, workers: int | None) -> None:
    """Check that a verb gets either a backend or several processes. Each excludes the other.

    Args:
        backend: Name of the backend. torch is the default.
        workers: Number of processes. None: not given.

    Raises:
        UserError: Both are given.
    """
    if workers is not None and backend != BackendName.TORCH:
        raise UserError("--workers and --backend exclude each other. Give one of them")


def encoding_options(
    encoder: Any, backend: str, batch_tokens: int, workers: int | None, cache: Path | None
) -> dict[str, Any]:
    """Return arguments of `encode` from options of a verb.

    Args:
        encoder: The encoder. A backend is made of it at the first call.
        backend: Name of the backend.
        batch_tokens: Tokens of a batch.
        workers: Number of processes. None: this process alone.
        cache: Folder for a cache of embeddings. None: no cache.

    Returns:
        Name of the argument → value.

    Raises:
        UserError: As in `require_one_way`.
    """
    require_one_way(backend, workers)
    from juzhen.backends import Deferred
    from juzhen.encoders.embedding_cache import EmbeddingCache

    options: dict[str, Any] = {"batch_tokens": batch_tokens}
    options["cache"] = None if cache is None else EmbeddingCache(cache)
    return options | ({"backend": Deferred(encoder, backend)} if workers is None else {})


def data_folder(folder: Path | None, *, may_lack: bool = False) -> Path:
    """Return the folder of the data sets.

    Args:
        folder: As typed. None takes $JUZHEN_DATA, or data.
        may_lack: Accept a missing folder, because it is going to be made.

    Returns:
        The folder.

    Raises:
        UserError: The folder does not exist, or JUZHEN_DATA names a file.
    """
    if folder is not None and not may_lack and not folder.expanduser().is_dir():
        raise UserError(f"--data-dir {folder}: no such folder. Give the folder of the data sets")
    if folder is None and Path(place := os.environ.get("JUZHEN_DATA", "")).is_file():
        raise UserError(
            f"JUZHEN_DATA={place}: a file. Set it to the folder of the data sets, or type --data-dir"
        )
    return folder or Path(os.environ.get("JUZHEN_DATA") or "data")


def require_matplotlib(otherwise: str = "") -> None:
    """Check that matplotlib is installed, before scores are computed.

    Args:
        otherwise: End of the message, with an alternative.
    """
    require_packages("the picture", "matplotlib", extra="analysis", otherwise=otherwise)
