"""What can be asked of each benchmark, and how much of it at each scale. Needs no torch, so that --help is quick."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from juzhen.core.numerals import finite_number, whole_number
from juzhen.core.processor import lacks_bf16

SCALES = ("tiny", "modest", "full")
"""tiny: seconds, to see that it runs · modest: minutes · full: what published numbers are taken from."""

DEVICES = ("cpu", "cuda")
"""Where both sides run; the first unless told otherwise."""

SIZES = {"tiny": (1, 32, 2), "S": (4, 256, 4), "M": (6, 384, 6), "B": (12, 768, 12)}
"""Name → layers, width, heads of a BERT; the inner layer is four times as wide."""

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}
"""Ours → what Lightning calls it."""


@dataclass(frozen=True)
class Option:
    """One option and its value at each scale; the type of `modest` is its type.

    least  fewer than so many measure nothing
    """

    name: str
    about: str
    tiny: Any
    modest: Any
    full: Any
    choices: tuple[str, ...] | None = None
    least: int = 1

    def add_to(self, parser: ArgumentParser) -> None:
        flag = f"--{self.name.replace('_', '-')}"
        shown = f"{self.about} (modest: {_shown(self.modest)}; full: {_shown(self.full)})"
        if isinstance(self.modest, bool):
            parser.add_argument(flag, action="store_true", default=None, help=self.about)
        elif isinstance(self.modest, list):
            kind = _reader(flag, self.modest[0] if self.modest else "", self.least)
            parser.add_argument(flag, nargs="+", type=kind, choices=self.choices, help=shown)
        else:
            parser.add_argument(
                flag, type=_reader(flag, self.modest, self.least), choices=self.choices, help=shown
            )


def _reader(flag: str, like: Any, least: int) -> Callable[[str], Any]:
    """What reads a value of the kind of `like`, if it is whole not below `least`, from a word of the command line."""
    if isinstance(like, int):
        least = min(least, like)
        return whole_number(flag, least=least, expected=f"a whole number from {least} on, such as {like}")
    return finite_number(flag, example=like) if isinstance(like, float) else str


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "see above"
    return str(value)


def _sizes(modest: list[str], full: list[str]) -> Option:
    return Option("sizes", "sizes of the model", ["tiny"], modest, full, tuple(SIZES))


def _rounds(tiny: int, modest: int, full: int) -> Option:
    return Option("rounds", "times that each contestant has its turn", tiny, modest, full)


DATASETS = Option(
    "datasets", "sets to learn from; not given: csts afqmc where data is at hand, else the demo sets", [], [], []
)  # fmt: skip
CACHE = Option("cache", "folder where embeddings stay for the next time", "", "", "")
BOUND = Option("memory_bound_mib", "leave out what would need more memory than this", 4096, 12288, 12288)

STEPS = (
    Option("precisions", "fp32 and bf16 autocast", ["fp32", "bf16"], ["fp32", "bf16"],
           ["fp32", "bf16"], tuple(PRECISIONS)),
    Option("batch_size", "rows per step", 8, 64, 64),
    Option("steps", "steps per turn; the first 4 do not count as time", 7, 24, 40, least=5),
    _rounds(2, 3, 5),
    Option("agreement_steps", "steps of the run without dropout, where curves must agree", 3, 12, 30),
)  # fmt: skip
"""Of training benchmarks, whatever the model."""

BENCHMARKS: dict[str, tuple[str, tuple[Option, ...]]] = {
    "training": (
        "seconds per training step on the same batches, and both loss curves",
        (
            _sizes(["S", "M"], ["S", "M", "B"]),
            *STEPS,
            Option("memory_steps", "steps of the processes whose memory is measured", 2, 4, 6, least=2),
            DATASETS,
            Option("compile", "also measure ours with hardware.compile=true", False, False, False),
        ),
    ),
    "crossencoder": (
        "seconds per training step of a cross-encoder on the same batches, and both loss curves",
        (
            _sizes(["S"], ["S", "M", "B"]),
            *STEPS,
            Option("datasets", "sets of labelled pairs; not given: lcqmc where data is at hand, else demo_qmc",
                   [], [], []),
        ),
    ),
    "distill": (
        "seconds per step of a student that learns a teacher's vectors, beside MSELoss, and both loss curves",
        (_sizes(["S"], ["S", "M"]), *STEPS, DATASETS),
    ),
    "encoding": (
        "sentences per second of every back end, and how far embeddings and correlations move",
        (
            _sizes(["S"], ["S", "M"]),
            Option("sentences", "distinct sentences to encode", 120, 4000, 20000),
            Option("batch_sizes", "sentence-transformers' batch sizes; 32 is its default", [32], [32, 64, 128],
                   [32, 64, 128]),
            _rounds(2, 3, 5),
        ),
    ),
    "evaluation": (
        "one row of a transfer matrix: nine sets in one pass, beside nine evaluators",
        (
            _sizes(["S"], ["S", "M"]),
            Option("rows", "rows per set, at most", 40, 1000, 20000),
            Option("batch_sizes", "batch sizes of the evaluators; 16 is their default", [16], [16, 64], [16, 64]),
            _rounds(2, 3, 5),
        ),
    ),
    "cosent": (
        "the CoSENT loss alone, forward and backward, at growing batch sizes",
        (
            Option("rows", "batch sizes", [64, 256], [64, 256, 1024, 4096, 16384],
                   [64, 256, 1024, 4096, 16384, 65536]),
            _rounds(2, 5, 9),
            Option("memory_bound_mib", "do not write out the matrix of all pairs where it needs more than this",
                   512, 4096, 8192),
        ),
    ),
    "memory": (
        "batches far larger than memory: gradient caching, ours and sentence-transformers'",
        (
            _sizes(["S"], ["S", "M"]),
            Option("batch_sizes", "pairs per step", [8, 16], [64, 256, 1024], [64, 256, 1024, 4096]),
            Option("micro_rows", "sentences whose activations are kept at a time", 4, 64, 64),
            Option("steps", "steps per process, after one that does not count", 1, 2, 3),
            Option("datasets", "one set of labelled pairs; not given: afqmc where data is at hand, else demo_qmc",
                   [], [], []),
            BOUND,
        ),
    ),
    "mining": (
        "hard negatives beside mine_hard_negatives: processor time, memory, and whether they are the same",
        (
            Option("documents", "sizes of the corpus; as many as there are at most", [300, 600],
                   [2_000, 10_000], [10_000, 50_000, 250_000]),
            Option("queries", "questions with a duplicate each", 40, 1000, 2000),
            _rounds(1, 2, 3),
            CACHE,
        ),
    ),
    "search": (
        "the nearest documents, exact and by indexes of FAISS, beside semantic_search",
        (
            Option("documents", "sizes of the corpus; as many as there are at most", [300, 600],
                   [10_000, 50_000], [10_000, 50_000, 250_000]),
            Option("queries", "questions with a duplicate each", 40, 1000, 1000),
            _rounds(2, 3, 5),
            CACHE,
        ),
    ),
    "overhead": (
        "what Lightning costs: our step beside a bare loop over the same batches",
        (
            _sizes(["S"], ["S", "M"]),
            Option("batch_size", "pairs per step", 8, 64, 64),
            Option("steps", "steps per turn; the first does not count", 4, 10, 10, least=2),
            _rounds(2, 8, 20),
            DATASETS,
        ),
    ),
    "spin": (
        "how long threads that wait for others spin: training alone, and beside one busy core",
        (
            _sizes(["S"], ["S", "M"]),
            Option("batch_size", "pairs per step", 8, 64, 64),
            Option("steps", "steps of a turn; the first does not count", 3, 10, 20, least=2),
            Option("busy_steps", "the same beside a busy core", 2, 4, 10),
            Option("spins", "values of GOMP_SPINCOUNT beside libgomp's own, which is the first", ["4000"],
                   ["2000", "4000", "20000"], ["1000", "2000", "4000", "10000", "20000", "100000"]),
            _rounds(1, 3, 5),
            DATASETS,
        ),
    ),
}  # fmt: skip
"""Name → what it measures, and its options."""

ON_GPU = ("training", "crossencoder", "distill", "encoding", "evaluation", "memory")
"""Those that run on a GPU too; the others are about the processor."""


def resolve(benchmark: str, scale: str, given: dict[str, Any]) -> dict[str, Any]:
    """The value of every option of a benchmark: what was given, else what the scale says.

    Training in bf16 on a processor that can only imitate it must be asked for: a step takes many times as long.
    """
    options = BENCHMARKS[benchmark][1]
    found = {
        option.name: getattr(option, scale) if given.get(option.name) is None else given[option.name]
        for option in options
    }
    imitated = given.get("device", DEVICES[0]) == "cpu" and lacks_bf16()
    if "precisions" in found and given.get("precisions") is None and imitated:
        found["precisions"] = [one for one in found["precisions"] if one != "bf16"]
    return found
