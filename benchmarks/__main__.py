"""Speed and memory of juzhen beside sentence-transformers, on the same work: python -m benchmarks <benchmark>

Both sides take turns in one run, so that a busy machine hits both; where memory is measured, each works in a process
of its own. What counts is the ratio of their times, round by round: its median, lowest and highest. A benchmark ends
in an error where the two sides do not compute the same. Each writes <output>/<name>.json and .svg. Run it on a machine
that does nothing else. Scales: tiny takes seconds, to see that it runs; modest minutes; full an hour and more.

  python -m benchmarks training --scale tiny
  python -m benchmarks training sizes=S,B rounds=5 --device cuda
  python -m benchmarks all --scale full
"""

import argparse
import os
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.table import BENCHMARKS, DEVICES, OPTIONS, SCALES, resolve
from juzhen.cli.program import run_program
from juzhen.core.errors import UserError, install_line
from juzhen.core.machine import lacks_bf16


def build_parser() -> argparse.ArgumentParser:
    epilog = ["benchmarks, and the options of each:"]
    for name, benchmark in BENCHMARKS.items():
        epilog += [f"  {name:14}{benchmark['about']}", f"{'':16}{' '.join(benchmark['options'])}"]
    epilog += ["  all           one after another, as the scale says", "", "options (at modest; at full):"]
    for name, (about, _, *values) in OPTIONS.items():
        modest, full = (",".join(map(str, value)) if isinstance(value, list) else value for value in values)
        epilog.append(f"  {name:17}{about}" + (f" ({modest}; {full})" if modest else ""))
    layout = {"epilog": "\n".join(epilog), "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__, **layout)
    parser.add_argument("benchmark", choices=[*BENCHMARKS, "all"], metavar="benchmark")
    parser.add_argument("options", nargs="*", metavar="name=value", help="instead of what the scale says")
    parser.add_argument("--scale", choices=SCALES, default="modest", help="default: modest")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="of both sides; default: cpu")
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="default: build/bench")
    return parser


def run(name: str, options: dict[str, Any], output: Path) -> None:
    from benchmarks import inference, launches, mining, packing, report, training
    from benchmarks.measure import describe_machine

    measures = {"encoding": inference.encoding, "evaluation": inference.evaluation, "mining": mining.mining}
    measures |= {"packing": packing.packing, "memory": training.memory, "launches": launches.launches}
    measure = measures.get(name, partial(training.train_both, name))
    print(f"{name}: {BENCHMARKS[name]['about']}", flush=True)
    head = {"benchmark": name, "options": options, "machine": describe_machine()}
    start, result = time.perf_counter(), {"checks": {}, "curves": {}, **measure(**options)}
    notes = {"notes": BENCHMARKS[name]["notes"], "seconds": round(time.perf_counter() - start, 1)}
    path = report.write(head | result | notes | {"format_version": 1}, output)
    checks = [f"{check.replace('_', ' ')}: {value:.2g}" for check, value in result["checks"].items()]
    print(report.table([report.read(path)], "en"), *checks, f"written: {path} and .svg", sep="\n", flush=True)


def main(arguments: list[str]) -> None:
    typed = build_parser().parse_intermixed_args(arguments)
    has_bf16 = typed.device == "cuda" or (typed.device == "cpu" and not lacks_bf16())
    names = list(BENCHMARKS) if typed.benchmark == "all" else [typed.benchmark]
    jobs = {name: resolve(name, typed.scale, typed.options, has_bf16=has_bf16) for name in names}
    if typed.device != "cpu" and jobs.pop("mining", None) and not jobs:
        raise UserError(f"--device {typed.device}: mining is measured on a processor alone. Leave it out")
    packages = ("sentence_transformers", "accelerate", "matplotlib")
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UserError(f"needs {', '.join(missing)}. Type: {install_line('bench')}")
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars of the other side, also in other processes
    import torch

    from benchmarks.measure import choose_device

    choose_device(typed.device)
    torch.set_num_threads(typed.threads or torch.get_num_threads())
    if not has_bf16:
        print("No instructions for bfloat16 here: it is left out unless precisions=bf16 asks.", flush=True)
    for name, options in jobs.items():
        run(name, options, typed.output)


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
