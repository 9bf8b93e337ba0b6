"""Every page, table and picture that a program writes: python -m tools.generated

Writes stale ones again. PAGES has the command and the data of each; the code follows from the command (`reached`).
`tools/generated.json` keeps digests of page and sources, and a test compares them with the files. Of a YAML file the
values count, comments do not.
"""

import argparse
import ast
import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple

import yaml

from juzhen.cli.program import run_program
from juzhen.cli.verbs import module_of
from juzhen.core.atomic_write import atomic_write, write_text
from juzhen.core.file_guard import add_to_list
from juzhen.core.paths import ROOT
from tools.archives import ARCHIVE, unpacked

LEDGER = ROOT / "tools" / "generated.json"


class Page(NamedTuple):
    """Files, by globs below the root: what is kept of what the command writes, and the data that it makes that from.

    build/results has the runs that `python -m tools.results unpack` takes from the archives. A command is run by hand
    where it needs what is not in the repository (`by_hand`: data, hours, a terminal); such a page is of its data alone.
    """

    writes: str
    command: str
    data: str
    by_hand: bool = False


def _of_runs(runs: str, writes: str, *, chosen: str = "--split dev") -> Page:
    """A table (.md), a picture (.svg) or both (.*) of the runs of a folder; the command writes both."""
    page, _, _ = runs.partition("/")
    stem = f"results/{page}/{writes.rpartition('.')[0]}"
    command = f"juzhen table build/results/{runs} {chosen} --markdown {stem}.md --picture {stem}.svg"
    return Page(f"results/{page}/{writes}", command, f"results/{page}/{ARCHIVE}")


_LOSSES = "juzhen/losses/*.py conf/loss/*.yaml"
PICTURES = "tools.docs.loss_pictures"
_TRANSFER = "results/transfer"
PAGES = (
    Page(
        "docs/published.md",
        "juzhen published docs/published.md",
        "conf/train.yaml conf/sweep/*.yaml conf/experiment/**/*.yaml conf/dataset/*.yaml conf/benchmark/*.yaml "
        "conf/schedule/*.yaml conf/loss/*.yaml conf/model/*.yaml juzhen/report/published/**/*.csv",
    ),
    Page(
        "docs/losses.md juzhen/losses/__init__.pyi",
        "python -m tools.loss_table docs/losses.md",
        f"{_LOSSES} conf/model/*.yaml conf/callbacks/*.yaml conf/mining/*.yaml",
    ),
    Page(
        "docs/concepts/losses.md docs/concepts/losses.zh.md results/losses/README.md",
        "python -m tools.loss_scores",
        f"{_LOSSES} results/losses/{ARCHIVE}",
    ),
    Page(
        "results/merging/README.md",
        "python -m tools.merging_page",
        "results/merging/*.csv",
    ),
    Page(
        "docs/concepts/img/*.svg",
        f"python -m {PICTURES} docs/concepts/img",
        _LOSSES,
    ),
    Page(
        "docs/guides/img/space.svg",
        "python -m tools.docs.space_picture docs/guides/img/space.svg",
        "juzhen/report/page/space.svg juzhen/builtin/data/**/*",
    ),
    Page(
        "docs/terminal.svg",
        "python -m tools.terminal_picture docs/terminal.svg juzhen table runs",
        "tools/terminal_picture.py",
        by_hand=True,
    ),
    Page(
        "results/bench/training.svg docs/guides/speed.md docs/guides/speed.zh.md",
        "python -m benchmarks.report results/bench docs/guides/speed.md docs/guides/speed.zh.md",
        "results/bench/*.json benchmarks/table.yaml",
    ),
    Page(
        "results/growth/README.md results/growth/growth.svg",
        "python -m benchmarks.growth results/growth page",
        "results/growth/growth.json",
    ),
    Page(
        "docs/tutorials/matrix.svg",
        "juzhen table runs/matrix --picture docs/tutorials/matrix.svg",
        "docs/tutorials/which_data_helps.md",
        by_hand=True,
    ),
    Page(
        " ".join(
            f"docs/tutorials/{name}{ending}"
            for name in ("distill_export_serve", "faq_search", "finetune_lora", "mine_train_rerank")
            for ending in (".svg", ".zh.svg")
        )
        + " docs/speed.svg",
        "python -m tools.docs.bar_charts docs",
        "docs/tutorials/*.md results/bench/*.json",
    ),
    Page("results/leaks/*.md", "juzhen leaks --all", "results/leaks/*.json", by_hand=True),
    _of_runs("cot/runs", "scores.svg"),
    _of_runs("encoders/runs", "spearman.*", chosen="--split dev --metric spearman"),
    _of_runs("encoders/runs", "ndcg_at_10.md", chosen="--split dev --metric ndcg_at_10"),
    _of_runs("losses/runs", "scores.svg", chosen="--split dev --metric spearman"),
    _of_runs("losses/old_defaults", "old_defaults.md"),
    _of_runs("losses/variants", "variants.md"),
    _of_runs("retrieval/runs", "ndcg_at_10.*", chosen="--metric ndcg_at_10"),
    _of_runs("transfer/nli_triplets/runs", "nli_triplets/matrix.md"),
    _of_runs("transfer/e5_small/runs", "e5_small/matrix.md"),
    _of_runs("transfer/e5_small/softmax", "e5_small/softmax.md"),
    Page(
        "results/decide/README.md results/decide/scores.csv results/decide/decisions.csv results/decide/decisions.svg "
        "results/decide/confidence.csv results/decide/prior.csv",
        "python -m tools.decide_page build/results/decide/runs results/decide",
        f"results/decide/{ARCHIVE} results/decide/cheap_scores.csv results/decide/log_me.csv results/decide/head.txt "
        f"{_TRANSFER}/{ARCHIVE} {_TRANSFER}/differences.csv results/leaks/pairs.json "
        "juzhen/report/published/chinese_transfer.csv",
    ),
    Page(
        f"{_TRANSFER}/report.md {_TRANSFER}/*.csv {_TRANSFER}/matrix.svg",
        f"juzhen report build/{_TRANSFER}/runs --out {_TRANSFER}",
        f"{_TRANSFER}/{ARCHIVE} results/leaks/pairs.json juzhen/report/published/*.csv juzhen/report/page/* "
        "juzhen/report/page/vendor/*",
    ),
)


