"""Measurements beside sentence-transformers: python -m tools.bench <benchmark>, or all; --help lists them.

Each writes <output>/<name>.json and a picture, and prints a table. Rounds alternate between the contestants in one
process, so that a busy machine hits all of them; what is compared is the median over rounds of their ratio. Run it
on a machine that does nothing else.
"""

import argparse
import importlib
import os
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from juzhen.cli.arguments import Parser
from juzhen.cli.program import run_program
from juzhen.core.errors import UserError
from juzhen.core.numerals import whole_number
from juzhen.core.processor import lacks_bf16
from launch import run_cli
from tools.bench.options import BENCHMARKS, DEVICES, ON_GPU, SCALES, resolve

NEEDED = {
    "sentence_transformers": "sentence-transformers",
    "accelerate": "accelerate",
    "matplotlib": "matplotlib",
}


def build_parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = Parser("python -m tools.bench", description=__doc__, formatter_class=shape)
    verbs = parser.add_subparsers(
        dest="benchmark", required=True, metavar="benchmark", parser_class=partial(Parser, has_version=False)
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--scale",
        choices=SCALES,
        default="modest",
        help="how much: tiny takes seconds, modest minutes, full an hour or more; single options come first",
    )
    common.add_argument(
        "--output", type=Path, default=Path("tools/bench/out"), help="folder for JSON and pictures"
    )
    common.add_argument(
        "--threads",
        type=whole_number("--threads", least=1, expected="a number of threads, such as 2"),
        help="threads of torch; not given: its own choice",
    )
    common.add_argument(
        "--device",
        choices=DEVICES,
        default=DEVICES[0],
        help=f"where both sides run; cuda: {', '.join(ON_GPU)}",
    )
    for name, (about, options) in BENCHMARKS.items():
        verb = verbs.add_parser(name, parents=[common], help=about, description=about)
        for option in options:
            option.add_to(verb)
    everything = "all of the above, each as the scale says"
    verbs.add_parser("all", parents=[common], help=everything, description=everything)
    return parser


def run_one(name: str, options: dict[str, Any], output: Path, console: Console) -> None:
    from tools.bench.device import describe_machine
    from tools.bench.plots import draw
    from tools.bench.report import Report, show

    machine, start = describe_machine(), time.perf_counter()
    console.print(f"{name}: {BENCHMARKS[name][0]}", highlight=False)
    found = importlib.import_module(f"tools.bench.{name}").measure(**options)
    report = Report(name, options, machine, **found, seconds=round(time.perf_counter() - start, 1))
    written = [report.write(output), *draw(report, output)]
    show(report, console)
    console.print("written: " + ", ".join(map(str, written)), highlight=False, soft_wrap=True)


def _on_gpu(names: list[str]) -> list[str]:
    """Those of the benchmarks that a GPU has a part in. Raises UserError where there are none, or no GPU."""
    from tools.bench.device import choose_device

    chosen = [name for name in names if name in ON_GPU]
    if not chosen:
        raise UserError(
            f"--device cuda: {', '.join(names)} is about the processor; on a GPU: {', '.join(ON_GPU)}"
        )
    choose_device("cuda")
    return chosen


@run_cli
def main(arguments: list[str]) -> None:
    given = vars(build_parser().parse_args(arguments))
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise UserError(
            f"the benchmarks need {', '.join(missing)}; type pip install -e '.[bench]' -c constraints.txt"
        )
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars of the other side, also in other processes
    if given["threads"] is not None:
        import torch

        torch.set_num_threads(given["threads"])
    console, names = Console(), list(BENCHMARKS) if given["benchmark"] == "all" else [given["benchmark"]]
    if given["device"] == "cuda":
        names = _on_gpu(names)
    elif lacks_bf16():
        console.print(
            "This processor has no instructions for bfloat16: bf16 is left out unless --precisions asks."
        )
    for name in names:
        run_one(name, resolve(name, given["scale"], given), given["output"], console)


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
