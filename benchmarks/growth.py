"""How time and memory grow with rows, pairs, texts and runs: python -m benchmarks.growth [OUTPUT]

Four kinds of work at three or four sizes, beside the program that people use where there is one. Every number comes
from a process of its own. The encoder is a BERT of one layer and 32 numbers, so the numbers are those of the program
and not of the layers. It writes growth.json, growth.svg and README.md, and takes about an hour. `OUTPUT page` writes
the page of a growth.json again.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Numbers, apart, describe_machine
from benchmarks.report import COLOURS, MARKERS, STYLE, read
from benchmarks.work import random_bert
from juzhen.core.atomic_write import atomic_write, write_json, write_text
from juzhen.core.paths import ROOT
from tools.archives import unpacked

SIZES = {
    "train": (10_000, 100_000, 500_000, 2_000_000),
    "evaluate": (10_000, 100_000, 500_000),
    "index": (10_000, 100_000, 1_000_000),
    "report": (20, 200, 2_000),
}
"""Work → sizes: rows, pairs, texts, runs."""

TITLES = {
    "train": "Training: until 20 steps are done",
    "evaluate": "Evaluation of labelled pairs",
    "index": "An index on disk, and 100 queries",
    "report": "A report",
}
WORK = {
    "train": "`juzhen.fit` and the trainer of sentence-transformers read a CSV file and take 20 steps of 64 pairs. "
    "juzhen reads all rows and tokenises a row when a step first has it. The other side maps the file and tokenises a "
    "row whenever a step has it.",
    "evaluate": "`juzhen.evaluate` and EmbeddingSimilarityEvaluator score pairs of a CSV file. juzhen also computes "
    "accuracy, F1, average precision and intervals.",
    "index": "`juzhen.index.build` keeps texts and vectors on disk. FAISS (IndexFlatIP, vectors by "
    "sentence-transformers) keeps vectors alone.",
    "report": "`juzhen report` of committed runs, repeated with other seeds where there are fewer. We know no other "
    "program to compare it with.",
}
ABOUT = """# Cost of growth