def pages_of_verbs(page: Page) -> list[Path]:
    """What a verb of juzhen has written: the list beside it says so, and the verb may be typed again."""
    globs = page.writes.split() if page.command.startswith("juzhen ") else []
    return [path for glob in globs for path in sorted(ROOT.glob(glob))]


def digests(page: Page) -> dict[str, str]:
    """Of what a page is, and of what it was made from. Raises ValueError for a glob without files."""
    code = {} if page.by_hand else reached(page.command)
    return {"writes": _digest(page.writes.split()), "inputs": _digest(page.data.split(), code)}


def stale() -> list[Page]:
    """Pages whose files, or what they are made from, are no longer as the ledger has them."""
    ledger = json.loads(LEDGER.read_text(encoding="utf-8")) if LEDGER.is_file() else {}
    return [page for page in PAGES if ledger.get(page.writes) != digests(page)]


@cache
def users_files() -> frozenset[Path]:
    """Files of conf/ that git does not know: sets of whoever works here. Outside of a checkout none are told apart."""
    arguments = ["git", "ls-files", "--others", "-z", "--", "conf"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    return frozenset(ROOT / name for name in done.stdout.split("\0") if name)


def _digest(globs: Sequence[str], code: Mapping[str, str] = MappingProxyType({})) -> str:
    digest = hashlib.sha256()
    for name in sorted(code):
        digest.update(f"{name}\0{code[name]}\0".encode())
    for glob in globs:
        paths = sorted({path for path in ROOT.glob(glob) if path.is_file()} - users_files())
        paths = [path for path in paths if "__pycache__" not in path.parts]
        if not paths:
            raise ValueError(f"{glob}: no such file")
        for path in paths:
            digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
            digest.update(_content(path) + b"\0")
    return digest.hexdigest()[:16]


def _content(path: Path) -> bytes:
    """The bytes of a file, of YAML its values."""
    content = path.read_bytes()
    if path.suffix != ".yaml":
        return content
    return json.dumps(yaml.safe_load(content), sort_keys=True, default=str).encode()


def write(page: Page) -> None:
    """Runs the command. What a verb or a program of pictures writes is written elsewhere first: it replaces no page.

    A page names the folder of unpacked runs as a reader types it.
    """
    with TemporaryDirectory() as name:
        folder, places = Path(name), {"build/results/": unpacked()}
        if page.command.startswith(("juzhen ", f"python -m {PICTURES} ")):
            for glob in page.writes.split():
                (folder / glob).parent.mkdir(parents=True, exist_ok=True)
            places |= {f"{top}/": folder / top for top in ("docs", "results")}
        run(page.command, places)
        for path in (path for glob in page.writes.split() for path in folder.glob(glob)):
            with atomic_write(ROOT / path.relative_to(folder), "wb", in_own_folder=True) as file:
                file.write(path.read_bytes().replace(f"{unpacked()}/".encode(), b"build/results/"))


def run(command: str, places: Mapping[str, Path]) -> None:
    """Runs a command as it is typed in the project, but for the folders at the beginning of words."""
    words = shlex.split(command.removeprefix("python "))
    for start, place in places.items():
        words = [f"{place}/{word.removeprefix(start)}" if word.startswith(start) else word for word in words]
    words = words if words[0] == "-m" else ["-m", *words]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.generated", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--record", action="store_true", help="take all files as they are, and write nothing else"
    )
    is_only_recorded = parser.parse_args().record
    for page in [] if is_only_recorded else stale():
        if page.by_hand:
            print(f"{page.writes}: by hand, where its sources have changed: {page.command}", file=sys.stderr)
            continue
        print(page.command, file=sys.stderr)
        write(page)
    for path in (path for page in PAGES for path in pages_of_verbs(page)):
        add_to_list(path, path)
    text = json.dumps({page.writes: digests(page) for page in PAGES}, indent=2) + "\n"
    write_text(LEDGER, text, in_own_folder=True)


