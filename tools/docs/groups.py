"""The page of the configuration's groups: what each file of `conf/` is for, and what it holds."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import yaml

from conf.own_classes import keys_of
from juzhen.core.paths import CONFIGURATION
from tools.docs.keys import comments_of, type_words
from tools.docs.markup import as_yaml, code, plain, table
from tools.generated import users_files

GROUPS = {
    "model": "What is trained, and how it reads sentences.",
    "loss": "What is minimised. [Losses and models](../losses.md) compares them and says which model takes which.",
    "dataset": "What is trained on, and what a suite evaluates on. `dataset=[csts,afqmc]` takes several.",
    "benchmark": "Sets that a run is evaluated on besides those that it is trained on.",
    "backbone": "The pretrained transformer. Its keys: [backbone](keys.md#backbone).",
    "adapter": "A few matrices that learn beside frozen weights ([adapters](../guides/adapters.md)); `null`: none.",
    "schedule": "In which order, and in which shares, sets are learnt from. Keys: [schedule](keys.md#schedule).",
    "augmentation": "Sentences changed while they are learnt from. Keys: [augmentation](keys.md#augmentation).",
    "mining": "Negatives that a model finds itself, before or while it learns.",
    "weights": "Losses of several sets weighed anew while they are learnt from; `weights=null`: fixed.",
    "hardware": "What computes. Keys: [hardware](keys.md#hardware).",
    "callbacks": "What watches a run. `callbacks=[default,<name>]` adds, `callbacks.<name>=null` leaves out.",
    "logger": "Where the curve of a run goes. Keys: [logger](keys.md#logger).",
    "experiment": "Named recipes: they state what differs from a job that nobody has changed.",
    "sweep": "Named sets of runs, for `python train.py -m sweep=…`.",
    "debug": "For trying things out.",
    "hydra/launcher": "Where the runs of `-m` are computed.",
    "hydra/sweeper": "Which runs `-m` makes.",
}
"""Folder of conf → what its files are for, in the order of the page."""

IN_ONE_TABLE = ("dataset",)
HEAD = """\
---
search: {boost: 0.4}
---
# Configuration groups

`group=option` on the command line of `train.py` chooses a file of `conf/`; each is shown below with what it holds.
`key=value` after it changes one value. [Configuration keys](keys.md) has the types and ranges of the keys that every
job has.
"""


def page() -> str:
    parts = [HEAD]
    for group, about in GROUPS.items():
        parts.append(f"## {group}\n\n{about}\n")
        files = sorted({*(CONFIGURATION / group).rglob("*.yaml")} - users_files())
        parts += [_sets(files)] if group in IN_ONE_TABLE else [_option(group, file) for file in files]
    return "\n".join(parts)


def _option(group: str, file: Path) -> str:
    """What the comment above a file says, and what the file holds."""
    name = file.relative_to(CONFIGURATION / group).with_suffix("").as_posix()
    title = f"### {group.removeprefix('hydra/')}={name}\n"
    text = file.read_text(encoding="utf-8")
    held, rows = yaml.safe_load(text) or {}, text.splitlines()
    above = list(takewhile(lambda line: line.startswith("#"), rows))
    if "_target_" in held and not any(isinstance(value, dict | list) for value in held.values()):
        body = _keys(file, held)
    else:
        body = "```yaml\n" + "\n".join(rows[len(above) :]) + "\n```\n"
    return "\n".join([title, *_paragraphs(above), body])


def _paragraphs(comment: list[str]) -> Iterator[str]:
    """Lines that begin at the margin are sentences, indented ones are commands or lists."""
    rows = [line[1:].removeprefix(" ") for line in comment if not line.startswith("# @package")]
    sentences = [line for line in rows if not line.startswith("  ")]
    commands = [line for line in rows if line.startswith("  ")]
    if sentences:
        yield plain(" ".join(sentences)) + "\n"
    if commands:
        yield "```text\n" + "\n".join(line[2:] for line in commands) + "\n```\n"


def _keys(file: Path, held: dict[str, object]) -> str:
    """The keys of a class: what it takes stands in the table that command lines are checked by."""
    target = str(held["_target_"])
    declaration = None if target.startswith("hydra_plugins.") else keys_of(target)
    comments = comments_of(file)
    rows = []
    for key, value in held.items():
        if key not in ("_target_", "name"):
            field = declaration.model_fields.get(key) if declaration else None
            rows.append(
                (
                    code(key),
                    type_words(field) if field else "",
                    code(as_yaml(value)),
                    plain(comments.get(key, "")),
                )
            )
    link = f"[{code(target)}][{target}]" if target.startswith("juzhen.") else code(target)
    return f"Class: {link}.\n" + ("\n" + table(("key", "type", "value", "meaning"), rows) if rows else "")


def _sets(files: list[Path]) -> str:
    held = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    rows = [
        (
            code(settings["name"]),
            settings["kind"],
            settings["language"],
            _promised(settings.get("rows") or {}),
            plain(settings.get("about", "")),
            settings.get("license", ""),
        )
        for settings in held
    ]
    return table(("set", "kind", "language", "rows train / dev / test", "what it is", "license"), rows)


def _promised(rows: dict[str, int | None]) -> str:
    numbers = [rows.get(split) for split in ("train", "dev", "test")]
    return " / ".join("–" if number is None else f"{number:,}" for number in numbers)
