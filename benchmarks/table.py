"""The table of benchmarks, table.yaml: their options, scales, notes and words. Needs no torch."""

from pathlib import Path
from typing import Any

import yaml

from juzhen.core.errors import UserError, nearest

TABLE = yaml.safe_load(Path(__file__).with_name("table.yaml").read_text(encoding="utf-8"))
BENCHMARKS, OPTIONS, SCALES, WORDS = (TABLE[key] for key in ("benchmarks", "options", "scales", "words"))
DEVICES = ("cpu", "cuda", "mps")
SIZES = {"tiny": (1, 32, 2), "S": (4, 256, 4), "M": (6, 384, 6), "B": (12, 768, 12), "thin": (12, 48, 2)}
"""Name → layers, width, heads of a BERT; the inner layer is four times as wide. thin: the calls of B,
and little work."""

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}
CHOICES = {"sizes": SIZES, "precisions": PRECISIONS}
WARM_UP_STEPS = 4
LEAST = {"steps": WARM_UP_STEPS + 1, "memory_steps": 2}
"""Option → the smallest number that still measures something; of others 1."""


def resolve(benchmark: str, scale: str, assignments: list[str], *, has_bf16: bool = True) -> dict[str, Any]:
    """The value of each option: what was typed as `name=value` or `name=value,value`, else that of the scale.

    Training in bf16 where it is only imitated must be asked for. Raises UserError for a word that is no option.
    """
    options = {name: OPTIONS[name][1 + SCALES.index(scale)] for name in BENCHMARKS[benchmark]["options"]}
    if "precisions" in options and not has_bf16:
        options["precisions"] = ["fp32"]
    for word in assignments:
        name, _, text = word.partition("=")
        if name not in options:
            raise UserError(f"{word}: not an option of {benchmark}. {nearest(name, options)}")
        values: list[Any] = text.split(",")
        choices, least = CHOICES.get(name, values), LEAST.get(name, 1)
        if wrong := [value for value in values if value not in choices]:
            raise UserError(f"{name}={wrong[0]}: unknown choice. {nearest(wrong[0], choices)}")
        if name not in (*CHOICES, "datasets"):
            if not all(value.isdecimal() and int(value) >= least for value in values):
                raise UserError(f"{word}: expected a whole number from {least} on")
            values = [int(value) for value in values]
        options[name] = values if isinstance(OPTIONS[name][2], list) else values[0]
    return options
