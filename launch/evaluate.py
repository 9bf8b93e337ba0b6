"""Scores what finished runs lack, with the encoders they left behind: `juzhen evaluate runs`.

A column whose file came after the run, or a set that joined the suite, is filled into the result; nothing is trained,
and a score that exists is left alone.

juzhen evaluate runs                          files that have come since
juzhen evaluate runs --dataset mine           and a set of conf/dataset that the runs did not know
juzhen evaluate runs --suite zh_picture       and the sets of a suite
juzhen evaluate runs --without-leaks          scores without the rows that training has seen
juzhen evaluate runs/some-run --again         everything once more; says what moved
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import VerbParser
from juzhen.core.caches import caches_below
from juzhen.core.errors import UserError
from juzhen.core.result import WITHOUT_LEAKS, Result
from launch.run_folder import RunFolder

if TYPE_CHECKING:  # it loads torch, and neither --help nor a folder that lacks nothing should wait for that
    from launch.fill import Filled, Filler
    from launch.lacking import Described, FinishedStage

ROUNDING = 1e-6
"""Smaller differences are those of sentences that went through the encoder in other company."""

CONFIGURATION = Path(__file__).resolve().parents[1] / "conf"


OWN_CACHES = True


def parser() -> VerbParser:
    parser = VerbParser("evaluate", __doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", nargs="+", type=Path, help="run folders, or folders that hold runs at any depth"
    )
    parser.add_argument("--suite", metavar="NAME", help="also the sets of conf/suite/NAME.yaml")
    parser.add_argument(
        "--dataset",
        metavar="NAME",
        action="append",
        help="also conf/dataset/NAME.yaml; may be repeated",
    )
    parser.add_argument(
        "--config-dir", metavar="FOLDER", help="a further folder of dataset/ and suite/ files"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="replace scores that exist, of the named sets or of all, and say what moved",
    )
    parser.add_argument(
        "--without-leaks",
        action="store_true",
        help="look for rows that training has seen, and score sets that have some without them, too",
    )
    parser.add_argument(
        "--data-dir", metavar="FOLDER", help="where the sets lie; default: where each run has read them"
    )
    parser.add_argument(
        "--hardware", metavar="NAME", help="of conf/hardware; default: what each run has used, on one device"
    )
    parser.add_batch_tokens(default="as the hardware says")
    return parser


def run(
    runs: Sequence[Path],
    *,
    suite: str | None = None,
    dataset: Sequence[str] = (),
    config_dir: str | None = None,
    again: bool = False,
    without_leaks: bool = False,
    data_dir: str | None = None,
    hardware: str | None = None,
    batch_tokens: int | None = None,
) -> None:
    """Fills in every finished run below `runs`. Raises UserError, at the end, where some failed."""
    options = argparse.Namespace(**locals())
    _check(options)
    from launch.lacking import finished_stages
    from launch.preflight import checked_job

    stages = finished_stages(options.runs)

    words = [f"dataset=[{','.join(options.dataset)}]", f"suite={options.suite or 'none'}"]
    words += [f"hardware={options.hardware}"] if options.hardware else []
    today = checked_job(words, conf_dir=CONFIGURATION, extra=options.config_dir)
    caches_below(today.cache_dir)
    visit = _Visit(options, today)
    failed = []
    for number, stage in enumerate(stages, start=1):
        place = f"[{number}/{len(stages)}] {stage.folder}:"
        try:
            print(f"{place} {visit(stage)}", flush=True)
        except UserError as error:
            failed.append(stage)
            print(f"{place} failed: {error}", file=sys.stderr, flush=True)
    if failed:
        raise UserError(
            f"{len(failed)} of {len(stages)} failed: {', '.join(str(one.folder) for one in failed)}"
        )


def _check(options: argparse.Namespace) -> None:
    if options.data_dir is not None and not Path(options.data_dir).expanduser().is_dir():
        raise UserError(
            f"--data-dir {options.data_dir}: no such folder; give the one that holds the data sets"
        )


class _Visit:
    """What is done at each finished stage. torch is loaded at the first that lacks something."""

    def __init__(self, options: argparse.Namespace, today) -> None:
        from omegaconf import OmegaConf

        self.options = options
        self.today = today
        named = OmegaConf.to_container(today)
        self.named: Described = named["evaluate"] | named["dataset"]
        self._filler: Filler | None = None

    def __call__(self, stage: "FinishedStage") -> str:
        """Fills one result in, and says in a line what came of it."""
        if not self._wanted(stage):
            return f"nothing to do{self._without_file(stage)}"
        with RunFolder(stage.run, resume="auto", fills=True):
            wanted = self._wanted(stage)  # another process may have been here before the lock was ours
            if not wanted:
                return "nothing to do"
            since = time.monotonic()
            filled = self.filler().fill(stage, wanted)
            return _spoken(filled, Result.read(stage.folder), time.monotonic() - since)

    def _wanted(self, stage: "FinishedStage") -> "Described":
        from launch.lacking import fillable, uncounted

        result = Result.read(stage.folder)
        folder = self.options.data_dir
        wanted = fillable(result, self.named, data_dir=folder, again=self.options.again)
        return wanted | uncounted(result, data_dir=folder) if self.options.without_leaks else wanted

    def _without_file(self, stage: "FinishedStage") -> str:
        """The sets that were asked for by name and are neither scored nor to be read anywhere."""
        result = Result.read(stage.folder)
        read = {key.split("/")[1] for key in result.data if not key.startswith("train/")}
        lost = [name for name in self.options.dataset if name not in read]
        folder = self.options.data_dir or result.config["data_dir"]
        return f" ({', '.join(lost)}: no dev or test file below {folder})" if lost else ""

    def filler(self) -> "Filler":
        if self._filler is None:
            from launch.fill import Filler

            self._filler = Filler(
                self.today,
                own_hardware=self.options.hardware is None,
                data_dir=self.options.data_dir,
                batch_tokens=self.options.batch_tokens,
                again=self.options.again,
                without_leaks=self.options.without_leaks,
                progress=sys.stderr.isatty(),
            )
        return self._filler


def _spoken(filled: "Filled", result: Result, seconds: float) -> str:
    """New Spearman, or what else speaks for a set, ×100 of each split, what moved, and what could not be done."""
    from juzhen.core.measures import FIRST_MEASURES

    spoken = []
    for key in filled.added:
        place, _, metric = key.rpartition("/")
        measure = metric.removesuffix(WITHOUT_LEAKS)
        if measure not in FIRST_MEASURES or key not in result.scores:
            continue
        words = [] if measure == "spearman" else [measure.replace("_", " ")]
        words += ["without them"] if metric.endswith(WITHOUT_LEAKS) else []
        spoken.append(" ".join([place, *words, f"{100 * result.scores[key].value:.2f}"]))
    parts = [*filled.notes]
    parts += [f"added {', '.join(spoken) or len(filled.added)}"] if filled.added else []
    far = [
        f"{key} {_percent(old)} → {_percent(new)}"
        for key, (old, new) in filled.moved.items()
        if _is_far(old, new)
    ]
    near = len(filled.moved) - len(far)
    parts += [f"moved {', '.join(far)}"] if far else []
    parts += [f"{near} others moved by less than {ROUNDING:g}"] if near else []
    return f"{'; '.join(parts) or 'all scores are as they were'} ({seconds:.1f} s)"


def _is_far(before: float | None, after: float | None) -> bool:
    return before is None or after is None or abs(before - after) >= ROUNDING


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.4f}"
