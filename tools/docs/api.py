"""The pages of the library's API: names for mkdocstrings, which reads the docstrings."""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import juzhen.losses
from juzhen.core.paths import PACKAGE
from tools.docs.markup import code, table

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


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of each page."""
    yield "api/losses.md", _losses()
    for name, (title, members) in PAGES.items():
        listed = [each for member in members.split() for each in _modules_of(member)]
        imports = _imports(member for member in listed if not _is_module(member))
        imported = "\n".join(["", "```python", *imports, "```", ""]) if imports else ""
        boost = 1 if name in ("encoders", "training") else 0.3
        yield (
            f"api/{name}.md",
            HEAD.format(title=title, boost=boost) + imported + "".join(map(_entry, listed)),
        )


def _file_of(name: str) -> Path:
    return PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")


def _is_module(name: str) -> bool:
    return _file_of(name).is_file()


def _modules_of(name: str) -> list[str]:
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
    if not _is_module(name):  # where it is defined
        value = _value_of(name)
        name = f"{value.__module__}.{value.__qualname__}"
    members = _members(name)
    options = f"    options:\n      members: [{', '.join(members)}]\n" if members else ""
    return f"\n::: {name}\n{options}"


def _members(name: str) -> list[str]:
    """What people call, before constants and what the inside needs; nothing where the source's order will do."""
    if _is_module(name):
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
