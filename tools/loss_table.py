"""All losses, their numbers and which models they train, as a page: python -m tools.loss_table docs/losses.md

Asks the very functions that refuse a job before anything is loaded; no data are read and no weights. The names that the
package of losses exports are written beside it, for type checkers and editors, which do not run code.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import conf
import juzhen.losses
from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.batch import TENSORS
from juzhen.core.errors import UserError
from juzhen.core.examples import TEACHER_SCORE, Kind
from juzhen.core.paths import CONFIGURATION
from juzhen.models.settings import INNER, numbers_of
from launch.job import read_job, register_resolvers
from lightning_modules.loss_factory import NEEDS, build_loss, declared_loss, match_losses

FAMILIES = {
    conf.COSINE: ("biencoder", "distill", "guided"),
    conf.LOGIT: ("crossencoder", "splade"),
}
"""What scores are → models whose scores are that; together they read every loss."""


def options(group: str) -> dict[str, dict[str, Any]]:
    """Name → configuration of every file of a group, in the order of the alphabet. The files are read once."""
    return deepcopy(_read(group))


@cache
def _read(group: str) -> dict[str, dict[str, Any]]:
    nodes = {path.stem: OmegaConf.load(path) for path in sorted((CONFIGURATION / group).glob("*.yaml"))}
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        composed = {
            name: compose(f"{group}/{name}")[group] for name, node in nodes.items() if "defaults" in node
        }
    return {name: OmegaConf.to_container(node) for name, node in (nodes | composed).items()}


def losses_for(model: Mapping[str, Any], **typed: Any) -> dict[str, dict[str, Any]]:
    """Name → configuration of every loss, with the numbers that a job with `model` has.

    typed  values that are given by hand, to each loss that has the key
    """
    return deepcopy(_resolved(json.dumps([dict(model), typed], sort_keys=True)))


@cache
def _resolved(choice: str) -> dict[str, dict[str, Any]]:
    conf.register()
    (model, typed), losses = json.loads(choice), options("loss")
    for loss in losses.values():
        loss |= {key: value for key, value in typed.items() if key in loss}
    job = OmegaConf.create({"model": model, "losses": losses})
    return OmegaConf.to_container(job.losses, resolve=True)


def documented() -> dict[str, dict[str, dict[str, str]]]:
    """Loss → number → unit of the scores → value as a text; without the units that the loss does not read."""
    numbers: dict[str, dict[str, dict[str, str]]] = {}
    for unit, model in ((unit, options("model")[name]) for unit, names in FAMILIES.items() for name in names):
        for loss, config in losses_for(model).items():
            provided = own_class(model["_target_"]).provides
            if "_target_" not in config or not declared_loss(config).suits(provided):
                continue
            for key, value in _with_other_unit(model, loss, config).items():
                numbers.setdefault(loss, {}).setdefault(key, {})[unit] = written(value)
    return numbers


def _with_other_unit(model: Mapping[str, Any], loss: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a loss, and its temperature in the unit that its file does not choose."""
    plain = {key: value for key, value in numbers_of(numbers).items() if key != INNER}
    if "temperature_unit" in plain:
        other = "score" if plain["temperature_unit"] == conf.SPREAD else conf.SPREAD
        elsewhere = losses_for(model, temperature_unit=other)[loss]
        plain[f"temperature (temperature_unit={other})"] = elsewhere["temperature"]
    return plain


