"""All pages of the site that programs write, and their places in the navigation.

The API is names for mkdocstrings, which reads the docstrings. Verbs stand as their commands describe them. The pages of
results/ are copies with other links.
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

import juzhen.losses
from benchmarks import report
from juzhen.cli.options import described_args
from juzhen.cli.verbs import GROUPS, commands
from juzhen.core.atomic_write import atomic_write, remove_file
from juzhen.core.paths import BUILTIN, PACKAGE, ROOT
from juzhen.core.result import FORMAT_VERSION, Result, ResultForm, Score
from juzhen.core.schema import Number, Text, Whole
from tools.docs import keys
from tools.docs.keys import code, plain, table

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
    "load", "from_pretrained", "encode", "encode_query", "encode_document", "similarity", "score", "predict",
    "is_same", "search", "rank", "save", "save_pretrained", "push_to_hub", "with_prompt", "threshold", "set",
    "tokenize", "collate",
)  # fmt: skip
"""Members of encoders that come first, as they are called; others follow in the order of the source."""

OF_REFERENCE = "---\nsearch: {{boost: {boost}}}\n---\n# {title}\n"


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
            OF_REFERENCE.format(title=title, boost=boost) + imported + "".join(map(_entry, listed)),
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
    head = OF_REFERENCE.format(title="Loss classes and functions", boost=0.3)
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


RESULTS = ROOT / "results"
RENAMED = {"README.md": "index.md"}
"""The page of a folder is its index."""

COPIED = (".svg", ".csv")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)\)")
BENCH = """\
# Speed and memory

Measured by `make bench`: juzhen and sentence-transformers in turns in one run, with equal work. S is a BERT of 4 × 256,
M of 6 × 384, B of 12 × 768."""
HEAD = "---\nsearch: {boost: 0.4}\n---\n"
ABOUT = {
    "transfer": (
        "Transfer matrix",
        "which training set helps which evaluation set, compared with published numbers",
    ),
    "decide": ("What decides", "how far small trainings and nearness choose between training sets"),
    "losses": ("Losses", "what each loss gains on one small budget, and which go wrong"),
    "retrieval": ("Retrieval", "which way of mining hard negatives helps, and what it costs"),
    "cross_encoder": ("Cross-encoders", "cross entropy and CoSENT on the same pairs"),
    "cot": ("Two-stage encoders", "compared with their baselines"),
    "distill": ("The built-in encoder", "how it was distilled, what it scores, whether its text is clean"),
    "characters": ("Scripts and characters", "what three encoders make of both scripts"),
    "encoders": ("Kinds of encoders", "whole, LoRA, a small decoder, ColBERT and SPLADE on the same pairs"),
    "merging": ("Serial, mixed, merged", "curricula, a mixture and merged models at equal cost"),
    "leaks": ("Leaks found", "evaluation rows that training sets and running text give away"),
    "growth": ("Cost of growth", "time and memory from thousands of rows to millions"),
    "bench": ("Speed measured", "training, encoding and memory compared with sentence-transformers"),
}
"""Folder of results → its title, and what it answers, in the order of the site; folders that are not here follow."""


def result_pages() -> Iterator[tuple[str, str | Path]]:
    """Path below results/ of each page with its text, and of each file that is copied with where it lies."""
    yield "index.md", _index()
    for folder in folders():
        files = sorted((RESULTS / folder).rglob("*"))
        for path in files:
            target = path.parent.relative_to(RESULTS) / RENAMED.get(path.name, path.name)
            if path.suffix == ".md":
                yield target.as_posix(), HEAD + relinked(path)
            elif path.suffix in COPIED:
                yield target.as_posix(), path
        if not (RESULTS / folder / "README.md").is_file():
            listed = [f"- [{_heading(path)}]({path.name})\n" for path in files if path.suffix == ".md"]
            text = MADE[folder](files) if folder in MADE else f"# {title(folder)}\n\n{''.join(listed)}"
            yield f"{folder}/index.md", HEAD + text


def folders() -> list[str]:
    names = [path.name for path in sorted(RESULTS.iterdir()) if path.is_dir()]
    return [name for name in ABOUT if name in names] + [name for name in names if name not in ABOUT]


def title(folder: str) -> str:
    return ABOUT[folder][0] if folder in ABOUT else folder.replace("_", " ").capitalize()


def relinked(path: Path) -> str:
    """A page's text; a link to what is not part of the site becomes its words."""

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        if re.match(r"\w+:", target):
            return match[0]
        beside = path.parent / target
        is_shown = beside.suffix in (*COPIED, ".md") and RESULTS in beside.resolve().parents
        if not beside.is_file() or not is_shown:
            return f"`{label.strip('`')}`"
        return f"{picture}[{label}]({target.replace(beside.name, RENAMED.get(beside.name, beside.name))})"

    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return LINK.sub(link, text)


