"""The pages of the library's API: names for mkdocstrings, which reads the docstrings."""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import juzhen.losses
from juzhen.core.paths import PACKAGE
from tools.docs.markup import code, table

PACKAGES: Mapping[str, tuple[str, str]] = {
    "encoders": (
        "Encoders",
        "encoders.sentence_encoder.SentenceEncoder encoders.cross_encoder.CrossEncoder "
        "encoders.pair_encoder.PairEncoder families.answers.encoder.GenerativeReranker "
        "encoders.sentence_encoder.PromptEncoder encoders.search.Hit encoders.sentence_encoder.load_encoder "
        "encoders.save.save_encoder encoders.sentence_encoder.load_backbone encoders.backbone.compile_layers "
        "encoders.embedding_cache.EmbeddingCache encoders.pooling encoders.backbone_config.BackboneConfig "
        "backends.torch_backend.open_backend",
    ),
    "training": ("Training from Python", "training.fit.fit data.rows"),
    "evaluation": (
        "Evaluation",
        "evaluation.run.evaluate evaluation.scoring.Evaluation evaluation.scoring.score_set "
        "evaluation.scoring.score_together evaluation.scoring.score_unseen evaluation.two_stage evaluation.settings",
    ),
    "metrics": ("Metrics", ""),
    "data": (
        "Data",
        "core.examples data.loading.load_ranking data.loading.load_examples data.rankings "
        "data.readers data.sampler data.convert data.spec",
    ),
    "mining": (
        "Mining and distillation",
        "mining.groups mining.negatives mining.options distillation.graded_sets distillation.student",
    ),
    "merging": ("Merging", "merging.merge merging.methods merging.runs"),
    "results": (
        "Results and errors",
        "core.result core.errors calibration.calibration calibration.calibration",
    ),
}
"""Page → title, and what stands on it: classes, functions, modules below `juzhen`; none: the package of its name."""

CALLED = (
    *(
        "load",
        "encode",
        "encode_query",
        "encode_document",
        "similarity",
        "score",
        "is_same",
        "search",
        "rank",
    ),
    *("save", "push_to_hub", "with_prompt", "threshold", "set", "tokenize", "collate"),
)
"""Members of encoders that come first, as they are called; others follow in the order of the source."""

HEAD = "---\nsearch: {{boost: {boost}}}\n---\n# {title}\n"


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of each page."""
    yield "api/losses.md", _losses()
    for name, (title, members) in PACKAGES.items():
        listed = members.split() or [
            f"{name}.{path.stem}" for path in sorted((PACKAGE / name).glob("[a-z]*.py"))
        ]
        is_module = {
            member: PACKAGE.joinpath(*member.split(".")).with_suffix(".py").is_file() for member in listed
        }
        imports = _imports(member for member in listed if not is_module[member])
        imported = "\n".join(["", "```python", *imports, "```", ""]) if imports else ""
        yield (
            f"api/{name}.md",
            HEAD.format(title=title, boost=1 if name in ("encoders", "training") else 0.3)
            + imported
            + "".join(map(_entry, listed)),
        )


def _imports(names: Iterable[str]) -> list[str]:
    """The lines that import classes and functions, each from the outermost package that offers it."""
    offered: dict[str, list[str]] = {}
    for name in names:
        *module, last = f"juzhen.{name}".split(".")
        homes = (".".join(module[:depth]) for depth in range(1, len(module)))
        home = next(
            (package for package in homes if last in getattr(import_module(package), "__all__", ())),
            ".".join(module),
        )
        offered.setdefault(home, []).append(last)
    return [f"from {home} import {', '.join(members)}" for home, members in offered.items()]


def _entry(name: str) -> str:
    """A class or a function with its members; of a module its docstring and all that is public in it."""
    members = _members(f"juzhen.{name}")
    options = f"    options:\n      members: [{', '.join(members)}]\n" if members else ""
    return f"\n::: juzhen.{name}\n{options}"


def _members(name: str) -> list[str]:
    """What people call, before constants and what the inside needs; nothing where the source's order will do."""
    home, _, last = name.rpartition(".")
    if PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py").is_file():
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
    value = getattr(import_module(home), last)
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
    listed = "".join(_entry(f"losses.{module}") for module in [*modules, "loss", "scores"])
    head = HEAD.format(title="Loss classes and functions", boost=0.3)
    return f"{head}\nAll are imported from `juzhen.losses`.\n\n{table(('name', 'module'), rows)}{listed}"