def written(value: Any) -> str:
    """A value as a configuration spells it, whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value)


def number_table() -> list[str]:
    """The lines of a Markdown table: loss, number, value with cosines, with logits, and of the class."""
    rows = ["| loss | number | with cosines | with logits | the class by itself |", "|---|---|---|---|---|"]
    for loss, numbers in sorted(documented().items()):
        defaults = class_defaults(loss)
        for key, values in numbers.items():
            cells = " | ".join(f"`{values[unit]}`" if unit in values else "refused" for unit in FAMILIES)
            alone = f"`{written(defaults[key])}`" if key in defaults else ""
            rows.append(f"| `{loss}` | {key} | {cells} | {alone} |")
    return rows


def class_defaults(loss: str) -> dict[str, Any]:
    """Number → what the class of a loss on file takes where it is not given."""
    taken = inspect.signature(own_class(_read("loss")[loss]["_target_"])).parameters.items()
    return {name: parameter.default for name, parameter in taken if parameter.default is not parameter.empty}


WORDS = {
    Kind.SCORED_PAIR: "graded",
    Kind.LABELLED_PAIR: "0/1",
    Kind.NLI_PAIR: "NLI",
    Kind.POSITIVE_PAIR: "positives",
    Kind.TRIPLET: "triplets",
    Kind.SENTENCE: "sentences",
    Kind.LABELLED_TEXT: "classes",
    Kind.RETRIEVAL: "retrieval",
    Kind.RERANKING: "reranking",
}
"""Kind of a set → its name in the table."""

STUB = Path(juzhen.losses.__file__).with_suffix(".pyi")


@dataclass
class Outcome:
    """What becomes of a model and a loss.

    kinds   kind of a set → kind that its rows are read as; sets of other kinds are refused
    reason  why no set can be learnt from, where that is so
    """

    kinds: dict[Kind, Kind] = field(default_factory=dict)
    reason: str = ""


def outcome(model: Mapping[str, Any], loss: Mapping[str, Any]) -> Outcome:
    target = own_class(model["_target_"])
    if not target.trains:
        return Outcome(reason=f"{target.__name__} learns nothing")
    if target.input_kind is not None and target.loss_kind is None:
        return Outcome(reason=f"{target.__name__} learns without a loss, and reads none")
    kinds: dict[Kind, Kind] = {}
    refusals: dict[Kind, str] = {}
    for kind in Kind:
        try:
            kinds[kind] = match_losses(_job(model, loss, kind))["the set"].kind
        except UserError as error:
            refusals[kind] = str(error)
    if kinds:
        return Outcome(kinds)
    natural = declared_loss(loss).input_kinds[0] if "_target_" in loss else Kind.SCORED_PAIR
    return Outcome(reason=refusals[natural].partition(". ")[0])


def _job(model: Mapping[str, Any], loss: Mapping[str, Any], kind: Kind) -> JobConfig:
    """A job of one set of the given kind."""
    job, chosen = copy(_composed_job()), copy(_composed_job().dataset["demo_sts"])
    chosen.name, chosen.kind = "the set", kind
    chosen.layouts = {chosen.layout: copy(chosen.layouts[chosen.layout])}
    chosen.layouts[chosen.layout].columns = {
        TEACHER_SCORE.format("positive"): "whatever a loss reads is there"
    }
    job.dataset = {chosen.name: chosen}
    settled = {"language": next(iter(model["templates"]))} if "templates" in model else {}
    job.model, job.loss = dict(model) | settled, dict(loss)
    return job


@cache
def _composed_job() -> JobConfig:
    register_resolvers()
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        return read_job(compose("train", overrides=["dataset=[demo_sts]", "benchmark=none"]))


def outcomes() -> dict[str, dict[str, Outcome]]:
    """Model → loss → outcome, over all of conf/model and conf/loss."""
    return {
        model: {name: outcome(config, loss) for name, loss in losses_for(config).items()}
        for model, config in options("model").items()
    }


def page() -> str:
    table = outcomes()
    columns: dict[str, list[str]] = {}
    for model, row in table.items():
        # Models that take the same losses in the same way share a column, whatever their messages say.
        columns.setdefault(str([outcome.kinds for outcome in row.values()]), []).append(model)
    files = losses_for(options("model")["biencoder"])
    page = [
        _HEAD
        + "\n".join(
            f"| `{name}` | {', '.join(spec.axes)} | {spec.about} |" for name, spec in TENSORS.items()
        ),
        f"\n| loss | {' | '.join(_COLUMNS)} |",
        "|---" * (1 + len(_COLUMNS)) + "|",
    ]
    page += [f"| `{name}` | {' | '.join(_facts(name, loss))} |" for name, loss in files.items()]
    page += [_NUMBERS, *number_table()]
    headings = [", ".join(f"`{model}`" for model in group) for group in columns.values()]
    page += [_PAIRS, f"| loss | {' | '.join(headings)} |", "|---" * (1 + len(columns)) + "|"]
    reasons: dict[str, int] = {}
    for name in files:
        cells = [_cell(name, [table[model][name] for model in group], reasons) for group in columns.values()]
        page.append(f"| `{name}` | {' | '.join(cells)} |")
    page += [_REASONS, *(f"{number}. {reason}" for reason, number in reasons.items())]
    return "\n".join(page) + "\n"


def _facts(name: str, loss: Mapping[str, Any]) -> Sequence[str]:
    """The cells of _COLUMNS; the first are the sentences at the head of the loss's file."""
    rows = (CONFIGURATION / "loss" / f"{name}.yaml").read_text(encoding="utf-8").split("\n")
    head = takewhile(lambda line: line.startswith("#"), rows)
    about = " ".join(line.removeprefix("# ") for line in head).replace("|", "\\|")
    if "_target_" not in loss:
        return [about, *[""] * (len(_COLUMNS) - 1)]
    target = build_loss(loss, dim=1, num_classes=2)
    kinds = ", ".join(WORDS[kind] for kind in target.input_kinds)
    numbers = "dim=…, num_classes=…" if target.has_parameters else ""  # what has no default
    numbers = f"of={type(target.inner).__name__}()" if INNER in loss else numbers
    call = f"`{type(target).__name__}({numbers})({', '.join(target.inputs)})`"
    couples = "yes" if target.is_batchwise else "no"
    return [about, target.choose_when, kinds, NEEDS[target.input_type], call, couples, target.paper]