def _index() -> str:
    entries = [
        f"- [{title(folder)}]({folder}/index.md): {ABOUT.get(folder, ('', 'measured here'))[1]}"
        for folder in folders()
    ]
    about = (
        "Every number of these pages was measured. `python -m tools.results unpack` writes the runs behind them to "
        "`build/results`."
    )
    return f"{HEAD}# Results\n\n{about}\n\n" + "\n".join(entries) + "\n"


def _bench(files: list[Path]) -> str:
    results = [report.read(path) for path in files if path.suffix == ".json"]
    svgs = [path for path in files if path.suffix == ".svg"]
    pictures = [f"![{path.stem}: juzhen and sentence-transformers]({path.name})" for path in svgs]
    return "\n\n".join([BENCH, report.tables(results, "en"), *pictures]) + "\n"


def _distill(files: list[Path]) -> str:
    targets = {file: f"({file.parent.name}/{file.name})" for file in files}
    svgs = [file for file in files if file.suffix == ".svg"]
    pictures = [f"![Curves of the run that distilled {file.parent.name}]{targets[file]}" for file in svgs]
    audits = [f"- [{_heading(file)}]{targets[file]}" for file in files if file.suffix == ".md"]
    cards = [relinked(folder / "README.md") for folder in sorted(BUILTIN.glob("mini_zh@*"), reverse=True)]
    return "\n\n".join([*cards, *pictures, "\n".join(audits)]) + "\n"


def _heading(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


MADE = {"bench": _bench, "distill": _distill}
"""Folder without a page of its own → what makes one; of others the page lists what they hold."""


DOCS = ROOT / "docs"
CHANGELOG = ROOT / "CHANGELOG.md"
REFERENCE = {
    "Configuration keys": "reference/keys.md",
    "Configuration groups": "reference/groups.md",
    "Command line": "reference/commands.md",
    "Losses and models": "losses.md",
    "result.json": "reference/result.md",
    "Published numbers": "published.md",
    "Changelog": "reference/changelog.md",
}
API = "Python API"


@cache  # each language is built by itself
def pages() -> dict[str, str | Path]:
    """Path below docs/ of each page → its text, or the file that it is a copy of."""
    written: dict[str, str | Path] = {
        "index.md": _overview(),
        "keys.md": keys.keys_page(),
        "names.js": _names(),
        "groups.md": keys.groups_page(),
        "commands.md": commands_page(),
        "result.md": result_page(),
        "changelog.md": "---\nsearch: {boost: 0.3}\n---\n" + CHANGELOG.read_text(encoding="utf-8"),
        **dict(api_pages()),
    }
    return {f"reference/{path}": text for path, text in written.items()} | {
        f"results/{path}": text for path, text in result_pages()
    }


def navigation(written: dict[str, str | Path]) -> dict[str, list[Any]]:
    """Section → its links, as mkdocs.yml writes them."""
    library = [path for path in written if path.startswith("reference/api/")]
    results = [path for path in written if path.startswith("results/") and path.endswith(".md")]
    sections: list[Any] = ["results/index.md"]
    for folder in folders():
        below = [path for path in results if path.startswith(f"results/{folder}/")]
        below.sort(key=lambda path: not path.endswith(f"{folder}/index.md"))
        sections.append({title(folder): below})
    return {
        "Reference": [
            "reference/index.md",
            *({name: path} for name, path in REFERENCE.items()),
            {API: library},
        ],
        "Results": sections,
    }


def write(written: dict[str, str | Path]) -> None:
    """Puts the pages below docs/ and takes away those that are gone; a file that is as it was is not touched."""
    for folder in ("reference", "results"):
        for path in (DOCS / folder).rglob("*"):
            if path.is_file() and path.relative_to(DOCS).as_posix() not in written:
                remove_file(path)
    for name, text in written.items():
        path = DOCS / name
        content = text.read_bytes() if isinstance(text, Path) else text.encode("utf-8")
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, "wb") as file:
                file.write(content)


def _names() -> str:
    """Names that the search takes for themselves alone: keys of the configuration, and functions of encoders."""
    headings = re.findall(r"^### `(.*?)`", keys.keys_page(), flags=re.MULTILINE)
    return f"const NAMES = new Set({json.dumps(sorted({*keys.bare_keys(headings), *CALLED}))});\n"


def _overview() -> str:
    about = (
        "Written from the code when the site is built: keys, defaults, options, docstrings of this version."
    )
    paths = {name: path if "/" not in path else path.partition("/")[2] for name, path in REFERENCE.items()}
    links = [f"- [{name}]({'../' if path == REFERENCE[name] else ''}{path})" for name, path in paths.items()]
    links += [f"- [{API}: {title.lower()}](api/{name}.md)" for name, (title, _) in PAGES.items()]
    return (
        "# Reference\n\n" + about + "\n\n" + "\n".join([*links, f"- [{API}: losses](api/losses.md)"]) + "\n"
    )