Processor time and memory from the smallest size to the largest, each number of a process of its own. The encoder is a
BERT of one layer and 32 numbers, so the numbers are those of the program and not of the layers. Machine: {processor},
threads of torch: {threads}, shared with other jobs, which lengthens processor time somewhat. The time per unit leaves
out what the smallest size takes. Made by `python -m benchmarks.growth`."""
UNITS = {"train": "rows", "evaluate": "pairs", "index": "texts", "report": "runs"}
PEERS = {"train": "sentence-transformers", "evaluate": "sentence-transformers", "index": "FAISS"}
NAMES = {"ours": "juzhen", "sentence-transformers": "theirs"}
STEPS, BATCH, QUERIES = 20, 64, 100
WORDS = [
    *("怎么", "退货", "花呗", "还款", "借呗", "额度", "手机", "绑定", "修改", "密码", "为什么", "不能"),
    *("使用", "开通", "条件", "可以", "提前", "还清", "账单", "分期", "利息", "多少"),
]


def texts(count: int, seed: int) -> Iterator[str]:
    """Generated questions, nearly all distinct."""
    draw = random.Random(seed)
    for number in range(count):
        yield "".join(draw.choices(WORDS, k=draw.randint(3, 8))) + str(number)


def write_pairs(path: Path, count: int) -> Path:
    """Write a CSV file with a header and `count` labelled pairs."""
    pairs = zip(texts(count, 1), texts(count, 2), strict=True)
    lines = (f"{first},{second},{number % 2}\n" for number, (first, second) in enumerate(pairs))
    write_text(path, "sentence1,sentence2,label\n" + "".join(lines))
    return path


def write_texts(path: Path, count: int) -> Path:
    """Write a text file with a line for each of `count` texts."""
    write_text(path, "".join(f"{text}\n" for text in texts(count, 3)))
    return path


def write_runs(folder: Path, count: int) -> Path:
    """Write `count` runs: the committed ones of the transfer page, again with other seeds where they are fewer."""
    paths = sorted((unpacked() / "transfer").rglob("result.json"))
    results = [json.loads(path.read_text("utf-8")) for path in paths]
    for number in range(count):
        result = dict(results[number % len(results)])
        result["config"] = result["config"] | {"seed": 1000 + number // len(results)}
        run = folder / "runs" / str(number)
        run.mkdir(parents=True)
        write_json(run / "result.json", result)
    return folder / "runs"


def train_ours(path: Path, encoder: Path, count: int) -> None:
    import juzhen

    loaded = juzhen.SentenceEncoder.load(encoder)
    juzhen.fit(loaded, path, epochs=STEPS * BATCH / count, batch_size=BATCH, progress=False)


def train_theirs(path: Path, encoder: Path, count: int) -> None:
    import datasets
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses
    from sentence_transformers.training_args import SentenceTransformerTrainingArguments

    datasets.disable_progress_bars()
    table = datasets.load_dataset(
        "csv", data_files=str(path), split="train", cache_dir=str(path.parent / "cache")
    )
    table = table.cast_column("label", datasets.Value("float32"))
    model = SentenceTransformer(str(encoder), device="cpu")
    numbers = {
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": 2e-5,
        "use_cpu": True,
    }
    quiet = {"report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    arguments = SentenceTransformerTrainingArguments(str(path.parent / "out"), **numbers, **quiet)
    loss = losses.CoSENTLoss(model)
    SentenceTransformerTrainer(model, arguments, train_dataset=table, loss=loss).train()


def evaluate_ours(path: Path, encoder: Path, count: int) -> None:
    import juzhen

    juzhen.evaluate(juzhen.SentenceEncoder.load(encoder), path)


def evaluate_theirs(path: Path, encoder: Path, count: int) -> None:
    import pandas as pd
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

    table = pd.read_csv(path)
    columns = [table[name].tolist() for name in ("sentence1", "sentence2", "label")]
    EmbeddingSimilarityEvaluator(*columns)(SentenceTransformer(str(encoder), device="cpu"))


def index_ours(path: Path, encoder: Path, count: int) -> None:
    import juzhen
    from juzhen.index import Index, build, read_rows

    loaded, folder = juzhen.SentenceEncoder.load(encoder), path.parent / "index"
    build(folder, loaded, read_rows(path), name="bench")
    Index.open(folder, loaded).search(list(texts(QUERIES, 4)), 10)


def index_theirs(path: Path, encoder: Path, count: int) -> None:
    import faiss
    from sentence_transformers import SentenceTransformer

    model, rows = SentenceTransformer(str(encoder), device="cpu"), path.read_text("utf-8").splitlines()
    vectors = model.encode(rows, normalize_embeddings=True, batch_size=256)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path.parent / "index.faiss"))
    index = faiss.read_index(str(path.parent / "index.faiss"))
    index.search(model.encode(list(texts(QUERIES, 4)), normalize_embeddings=True), 10)


def report_ours(path: Path, encoder: Path, count: int) -> None:
    words = ["report", str(path), "--out", str(path.parent / "report")]
    subprocess.run([sys.executable, "-m", "juzhen", *words], check=True, capture_output=True)


WRITE = {"train": write_pairs, "evaluate": write_pairs, "index": write_texts, "report": write_runs}
OURS = {"train": train_ours, "evaluate": evaluate_ours, "index": index_ours, "report": report_ours}
THEIRS = {"train": train_theirs, "evaluate": evaluate_theirs, "index": index_theirs}


def measured(work: Callable[[Path, Path, int], None], path: Path, encoder: Path, count: int) -> Numbers:
    """Seconds by the clock and of the processor, and the most memory of this process or of one that it started."""
    logging_off()
    start, clock = time.process_time() + children().ru_utime, time.perf_counter()
    work(path, encoder, count)
    used, seconds = time.process_time() + children().ru_utime - start, time.perf_counter() - clock
    return {"seconds": seconds, "cpu_seconds": used, "mib_of_children": children().ru_maxrss / 1024}


def children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def is_committed(folder: Path) -> bool:
    return folder.resolve().is_relative_to(ROOT / "results")


def logging_off() -> None:
    import warnings

    os.environ["TQDM_DISABLE"] = "1"
    warnings.simplefilter("ignore")


def growth(sizes: dict[str, tuple[int, ...]] = SIZES) -> list[Numbers]:
    """A row for each work, side and size.

    Args:
        sizes: Work → sizes.

    Returns:
        Rows with seconds, processor seconds, and MiB at the peak. The least size comes first: its numbers are the
        cost of starting.
    """
    rows: list[Numbers] = []
    with random_bert("tiny", dropout=0.0) as encoder:
        for work, counts in sizes.items():
            for count in counts:
                for side, table in (("ours", OURS), (PEERS.get(work, ""), THEIRS)):
                    if work not in table:
                        continue
                    with tempfile.TemporaryDirectory() as scratch:
                        place = (
                            Path(scratch)
                            if work == "report"
                            else Path(scratch, "rows.txt" if work == "index" else "rows.csv")
                        )
                        path = WRITE[work](place, count)
                        numbers = apart(measured, table[work], path, encoder, count)
                    numbers["mib_peak"] = max(numbers["mib_peak"], numbers.pop("mib_of_children"))
                    rows.append({"work": work, "side": side, "count": count, **numbers})
                    print(rows[-1], flush=True)
    return rows


def page(result: dict[str, Any]) -> str:
    """The page of a result as Markdown: what was done, a table for each work, the picture."""
    rows, machine = result["rows"], result["machine"]
    parts = [ABOUT.format(**machine), "![Processor seconds and peak memory over sizes](growth.svg)"]
    for work in dict.fromkeys(row["work"] for row in rows):
        of_work = [row for row in rows if row["work"] == work]
        sides = list(dict.fromkeys(row["side"] for row in of_work))
        least = {row["side"]: row for row in reversed(of_work)}
        heads = [
            f"{NAMES.get(side, side)}: {head}"
            for side in sides
            for head in ("s", f"µs per {UNITS[work][:-1]}", "MiB")
        ]
        lines = [[UNITS[work], *heads], ["--:"] * (1 + len(heads))]
        for count in dict.fromkeys(row["count"] for row in of_work):
            cells = [f"{count:,}"]
            for row in (row for row in of_work if row["count"] == count):
                first = least[row["side"]]
                more, used = row["count"] - first["count"], row["cpu_seconds"] - first["cpu_seconds"]
                cells += [f"{row['cpu_seconds']:.1f}", f"{1e6 * used / more:,.0f}" if more else "–"]
                cells += [f"{row['mib_peak']:,.0f}"]
            lines.append(cells)
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        parts.append(f"## {TITLES[work]}\n\n{WORK[work]}\n\n{table}")
    return "\n\n".join(parts) + "\n"


def draw(rows: list[Numbers], path: Path, *, in_own_folder: bool) -> None:
    """Writes a picture: processor seconds and peak memory of each work over its sizes, with logarithmic axes."""
    import matplotlib
    from matplotlib.figure import Figure

    works = list(dict.fromkeys(row["work"] for row in rows))
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "juzhen", "svg.fonttype": "none"}):
        figure = Figure(figsize=(3.2 * len(works), 5.4))
        panels = figure.subplots(2, len(works), squeeze=False)
        for column, work in enumerate(works):
            of_work = [row for row in rows if row["work"] == work]
            for line, (key, label) in enumerate(
                (("cpu_seconds", "processor seconds"), ("mib_peak", "peak MiB"))
            ):
                axes = panels[line][column]
                for number, side in enumerate(dict.fromkeys(row["side"] for row in of_work)):
                    points = [(row["count"], row[key]) for row in of_work if row["side"] == side]
                    looks = {"color": COLOURS[number], "marker": MARKERS[number]}
                    axes.plot(*zip(*points, strict=True), label=side, **looks)
                axes.set(
                    xscale="log", yscale="log", xlabel=UNITS[work], ylabel=label, title="" if line else work
                )
                axes.minorticks_off()
            panels[0][column].legend(fontsize=7)
        with atomic_write(path, "wb", in_own_folder=in_own_folder) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})


def write(result: dict[str, Any], folder: Path) -> None:
    """Write growth.svg and README.md into a folder."""
    ours = is_committed(folder)
    draw(result["rows"], folder / "growth.svg", in_own_folder=ours)
    write_text(folder / "README.md", page(result), in_own_folder=ours)


def main(output: str = "build/growth", *sizes: str) -> None:
    folder = Path(output)
    if sizes == ("page",):
        return write(read(folder / "growth.json"), folder)
    chosen = {
        work: tuple(map(int, text.split(","))) for work, _, text in (word.partition("=") for word in sizes)
    }
    machine = describe_machine()
    result = {"benchmark": "growth", "machine": machine, "rows": growth(SIZES | chosen)}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "growth.json", result, in_own_folder=is_committed(folder))
    write(result, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