def stub() -> str:
    """The names that the package of losses exports, as a type checker reads them."""
    homes: dict[str, list[str]] = {}
    for name in juzhen.losses.__all__:
        homes.setdefault(getattr(juzhen.losses, name).__module__.rpartition(".")[2], []).append(name)
    imports = [f"from .{home} import {name} as {name}" for home in sorted(homes) for name in homes[home]]
    return "\n".join([f"# Written by {COMMAND}", *imports, ""])


def _cell(loss: str, outcomes: Sequence[Outcome], reasons: dict[str, int]) -> str:
    """The kinds of sets that train, or the numbers of the reasons why none does."""
    kinds = outcomes[0].kinds
    if not kinds:
        reasons_of_loss = dict.fromkeys(
            outcome.reason.replace(f"loss={loss}", "loss=…", 1) for outcome in outcomes
        )
        return (
            "no ("
            + ", ".join(str(reasons.setdefault(reason, len(reasons) + 1)) for reason in reasons_of_loss)
            + ")"
        )
    if len(kinds) == len(Kind) and set(kinds.values()) == {Kind.SENTENCE}:
        return "all → sentences"
    return ", ".join(
        WORDS[kind] if kind == read else f"{WORDS[kind]} → {WORDS[read]}" for kind, read in kinds.items()
    )


COMMAND = "python -m tools.loss_table docs/losses.md"
_HEAD = f"""# Losses and models

This page is written by `{COMMAND}`. A test compares it with the code.

## Losses

`loss=<name>` chooses the loss of a job. In your own training loop a loss is a module that takes tensors and returns a
scalar. Its defaults are the customary numbers, which the docstring explains. A job takes its numbers from `conf/loss/`,
see below. `with_logs` also returns scalars to log.

```python
from juzhen.losses import CoSENT, InfoNCE, cosent

loss = CoSENT()(scores, targets)  # one score and one gold value per pair
loss = cosent(scores, targets, temperature=0.05)  # the same as a function
loss = InfoNCE(temperature=0.07)(anchors, positives)  # embeddings (batch, dim)
```

Tensors have the same names in all losses. `negatives` and `text_ids` are optional, but `info_nce_own` and `triplet`
need `negatives`. `cosent_softmax` needs `targets` if the classes are not 0 and 1.

| tensor | axes | content |
|---|---|---|
"""
_COLUMNS = ("loss and row kinds", "choose it for", "takes", "reads", "call", "batchwise", "paper")
_NUMBERS = """
## Numbers

Numbers of `conf/loss/`. They apply to the loss of a job, a stage, a set, or a row kind in `by_kind`. Values on the
command line and of an experiment replace them. Scores of a cross-encoder are logits, scores of all other models are
cosines, and some numbers differ between the two. *refused*: a model with such scores lacks the tensors that the loss
reads. *The class by itself*: the default of `CoSENT()` in your own training loop, which is one of the two.
"""
_PAIRS = """
## Which pairs train

For each model and loss: the row kinds that can be trained on. They are graded pairs, 0/1 pairs, NLI pairs, positive
pairs (positives), triplets, sentences, and texts with a class.

- `0/1 → triplets`: the rows are converted to the other kind.
- A missing kind is refused, because it cannot be converted. The message names suitable losses.
- *no*: no set can be trained on, for the reasons below.
- Refusals come before data are read or weights are loaded.
- Models in one column take the same kinds. With `model.score=bilinear` a bi-encoder takes only losses that read one
  score per pair.
"""
_REASONS = """
## Reasons
"""


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.loss_table", description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="the file to write")
    options = parser.parse_args()
    text = page()
    options.page.parent.mkdir(parents=True, exist_ok=True)
    is_generated = options.page.is_file() and COMMAND in options.page.read_text(encoding="utf-8")
    write_text(options.page, text, in_own_folder=is_generated)
    write_text(STUB, stub(), in_own_folder=True)


if __name__ == "__main__":
    sys.exit(run_program(main))