# The code that a command reaches: what a page is made by follows from names and imports, and is listed nowhere.


BEYOND = ("juzhen.backends", "juzhen.data", "juzhen.encoders", "juzhen.families")
"""Rooms that compute what pages are made from; golden numbers of their own hold them."""
PLUMBING = (
    *(
        f"juzhen.core.{name}"
        for name in ("atomic_write", "errors", "file_guard", "paths", "safe_open", "secrets")
    ),
    *("juzhen.cli.options", "juzhen.cli.program"),
)
"""Modules that read and write files, and words of the command line; no page has a byte of them."""

Definition = tuple[str, str]
"""Module and name; of the statements that a module always runs, the name is empty."""


class Module(NamedTuple):
    """A file of the project.

    texts    name → the code that defines it, without comments and docstrings
    uses     name → the names in that code
    imports  name → what it was imported from, in the project
    """

    texts: dict[str, str]
    uses: dict[str, set[str]]
    imports: dict[str, Definition]


def reached(command: str) -> dict[str, str]:
    """`module.name` → code of each definition that a command may come to; {} where it is no program of ours."""
    words = command.split()
    if words[:2] == ["python", "-m"]:
        todo = [(words[2], name) for name in _module(words[2]).texts]
    elif words[0] == "juzhen":
        todo = [(module_of(words[1]), words[1])]
    else:
        return {}
    found: dict[Definition, str] = {}
    while todo:
        here = name, word = todo.pop()
        if here in found or name.startswith((*BEYOND, *PLUMBING)) or _file(name) is None:
            continue
        module = _module(name)
        if word in module.imports and word not in module.texts:
            todo.append(module.imports[word])
            continue
        found[here] = module.texts.get(word, "")
        for used in module.uses.get(word, ()):
            if used in module.texts:
                todo.append((name, used))
            elif used in module.imports:
                target, part = module.imports[used]
                todo += [(target, part)] if part else [(target, each) for each in _module(target).texts]
        todo.append((name, ""))
    return {f"{name}.{word}": text for (name, word), text in found.items() if text}


@cache
def _file(name: str) -> Path | None:
    stem = ROOT.joinpath(*name.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


@cache
def _module(name: str) -> Module:
    path = _file(name)
    assert path is not None  # a test runs the command of each page
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    hidden = {number for node in ast.walk(tree) for number in _docstring(node)}
    hidden |= {number for number, line in enumerate(lines, start=1) if line.lstrip().startswith("#")}
    module = Module({}, {}, dict(_imports(tree)))
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        code = [
            lines[number - 1]
            for number in range(first, (node.end_lineno or first) + 1)
            if number not in hidden
        ]
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        for defined in _defined(node):
            module.texts[defined] = "\n".join([*filter(None, [module.texts.get(defined)]), *code])
            module.uses.setdefault(defined, set()).update(names)
    return module


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    names = [
        each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)
    ]
    return names or [""]


def _docstring(node: ast.AST) -> range:
    """The lines of a text that stands alone."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _imports(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Names that stand for modules and parts of the project, wherever they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (each.asname or each.name, (each.name, "")) for each in node.names if _file(each.name)
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if _file(whole) or _file(node.module):
                    yield each.asname or each.name, (whole, "") if _file(whole) else (node.module, each.name)


if __name__ == "__main__":
    sys.exit(run_program(main))
