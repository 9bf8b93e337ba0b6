"""Scores what finished runs lack, with the encoders they left behind: `python evaluate_runs.py runs`.

A column whose file came after the run, or a set that joined the suite, is filled into the result; nothing is trained,
and a score that exists is left alone.

python evaluate_runs.py runs                          files that have come since
python evaluate_runs.py runs --dataset mine           and a set of conf/dataset that the runs did not know
python evaluate_runs.py runs --suite zh_picture       and the sets of a suite
python evaluate_runs.py runs --without-leaks          scores without the rows that training has seen
python evaluate_runs.py runs/some-run --again         everything once more; says what moved
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from juzhen.cli.arguments import Parser
from juzhen.cli.program import run_program
from juzhen.core.caches import caches_below
from juzhen.core.errors import UserError, exit_status
from juzhen.core.measures import FIRST_MEASURES
from juzhen.core.numerals import whole_number
from juzhen.core.result import WITHOUT_LEAKS, Result
from juzhen.evaluation.finished import (
    Descriptions,
    FinishedRun,
    finished_runs,
    missing_sets,
    unchecked_sets,
)
from launch.run_folder import RunFolder

if TYPE_CHECKING:  # it loads torch, and neither --help nor a folder that lacks nothing should wait for that
    from juzhen.evaluation.late import Changes, LateColumns

ROUNDING = 1e-6
"""Smaller differences are those of sentences that went through the encoder in other company."""

CONFIGURATION = Path(__file__).resolve().parent / "conf"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit status: 0, or 2 for a mistake of the user or a run that failed."""
    return exit_status(lambda: _add_all(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    kept = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="evaluate_runs.py", description=__doc__, formatter_class=kept)
    add = parser.add_argument
    add("runs", nargs="+", type=Path, help="run folders, or folders that hold runs at any depth")
    add("--suite", metavar="NAME", help="also the sets of conf/suite/NAME.yaml")
    repeated = "also conf/dataset/NAME.yaml; may be repeated"
    add("--dataset", metavar="NAME", action="append", default=[], help=repeated)
    add("--config-dir", metavar="FOLDER", help="a further folder of dataset/ and suite/ files")
    moved = "replace scores that exist, of the named sets or of all, and say what moved"
    add("--again", action="store_true", help=moved)
    seen = "look for rows that training has seen, and score sets that have some without them, too"
    add("--without-leaks", action="store_true", help=seen)
    add("--data-dir", metavar="FOLDER", help="where the sets lie; default: where each run has read them")
    add("--hardware", metavar="NAME", help="of conf/hardware; default: what each run has used, on one device")
    tokens = whole_number("--batch-tokens", least=1, expected="a number of tokens, such as 16384")
    at_a_time = "tokens at a time; default: as the hardware says"
    add("--batch-tokens", type=tokens, metavar="N", help=at_a_time)
    return parser


def _add_all(options: argparse.Namespace) -> None:
    if options.data_dir is not None and not Path(options.data_dir).expanduser().is_dir():
        raise UserError(
            f"--data-dir {options.data_dir}: no such folder; give the one that holds the data sets"
        )
    runs = finished_runs(options.runs)
    from launch.preflight import checked_job

    words = [f"dataset=[{','.join(options.dataset)}]", f"suite={options.suite or 'none'}"]
    words += [f"hardware={options.hardware}"] if options.hardware else []
    today = checked_job(words, conf_dir=CONFIGURATION, extra=options.config_dir)
    caches_below(today.cache_dir)
    columns = cache(
        partial(_columns, options, today)
    )  # torch is loaded at the first run that lacks something
    named, failed = {**OmegaConf.to_container(today.evaluate), **OmegaConf.to_container(today.dataset)}, []
    for number, run in enumerate(runs, start=1):
        place = f"[{number}/{len(runs)}] {run.folder}:"
        try:
            print(f"{place} {_add(run, options, named, columns)}", flush=True)
        except UserError as error:
            failed.append(str(run.folder))
            print(f"{place} failed: {error}", file=sys.stderr, flush=True)
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} failed: {', '.join(failed)}")


def _add(run: FinishedRun, options: argparse.Namespace, named: Descriptions, columns: Callable) -> str:
    """Adds to one result, and says in a line what came of it."""

    def wanted() -> Descriptions:
        result, where = Result.read(run.folder), {"data_dir": options.data_dir}
        found = missing_sets(result, named, again=options.again, **where)
        return found | (unchecked_sets(result, **where) if options.without_leaks else {})

    if not wanted():
        return f"nothing to do{_without_file(Result.read(run.folder), options)}"
    with RunFolder(run.run, resume="auto", fills=True):
        sets = wanted()  # another process may have been here before the lock was ours
        if not sets:
            return "nothing to do"
        since = time.monotonic()
        changes = columns().add(run, sets)
        return _spoken(changes, Result.read(run.folder), time.monotonic() - since)


def _without_file(result: Result, options: argparse.Namespace) -> str:
    """The sets that were asked for by name and are neither scored nor to be read anywhere."""
    read = {key.split("/")[1] for key in result.data if not key.startswith("train/")}
    lost = [name for name in options.dataset if name not in read]
    folder = options.data_dir or result.config["data_dir"]
    return f" ({', '.join(lost)}: no dev or test file below {folder})" if lost else ""


def _columns(options: argparse.Namespace, today: DictConfig) -> "LateColumns":
    from juzhen.evaluation.late import LateColumns  # loads torch
    from launch.stored import starting_encoder

    return LateColumns(
        start=partial(starting_encoder, defaults=today),
        hardware=OmegaConf.to_object(today.hardware) if options.hardware else None,
        data_dir=options.data_dir,
        cache_dir=today.cache_dir,
        batch_tokens=options.batch_tokens,
        again=options.again,
        without_leaks=options.without_leaks,
        progress=sys.stderr.isatty(),
    )


def _spoken(changes: "Changes", result: Result, seconds: float) -> str:
    """New Spearman, or what else speaks for a set, ×100 of each split, what moved, and what could not be done."""
    spoken = []
    for key in changes.added:
        place, _, metric = key.rpartition("/")
        measure = metric.removesuffix(WITHOUT_LEAKS)
        if measure not in FIRST_MEASURES or key not in result.scores:
            continue
        words = [] if measure == "spearman" else [measure.replace("_", " ")]
        words += ["without them"] if metric.endswith(WITHOUT_LEAKS) else []
        spoken.append(" ".join([place, *words, f"{100 * result.scores[key].value:.2f}"]))
    parts = [*changes.notes]
    parts += [f"added {', '.join(spoken) or len(changes.added)}"] if changes.added else []
    far = [
        f"{key} {_percent(old)} → {_percent(new)}"
        for key, (old, new) in changes.moved.items()
        if _is_far(old, new)
    ]
    near = len(changes.moved) - len(far)
    parts += [f"moved {', '.join(far)}"] if far else []
    parts += [f"{near} others moved by less than {ROUNDING:g}"] if near else []
    return f"{'; '.join(parts) or 'all scores are as they were'} ({seconds:.1f} s)"


def _is_far(before: float | None, after: float | None) -> bool:
    return before is None or after is None or abs(before - after) >= ROUNDING


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.4f}"


if __name__ == "__main__":
    sys.exit(run_program(main))
