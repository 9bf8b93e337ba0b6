"""What `juzhen` can do: every verb in its group, with one line of help. Its file is loaded when it is asked for."""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from juzhen.cli.options import flat_options
from juzhen.core.aliases import RENAMED_VERBS, verb_meant
from juzhen.core.errors import UserError, nearest
from juzhen.core.lazy_names import is_there
from juzhen.core.paths import ROOT
from juzhen.core.process import caches_below, default_cache
from juzhen.core.text_warnings import collected

GROUPS = {
    "use a model": {
        "score": "similarity of sentence pairs, typed or in a file",
        "encode": "embeddings of the lines of a file, as a NumPy array",
        "evaluate": "score finished runs on sets that are new or whose files came later",
        "memory": "what a training step will take, before anything is loaded, and what makes it smaller",
        "serve": "embeddings, similarity, search and reranking over HTTP, for OpenAI's and Cohere's clients",
        "index": "texts and their vectors on disk: build, add, remove, search",
        "export": "write an encoder for another program (ONNX, OpenVINO, …), with a proof of the same vectors",
        "verify": "one encoder by every way that computes it: what differs, and why",
        "push": "upload an encoder or an export to the Hugging Face hub, or list what would be",
    },
    "look at data": {
        "dataset": "make a data set of a table: csv, tsv, jsonl, parquet, xlsx",
        "advise": "which data to train on for a target: sources, order and rows, with intervals",
        "leaks": "evaluation rows that also stand in training sets or running text",
    },
    "study a model": {
        "characters": "what an encoder makes of characters: unknown ones, both scripts, full-width signs, case",
        "calibrate": "scores of a run as probabilities: temperature and Platt scaling, ECE, reliability",
        "fuse": "two runs as one score, weighted by what does best on dev",
        "space": "maps of the embeddings, before and after training: spread, neighbours, classes",
        "mteb": "score a run by the package mteb: its Chinese sets from local files, others from the hub",
        "transfer": "classify pairs or texts by a logistic regression on frozen embeddings",
    },
    "make data and models": {
        "distill": "score the pairs of a set with a teacher, as graded labels for a bi-encoder",
        "mine": "find hard negatives for the pairs of a set, and say why others were refused",
        "merge": "make one model of several, with a row beside them",
        "shrink": "make a smaller encoder out of a larger one, for distillation",
    },
    "compare runs": {
        "table": "transfer matrix on the console: row trained on, column evaluated on",
        "compare": "two runs or more on the same rows: differences, pairs that flipped; or published numbers",
        "gate": "accept or reject a run by its change against a base, for CI",
        "report": "matrix, published numbers, leaks, costs and answers, as files",
        "archive": "copy the results alone, without weights, logs and folders of this machine",
        "status": "runs of sweeps: finished, running, failed, and the time left",
        "published": "which row of a sweep gives which published number",
        "dashboards": "the report and its panels on Weights & Biases",
    },
}
VERBS = {name: about for group in GROUPS.values() for name, about in group.items()}
SUITE = {
    "evaluate": "launch.evaluate",
    "memory": "launch.memory",
    **dict.fromkeys(("status", "published", "dashboards"), "sweeps.verbs"),
}
"""Verbs of the suite, which is run from its clone and is no part of the installed library → their modules."""
RUNS = ("table", "report", "archive")
"""Verbs that juzhen/cli/runs.py holds; every other one has a file of its name."""

METAVARS = {int: "N", float: "NUMBER", str: "NAME", Path: "FILE"}
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


def find_suite() -> bool:
    """Makes the packages of the clone importable; false where the library is installed without one."""
    if not (ROOT / "train.py").is_file():
        return False
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return True


def known_verbs() -> list[str]:
    return [name for name in VERBS if (name not in SUITE or find_suite()) and is_there(module_of(name))]


def module_of(name: str) -> str:
    return SUITE.get(name, "juzhen.cli.runs" if name in RUNS else f"juzhen.cli.{name}")


class Verb(TyperCommand):
    """The command line of one verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        arguments = self._one_value_each(args)
        values, _, _ = self.make_parser(ctx).parse_args(list(arguments))
        param: Any
        for param in self.get_params(ctx):
            value = values.get(param.name)
            if isinstance(value, str) and not value.strip() and param.type_descriptor.is_path:
                raise UserError(
                    f"{max(param.opts)}: expected a file or a folder, not an empty text; . is where you are"
                )
        return super().parse_args(ctx, arguments)

    def _one_value_each(self, args: list[str]) -> list[str]:
        """`--sets a b` as `--sets a --sets b`, which is what typer reads."""
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


class Verbs(TyperGroup):
    """`juzhen` itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        return known_verbs()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
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
                        if name in SUITE or is_there(module_of(name))
                    ]
                )


def current_name(name: str) -> str:
    """The name of a verb today, also for one that was renamed, which is noted on stderr."""
    if name not in RENAMED_VERBS:
        return name
    new = RENAMED_VERBS[name]
    print(
        f"note: juzhen {name} is juzhen {new} since 0.3. Type that; the old name goes in 0.4", file=sys.stderr
    )
    return new


def verb(name: str) -> Any:
    """The command line of a verb. Raises UserError for a word that is none, and for a verb of the suite without it."""
    if name not in VERBS or not (name in SUITE or is_there(module_of(name))):
        meant = verb_meant(name)
        hint = f"type {meant}" if meant else nearest(name, VERBS)
        listed = "" if meant or hint.startswith("known") else f" Known: {', '.join(VERBS)}"
        raise UserError(f"{name}: there is no such command; {hint}{listed}; see juzhen --help")
    if not find_suite() and name in SUITE:
        raise UserError(
            f"juzhen {name} is of the suite, which is not installed with the library: clone juzhen, and type "
            "pip install -e . there"
        )
    module = module_of(name)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    loaded = importlib.import_module(module)
    parts = getattr(loaded, "COMMANDS", None)
    if parts is not None:
        app.callback(help=inspect.getdoc(loaded), context_settings=HELP)(_nothing)
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


def _nothing() -> None:
    """A verb with commands of its own does nothing but them."""


def _parts(command: Any) -> dict[str, Any]:
    return dict(command.commands) if isinstance(command, TyperGroup) else {"": command}


def commands(name: str) -> dict[str, Any]:
    """The commands of a verb as they are typed: one, or those that its file lists."""
    return {f"{name} {part}".strip(): command for part, command in _parts(verb(name)).items()}


def flags(name: str) -> list[str]:
    """The options of a verb."""
    params = [param for command in commands(name).values() for param in command.params]
    return [flag for param in params for flag in param.opts if flag.startswith("--")]


app = typer.Typer(cls=Verbs, rich_markup_mode=None, context_settings=HELP)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from juzhen.cli.about import version_line

        print(version_line())
        raise typer.Exit


@app.callback(
    epilog="juzhen VERB --help shows the options of a verb. To train: juzhen.fit, from Python, or the suite in a clone "
    "of the project."
)
def juzhen(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="of juzhen, torch and Python"),
    ] = False,
) -> None:
    """Sentence embeddings: use, study and compare encoders and their runs."""
