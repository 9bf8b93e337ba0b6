"""The verbs of `juzhen` by group, each with one line of help. A verb's file is loaded when it is needed."""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from juzhen.cli.options import flat_options
from juzhen.core.aliases import RENAMED_VERBS, note_once, verb_meant
from juzhen.core.errors import UserError, nearest
from juzhen.core.lazy_names import is_there
from juzhen.core.machine import caches_below, default_cache
from juzhen.core.paths import ROOT
from juzhen.core.text_warnings import collected

GROUPS = {
    "use a model": {
        "score": "score sentence pairs, typed or in a file",
        "encode": "write the embeddings of the lines of a file as a NumPy array",
        "evaluate": "score finished runs on further sets",
        "memory": "estimate the memory of a training step, and show what reduces it",
        "serve": "serve embeddings, similarity, search and reranking over HTTP, for clients of OpenAI and Cohere",
        "index": "store texts and vectors on disk: build, add, remove, search",
        "export": "write an encoder for another program (ONNX, OpenVINO, …), and verify its vectors",
        "verify": "compare the backends of one encoder: what differs, and why",
        "push": "upload an encoder or an export to the Hugging Face hub, or list its files",
    },
    "look at data": {
        "dataset": "make a data set from a table: csv, tsv, jsonl, parquet, xlsx",
        "advise": "choose training data for a target: sources, order and rows, with intervals",
        "leaks": "find evaluation rows in training sets or running text",
    },
    "study a model": {
        "characters": "find unknown characters of an encoder, and compare scripts, full-width signs and case",
        "calibrate": "turn scores of a run into probabilities: temperature and Platt scaling, ECE, reliability",
        "fuse": "fuse two runs into one score, with the best weight on dev",
        "space": "draw maps of embeddings, before and after training: spread, neighbours, classes",
        "mteb": "score a run with the package mteb: Chinese sets from local files, others from the hub",
        "transfer": "classify pairs or texts with a logistic regression on frozen embeddings",
    },
    "make data and models": {
        "distill": "score the pairs of a set with a teacher, as graded labels for a bi-encoder",
        "mine": "find hard negatives for the pairs of a set, with reasons for refused candidates",
        "merge": "merge several models into one, with a row next to them",
        "shrink": "make a smaller encoder from a larger one, for distillation",
    },
    "compare runs": {
        "table": "print the transfer matrix: training sets in rows, evaluation sets in columns",
        "compare": "compare runs on the same rows: differences, flipped pairs, or published numbers",
        "gate": "accept or reject a run by its change against a base, for CI",
        "report": "write matrix, published numbers, leaks, costs and findings as files",
        "archive": "copy results, without weights, logs and folders of this machine",
        "status": "list runs of sweeps: finished, running, failed, and the time left",
        "published": "list the rows of sweeps that reproduce published numbers",
        "dashboards": "put the report and its panels on Weights & Biases",
    },
}
VERBS = {name: about for group in GROUPS.values() for name, about in group.items()}
SUITE = {
    "evaluate": "launch.evaluate",
    "memory": "launch.memory",
    **dict.fromkeys(("status", "published", "dashboards"), "sweeps.verbs"),
}
"""Verb of the suite → its module. The suite runs from its clone and is not part of the installed library."""
SHARED = {
    **dict.fromkeys(("characters", "transfer"), "study"),
    **dict.fromkeys(("table", "report", "archive"), "runs"),
    "fuse": "calibrate",
    "gate": "compare",
    "shrink": "distill",
    "verify": "export",
}
"""Verb → its file of juzhen/cli, shared with other verbs. Every other verb has a file of its name."""

METAVARS = {int: "N", float: "NUMBER", str: "NAME", Path: "FILE"}
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


def _find_suite() -> bool:
    """Make the packages of the clone importable.

    Returns:
        False for a library without a clone.
    """
    if not (ROOT / "train.py").is_file():
        return False
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return True


def known_verbs() -> list[str]:
    """List the verbs whose modules are installed, with those of the suite in a clone.

    Returns:
        Names, in the order of the help.
    """
    return [name for name in VERBS if (name not in SUITE or _find_suite()) and is_there(module_of(name))]


def module_of(name: str) -> str:
    """Return the module of a verb.

    Args:
        name: A verb. An unknown one has a module that does not exist.

    Returns:
        Dotted name.
    """
    return SUITE.get(name, f"juzhen.cli.{SHARED.get(name, name)}")


def _is_part(name: str) -> bool:
    """True for a verb of the suite, and for one whose outer room is not deleted."""
    return name in SUITE or is_there(module_of(name))


