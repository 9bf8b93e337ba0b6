"""The pages of the reference: the API of the library, the command line, and the form of result.json.

The API is names for mkdocstrings, which reads the docstrings. Verbs stand as their commands describe them.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

import juzhen.losses
from juzhen.cli.options import described_args
from juzhen.cli.verbs import GROUPS, commands
from juzhen.core.paths import PACKAGE, ROOT
from juzhen.core.result import FORMAT_VERSION, Result, ResultForm, Score
from juzhen.core.schema import Number, Text, Whole
from tools.docs.markup import code, plain, table

PAGES: Mapping[str, tuple[str, str]] = {
    "encoders": (
        "Encoders",
        "juzhen.SentenceEncoder juzhen.CrossEncoder juzhen.MultiVectorEncoder juzhen.SparseEncoder "
        "juzhen.GenerativeReranker juzhen.PromptEncoder juzhen.QueryDocumentEncoder juzhen.AdapterConfig "
        "juzhen.quantize juzhen.encoders.load_encoder juzhen.encoders.save_encoder juzhen.encoders.load_backbone "
        "juzhen.encoders.compile_layers juzhen.encoders.search.Hit juzhen.encoders.backbone_config.BackboneConfig "
        "juzhen.encoders.embedding_cache.EmbeddingCache juzhen.encoders.pooling juzhen.backends.open_backend",
    ),
    "training": ("Training from Python", "juzhen.fit juzhen.data.rows"),
    "evaluation": (
        "Evaluation",
        "juzhen.evaluate juzhen.evaluation.Evaluation juzhen.analyze_embeddings juzhen.evaluation.scoring "
        "juzhen.evaluation.two_stage juzhen.evaluation.settings",
    ),
    "metrics": ("Metrics", "juzhen.metrics"),
    "data": (
        "Data",
        "juzhen.load_ranking juzhen.read_search juzhen.core.examples juzhen.data.loading juzhen.data.rankings "
        "juzhen.data.readers juzhen.data.sampler juzhen.data.convert juzhen.data.spec",
    ),
    "mining": (
        "Mining and distillation",
        "juzhen.mine juzhen.MiningOptions juzhen.mine_paraphrases juzhen.detect_communities juzhen.cluster "
        "juzhen.distillation.graded_sets juzhen.distillation.student",
    ),
    "merging": ("Merging", "juzhen.merge juzhen.merging.methods juzhen.merging.runs"),
    "indexes": (
        "Indexes on disk",
        "juzhen.index.Index juzhen.index.IndexHit juzhen.index.Rows juzhen.index.read_rows juzhen.index.build "
        "juzhen.index.add juzhen.index.remove juzhen.index.index_in_memory juzhen.index.PassageSettings "
        "juzhen.index.Encoding",
    ),
    "export": (
        "Export",
        "juzhen.export.export_encoder juzhen.export.open_export juzhen.export.prove juzhen.export.ExportReport "
        "juzhen.export.compare_backends",
    ),
    "serving": ("Serving", "juzhen.serving.models juzhen.serving.settings juzhen.serving.server.run"),
    "results": (
        "Results and errors",
        "juzhen.core.result juzhen.core.errors juzhen.calibration.calibration juzhen.calibration.pair_scorer",
    ),
}
"""Page → title and members: exported names, or paths of classes, functions and modules. A package is its modules."""

CALLED = (
    *(
        "load",
        "from_pretrained",
        "encode",
        "encode_query",
        "encode_document",
        "similarity",
        "score",
        "predict",
        "is_same",
        "search",
        "rank",
    ),
    *("save", "save_pretrained", "push_to_hub", "with_prompt", "threshold", "set", "tokenize", "collate"),
)
"""Members of encoders that come first, as they are called; others follow in the order of the source."""

HEAD = "---\nsearch: {{boost: {boost}}}\n---\n# {title}\n"


def api_pages() -> Iterator[tuple[str, str]]:
    """Path and text of each page."""
    yield "api/losses.md", _losses()
    for name, (title, members) in PAGES.items():
        listed = [each for member in members.split() for each in modules_of(member)]
        imports = _imports(member for member in listed if not is_module(member))
        imported = "\n".join(["", "```python", *imports, "```", ""]) if imports else ""
        boost = 1 if name in ("encoders", "training") else 0.3
        yield (
            f"api/{name}.md",
            HEAD.format(title=title, boost=boost) + imported + "".join(map(_entry, listed)),
        )


def _file_of(name: str) -> Path:
    return PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")


def is_module(name: str) -> bool:
    return _file_of(name).is_file()


def modules_of(name: str) -> list[str]:
    """The modules of a package; anything else by itself."""
    paths = sorted(_file_of(name).with_suffix("").glob("[a-z]*.py"))
    return [f"{name}.{path.stem}" for path in paths] or [name]


def _value_of(name: str) -> Any:
    home, _, last = name.rpartition(".")
    return getattr(import_module(home), last)


def _imports(names: Iterable[str]) -> list[str]:
    """The lines that import classes and functions, each from the outermost package that offers it."""
    offered: dict[str, list[str]] = {}
    for name in names:
        *module, last = name.split(".")
        homes = (".".join(module[:depth]) for depth in range(1, len(module) + 1))
        home = next(
            (package for package in homes if last in getattr(import_module(package), "__all__", ())),
            ".".join(module),
        )
        offered.setdefault(home, []).append(last)
    return [f"from {home} import {', '.join(members)}" for home, members in offered.items()]


def _entry(name: str) -> str:
    """A class or a function with its members; of a module its docstring and all that is public in it."""
    if not is_module(name):  # where it is defined
        value = _value_of(name)
        name = f"{value.__module__}.{value.__qualname__}"
    members = _members(name)
    options = f"    options:\n      members: [{', '.join(members)}]\n" if members else ""
    return f"\n::: {name}\n{options}"


def _members(name: str) -> list[str]:
    """What people call, before constants and what the inside needs; nothing where the source's order will do."""
    if is_module(name):
        body = ast.parse(Path(import_module(name).__file__ or "").read_text(encoding="utf-8")).body
        defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        values = [
            target.id
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        values += [
            node.target.id
            for node in body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]
        return [member for member in dict.fromkeys([*defined, *values]) if not member.startswith("_")]
    value = _value_of(name)
    if not (inspect.isclass(value) and hasattr(value, "load")):
        return []
    owners = [owner for owner in value.__mro__ if owner.__module__.startswith("juzhen.")]
    members = dict.fromkeys(
        member for owner in owners for member in vars(owner) if not member.startswith("_")
    )
    return [
        *(member for member in CALLED if member in members),
        *(member for member in members if member not in CALLED),
    ]


def _losses() -> str:
    """Modules of losses, one after another; what they share comes last."""
    homes = juzhen.losses._HOMES
    modules = sorted(set(homes.values()) - {"loss", "scores"})
    rows = [
        (f"[{code(name)}][juzhen.losses.{home}.{name}]", code(f"juzhen.losses.{home}"))
        for name, home in homes.items()
    ]
    listed = "".join(_entry(f"juzhen.losses.{module}") for module in [*modules, "loss", "scores"])
    head = HEAD.format(title="Loss classes and functions", boost=0.3)
    return f"{head}\nAll are imported from `juzhen.losses`.\n\n{table(('name', 'module'), rows)}{listed}"


COMMANDS_HEAD = """\
---
search: {boost: 0.4}
---
# Command line

`juzhen VERB --help` prints what stands here. `python -m juzhen VERB` is the same in a clone.
"""


def commands_page() -> str:
    parts = [COMMANDS_HEAD]
    for group, verbs in GROUPS.items():
        parts.append(f"## {group[0].upper()}{group[1:]}\n")
        for name, about in verbs.items():
            parts += [f"### juzhen {name}\n", f"**{about[0].upper()}{about[1:]}.**\n"]
            for path, command in commands(name).items():
                parts += ([] if path == name else [f"#### juzhen {path}\n"]) + [*_verb(path, command)]
    command, narrow = [sys.executable, "train.py", "--help"], os.environ | {"COLUMNS": "100"}
    help_text = subprocess.check_output(command, cwd=ROOT, env=narrow, stderr=subprocess.PIPE, text=True)
    parts += ["## python train.py\n", "```text", help_text.rstrip(), "```"]
    return "\n".join(parts) + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    """Usage, description with its examples, arguments and options."""
    context = command.make_context(f"juzhen {name}", [], resilient_parsing=True)
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    for paragraph in command.help.split("\n\n"):
        example = paragraph.startswith("\b\n")
        yield f"```bash\n{paragraph[2:]}\n```\n" if example else f"{plain(' '.join(paragraph.split()))}\n"
    yield table(("argument", "values", "meaning"), [_row(param, context) for param in command.params])


def _row(param: Any, context: Any) -> tuple[str, str, str]:
    usage, meaning = param.get_help_record(context)
    name, _, values = usage.partition(" ")
    is_option = name.startswith("-")
    meaning = re.sub(r"default: \((.*?)\)", r"default: \1", meaning)
    meaning = re.sub(r"  \[(.*)\]$", r" (\1)", meaning)
    return code(name.rstrip(".")), code(values if is_option else ""), plain(meaning)


PLACES = {"scores": "split/dataset/metric", "untrained": "split/dataset/metric", "data": "split/dataset"}
"""Key → what the keys below it are spelt like, where they are not free."""

RESULT_WORDS = {
    Text: "text",
    bool: "true or false",
    Whole: "whole number",
    Number: "number",
    NoneType: "null",
}
RESULT_HEAD = f"""\
---
search: {{boost: 0.4}}
---
# result.json

Every stage of a run ends with a `result.json` in its folder: all that was measured, and what it takes to get the
same numbers again. `juzhen table` and `juzhen report` read nothing else.
[`Result.read`][juzhen.core.result.Result] reads one, files of older versions too; the format has version
{FORMAT_VERSION}. Other keys may be there as well.

```python
from pathlib import Path

from juzhen.core.result import Result

for path in sorted(Path("runs").glob("*/result.json")):
    result = Result.read(path)
    print(result.name, {{key: score.value for key, score in result.scores.items()}})
```

## Keys
"""


def result_page() -> str:
    meanings = described_args(Result.__doc__ or "") | described_args(Score.__doc__ or "")
    rows = []
    for key, type_name, required in entries(ResultForm):
        # Told are the keys of a result, and of a score in it.
        is_told = "." not in key or re.fullmatch(r"scores\.<[^>]+>\.\w+", key)
        meaning = meanings.get(key.rpartition(".")[2], "") if is_told else ""
        rows.append((code(key), type_name, "yes" if required else "", plain(meaning)))
    return f"{RESULT_HEAD}\n{table(('key', 'type', 'required', 'meaning'), rows)}"


def entries(form: type, parent: str = "", required: bool = True) -> Iterator[tuple[str, str, bool]]:
    """Dotted key, type in words, and whether it must be there, of every key at any depth."""
    kinds = get_type_hints(form, include_extras=True)
    for key in sorted(kinds, key=lambda key: key not in form.__required_keys__):
        kind = get_args(kinds[key])[0] if get_origin(kinds[key]) is NotRequired else kinds[key]
        path = f"{parent}.{key}".lstrip(".")
        must = required and key in form.__required_keys__
        yield path, words_of(kind), must
        for child, below in _inner(kind, path):
            yield from entries(child, below, must)


def words_of(kind: Any) -> str:
    if kind in RESULT_WORDS:
        return RESULT_WORDS[kind]
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(words_of, get_args(kind)))
    return f"list: {words_of(get_args(kind)[0])}" if get_origin(kind) is list else "object"


def _inner(kind: Any, parent: str) -> Iterator[tuple[type, str]]:
    """The objects that a value holds, with the parent of their keys."""
    parts = get_args(kind)
    if is_typeddict(kind):
        yield kind, parent
    elif get_origin(kind) is dict:
        name = PLACES.get(re.split(r"\W", parent)[-1], "name")
        yield from _inner(parts[1], f"{parent}.<{name}>")
    elif get_origin(kind) in (Union, UnionType):
        for option in parts:
            yield from _inner(option, parent)
    elif get_origin(kind) is list:
        yield from _inner(parts[0], f"{parent}[]")
