"""What `juzhen` can do: every verb in its group, with one line of help. Its file is loaded when it is asked for."""

import importlib
import sys
from types import ModuleType

from juzhen.cli.arguments import VerbParser, nearest_of
from juzhen.core.errors import UserError
from juzhen.core.places import ROOT

GROUPS = {
    "use a model": {
        "models": "encoders to start from: facts, published scores, speed; which one suits a use",
        "score": "similarity of sentence pairs, typed or in a file",
        "encode": "embeddings of the lines of a file, as a NumPy array",
        "evaluate": "fill finished runs in: columns whose files came later, sets that were added",
        "export": "write an encoder as one ONNX file, proven to compute the same",
    },
    "look at data": {
        "leaks": "evaluation rows that training sets or running text give away",
    },
    "study a model": {
        "calibrate": "scores of a run as probabilities: temperature and Platt scaling, ECE, reliability",
        "fuse": "two runs as one score, weighted by what does best on dev",
        "curves": "learning curves of runs side by side, as a picture and a table",
        "space": "where embeddings lie: lengths, spread, directions, neighbours, classes",
        "transfer": "classify pairs or texts by a logistic regression on frozen embeddings",
    },
    "make data and models": {
        "distil": "score the pairs of a set with a teacher, as graded labels for a bi-encoder",
        "mine": "find hard negatives for the pairs of a set, and say why others were refused",
        "student": "make a smaller encoder out of a larger one, to be taught by it",
    },
    "compare runs": {
        "table": "transfer matrix on the console: row trained on, column evaluated on",
        "compare": "published numbers beside ours: matches, differs, no reference",
        "report": "matrix, published numbers, leaks, costs and answers, as files",
        "archive": "copy the results alone, without weights, logs and folders of this machine",
        "status": "cells of sweeps that are finished, running, failed, and the time left",
        "published": "which row of a sweep gives which published number",
        "dashboards": "the report and its panels on Weights & Biases",
    },
    "tools": {
        "completion": "script that completes verbs and options in bash or zsh",
    },
}
SUITE = {
    "evaluate": "launch.evaluate",
    **{name: f"sweeps.verbs.{name}" for name in ("status", "published", "dashboards")},
}
"""Verbs of the suite, which is run from its clone and is no part of the installed library → their modules."""

VERBS = {name: about for group in GROUPS.values() for name, about in group.items()}


def find_suite() -> bool:
    """Makes the packages of the clone importable; false where the library is installed without one."""
    if not (ROOT / "train.py").is_file():
        return False
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return True


def load_verb(name: str) -> ModuleType:
    """The file of a verb. Raises UserError for a word that is none, and for a verb of the suite outside of a clone."""
    if name not in VERBS:
        raise UserError(f"{name}: there is no such command; {nearest_of(name, VERBS)}; see juzhen --help")
    if not find_suite() and name in SUITE:
        raise UserError(
            f"juzhen {name} is of the suite, which is not installed with the library: clone juzhen, and type "
            "pip install -e . there"
        )
    return importlib.import_module(SUITE.get(name, f"juzhen.cli.{name}"))


def parser_of(name: str) -> VerbParser:
    """The parser of a verb, which knows which verbs of its group have the options that it lacks itself."""
    parser: VerbParser = load_verb(name).parser()
    (group,) = [group for group in GROUPS.values() if name in group]
    others = [one for one in group if one != name and (find_suite() or one not in SUITE)]
    parser.owners = lambda flag: [one for one in others if flag in load_verb(one).parser().flags()]
    return parser


def overview() -> str:
    width = max(map(len, VERBS))
    lines = [
        "usage: juzhen VERB …",
        "",
        "Sentence embeddings: use, study and compare encoders and their runs.",
        "",
    ]
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:{width}}  {about}" for name, about in group.items()), ""]
    lines += [
        "juzhen VERB --help shows the options of a verb, juzhen --version the version.",
        "To train: juzhen.fit, from Python, or the suite in a clone of the project.",
    ]
    return "\n".join(lines)