class Verb(TyperCommand):
    """The command line of one verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a verb, with its own messages.

        Raises:
            UserError: An option given twice, or an empty text where a name is expected.
        """
        arguments = self._one_value_each(args)
        values, _, order = self.make_parser(ctx).parse_args(list(arguments))
        param: Any
        for number, param in enumerate(order):
            if param in order[:number] and param.param_type_name == "option" and not param.multiple:
                raise UserError(f"{max(param.opts)}: given twice. Type it once")
        for param in self.get_params(ctx):
            value, kind = values.get(param.name), param.type_descriptor.annotation
            is_option, is_path = param.param_type_name == "option", kind in (Path, list[Path])
            # A prompt may be empty. Texts and ids of an argument list are checked where they are read.
            is_name = kind in (str, tuple[str, str]) or (
                kind == list[str] and (is_option or param.metavar == "RUN")
            )
            given: Any = value if isinstance(value, list | tuple) else [value]
            if (is_path or is_name) and param.metavar not in ("TEXT", "SIGN") and "" in map(_stripped, given):
                way = "Give one, or leave the option out" if is_option else f"Expected: {param.help}"
                way = "Type . for this folder" if is_path else way
                raise UserError(
                    f"{max(param.opts)}: an empty text is not a {'path' if is_path else 'name'}. {way}"
                )
        return super().parse_args(ctx, arguments)

    def _one_value_each(self, args: list[str]) -> list[str]:
        """Write `--sets a b` as `--sets a --sets b`, which typer can read."""
        many = {flag for param in self.params for flag in param.opts if (param.metavar or "").endswith("…")}
        arguments: list[str] = []
        flag = ""
        for position, word in enumerate(args):
            if word == "--":
                return [*arguments, *args[position:]]
            if word.startswith("-"):
                flag = word if word in many else ""
            elif flag and arguments[-1] != flag:
                arguments.append(flag)
            arguments.append(word)
        return arguments

    def invoke(self, ctx: Any) -> Any:
        caches_below(ctx.params.get("cache", default_cache()))
        with collected() as seen:
            result = super().invoke(ctx)
        seen.show()
        return result


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


class Verbs(TyperGroup):
    """`juzhen` itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        return known_verbs()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a verb.

        Raises:
            UserError: An unknown verb, or one of the suite without the suite.
        """
        if ctx.resilient_parsing and cmd_name not in self.list_commands(ctx):  # for a shell that completes
            return None
        return verb(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:{max(map(len, VERBS))}}", about)
                        for name, about in group.items()
                        if _is_part(name)
                    ]
                )


def current_name(name: str) -> str:
    """Return the present name of a verb, and print a notice if it was renamed.

    Args:
        name: First word of a command line. It need not be a verb.

    Returns:
        The present name, or `name`.
    """
    if name not in RENAMED_VERBS:
        return name
    note_once(f"juzhen {name}", f"juzhen {RENAMED_VERBS[name]}")
    return RENAMED_VERBS[name]


def verb(name: str) -> Any:
    """Load the command of a verb.

    Args:
        name: A verb.

    Returns:
        The command of typer.

    Raises:
        UserError: An unknown verb, or a verb of the suite without a clone.
    """
    known = [*filter(_is_part, VERBS)]
    if name not in known:
        meant = verb_meant(name)
        hint = f"Type {meant}" if meant else nearest(name, known)
        listed = "" if meant or hint.startswith("Known") else f" Known: {', '.join(known)}"
        raise UserError(f"{name}: unknown command. {hint}{listed}. See juzhen --help")
    if not _find_suite() and name in SUITE:
        raise UserError(
            f"juzhen {name} belongs to the suite, which is not installed with the library. Clone juzhen, and type "
            "pip install -e . there"
        )
    module = module_of(name)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    loaded = importlib.import_module(module)
    parts = getattr(loaded, "COMMANDS", None)
    if parts is not None:
        app.callback(help=inspect.getdoc(loaded), context_settings=HELP)(lambda: None)
    for part, function in (parts or {name: getattr(loaded, name)}).items():
        # Behind \b the lines of an example stay as they are.
        text = (inspect.getdoc(function) or "").replace("\n\njuzhen ", "\n\n\b\njuzhen ")
        app.command(part, cls=Verb, help=text, context_settings=HELP)(flat_options(function))
    command: Any = get_command(app)
    for each in _parts(command).values():
        for param in each.params:
            if param.param_type_name == "option" and param.metavar is None:
                param.metavar = METAVARS.get(param.type_descriptor.annotation)
    return command


def _parts(command: Any) -> dict[str, Any]:
    return dict(command.commands) if isinstance(command, TyperGroup) else {"": command}


def commands(name: str) -> dict[str, Any]:
    """Return the commands of a verb.

    Args:
        name: A verb.

    Returns:
        Words on the command line → command: one, or the subcommands.

    Raises:
        UserError: An unknown verb.
    """
    return {f"{name} {part}".strip(): command for part, command in _parts(verb(name)).items()}


def flags(name: str, part: str = "") -> list[str]:
    """Return the options of a verb.

    Args:
        name: A verb.
        part: Its subcommand, such as "index search". "", or another text: the options of all subcommands.

    Returns:
        Options with their dashes, short forms left out.
    """
    known = commands(name)
    chosen = [known[part]] if part in known else known.values()
    params = [param for command in chosen for param in command.params]
    return [flag for param in params for flag in param.opts if flag.startswith("--")]


app = typer.Typer(cls=Verbs, rich_markup_mode=None, context_settings=HELP)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from juzhen.cli.program import version_line

        print(version_line())
        raise typer.Exit


@app.callback(
    epilog="juzhen VERB --help shows the options of a verb. To train: juzhen.fit from Python, or the experiments in "
    "a clone of the project."
)
def juzhen(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="show the versions of juzhen, torch and Python",
        ),
    ] = False,
) -> None:
    """Sentence embeddings: use, study and compare encoders and their runs."""
