"""Compares what this commit computes with what was recorded before: python -m tools.same

A guard for changes that move code and must change no number. Each section of facts is a file of RECORD, written by
`--record` from the commit before the change. A difference is one line, and the exit status is then 1.
`--only SECTION …` compares, or records, some sections alone.
"""

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from tools.archives import unpacked

RECORD = ROOT / "tests" / "same"
RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Numbers that differ by less are the same: another processor rounds sums in another order."""

DIRECTIONS = 6
"""A matrix is recorded by its products with so many fixed vectors, which every entry of it moves."""

Facts = dict[str, Any]
"""Name of a fact → a string, a number or a list of numbers."""

TEXTS = (
    *("今天天气很好", "今天的天气不错", "怎么修改绑定的手机号", "在哪里换绑手机号", "信用卡什么时候出账单"),
    *("一个男人在弹吉他", "一个女人在切洋葱", "花呗可以提前还款吗", "借呗怎么开通", "他没有去学校"),
    *("他去了学校", "狗在草地上奔跑", "猫在沙发上睡觉", "这部电影真难看", "这部电影很好看"),
    *("北京是中国的首都", "中国的首都是北京", "上海在北京的南边", "北京在上海的南边", "我不喜欢喝咖啡"),
    *("我喜欢喝茶", "股票今天上涨了三点五个百分点", "股票下跌了", "请问火车站怎么走", "去机场要多长时间"),
    *("A man is playing a guitar.", "A woman is slicing an onion.", "How do I change my phone number?"),
    *(
        "The weather is nice today.",
        "It is raining cats and dogs.",
        "the capital of china",
        "BEIJING",
        "beijing",
    ),
    *(
        "ＡＢＣ１２３",
        "abc123",
        "臺灣的天氣",
        "台湾的天气",
        "你好，世界！",
        "你好世界",
        "2024年3月5日",
        "3.14159",
        "微信WeChat支付",
    ),
    *("🙂", "好", "  空格  ", "鱼", "龘", "！？。", "很" * 40, "学习" * 100),
)
QUERIES = ("天气", "手机号怎么换", "how to change the number", "首都", "电影", "台湾")

SMALL = (
    "benchmark=none", "logger=csv", "logger.progress=false", "debug_rows=48", "seed=42",
    "logger.every_steps=1", "training.batch_size=8", "training.duration=12 steps", "optimizer.lr=1e-3",
    "evaluation.bootstrap_samples=0", "hardware.threads=1", "hardware.precision=32-true", "dataset=[demo_sts]",
)  # fmt: skip
JOBS: dict[str, tuple[str, ...]] = {
    "biencoder_cosent": ("loss=cosent",),
    "biencoder_info_nce": ("loss=info_nce", "dataset=[demo_qmc]"),
    "biencoder_mix": (
        "dataset=[demo_nli,demo_qmc]",
        "loss=by_kind",
        "schedule.sample_by=blend",
        "weights=gradnorm",
    ),
    "biencoder_serial": ("dataset=[demo_nli,demo_sts]", "loss=by_kind", "schedule=serial"),
    "biencoder_mined": ("dataset=[demo_qmc]", "loss=info_nce", "mining=static"),
    "biencoder_ema": ("loss=cosent", "callbacks=[default,ema]"),
    "biencoder_lora": ("loss=cosent", "adapter=lora", "init_from={teacher}"),
    "biencoder_noise": ("loss=cosent", "augmentation=noise"),
    "crossencoder_cosent": ("model=crossencoder", "loss=cosent"),
    "crossencoder_ce": ("model=crossencoder", "loss=ce", "dataset=[demo_nli]"),
    "colbert": ("model=colbert", "loss=info_nce", "dataset=[demo_qmc]"),
    "splade": ("model=splade", "loss=info_nce", "loss.temperature=20", "dataset=[demo_qmc]"),
    "reranker": (
        *("model=reranker", "backbone=random_decoder", "backbone.layers=1", "debug_rows=16", "loss=bce"),
        "dataset=[demo_qmc]",
        *('model.true_answer="是"', 'model.false_answer="否"'),
    ),
    "simcse": ("model=simcse", "loss=info_nce", "dataset=[demo_qmc]"),
    "cot": ("model=cot", "model.untrained_mask=true", "loss=info_nce", "dataset=[demo_qmc]"),
    "views": ("model=views", "loss=info_nce", "dataset=[demo_qmc]"),
    "mlm": ("model=mlm", "dataset=[demo_qmc]"),
    "distill": ("model=distill", "loss=distill", "model.teacher={teacher}", "dataset=[demo_qmc]"),
    "guided": ("model=guided", "loss=info_nce_guided", "model.teacher={teacher}", "dataset=[demo_qmc]"),
    "lexical": ("model=lexical", "dataset=[]", "benchmark=demo"),
}
"""Name → the run, beside SMALL: every family of models, and what callbacks and schedules do to one of them."""

PAGES = (
    ("cot/runs", "--split", "dev"),
    ("encoders/runs", "--split", "dev", "--metric", "spearman"),
    ("encoders/runs", "--split", "dev", "--metric", "ndcg_at_10"),
    ("losses/runs", "--split", "dev", "--metric", "spearman"),
    ("losses/old_defaults", "--split", "dev"),
    ("losses/variants", "--split", "dev"),
    ("retrieval/runs", "--metric", "ndcg_at_10"),
    ("cross_encoder/runs",),
    ("cross_encoder/e5_small",),
    ("transfer/nli_triplets/runs", "--split", "dev"),
    ("transfer/e5_small/runs", "--split", "dev"),
    ("transfer/e5_small/softmax", "--split", "dev"),
    ("transfer/runs",),
)
"""Tables of committed results, as `juzhen table` is asked for them."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.same", description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the facts of this commit")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[*SECTIONS], metavar="SECTION")
    options = parser.parse_args()
    return sum(_section(name, record=options.record) for name in options.only) and 1


def _section(name: str, *, record: bool) -> int:
    """Records a section, or prints its differences; their number."""
    start = time.monotonic()
    facts = SECTIONS[name]()
    path = RECORD / f"{name}.json"
    if facts is None:
        print(f"{name}: left out, its encoder is not here", flush=True)
        return 0
    if record:
        lines = ",\n".join(
            f" {json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in sorted(facts.items())
        )
        path.parent.mkdir(exist_ok=True)
        write_text(path, f"{{\n{lines}\n}}\n", in_own_folder=True)
    recorded = json.loads(path.read_text(encoding="utf-8"))
    found = [*differences(recorded, json.loads(json.dumps(facts)))]
    for line in found:
        print(f"{name}: {line}")
    seconds = f"{time.monotonic() - start:.0f} s"
    print(f"{name}: {len(recorded)} facts, {len(found) or 'no'} differences, {seconds}", flush=True)
    return len(found)


def differences(recorded: Facts, found: Facts) -> Iterator[str]:
    """One line for each fact that is new, missing or another one.

    >>> list(differences({"a": 1.0, "b": "x"}, {"a": 1.0000001, "b": "y", "c": 2}))
    ['b: x, now y', 'c: not recorded, now 2']
    """
    for name in sorted({*recorded, *found}):
        if name not in found:
            yield f"{name}: {_short(recorded[name])}, now missing"
        elif name not in recorded:
            yield f"{name}: not recorded, now {_short(found[name])}"
        elif not is_same(recorded[name], found[name]):
            yield f"{name}: {_short(recorded[name])}, now {_short(found[name])}"


def is_same(one: Any, other: Any) -> bool:
    """Whether two facts are equal, numbers but for rounding."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other) <= ABSOLUTE + RELATIVE * max(abs(one), abs(other))
    return bool(one == other)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}…"


def keys() -> Facts:
    """Key, row and label of every committed result, from the job that it has stored."""
    from juzhen.core.result import Result
    from juzhen.report.row_identity import identify, label_runs
    from launch.job import run_key

    facts: Facts = {}
    folders: dict[Path, list[Path]] = {}
    for path in sorted(unpacked().rglob("result.json")):
        run = next(one for one in path.parents if "stages" not in (one.name, one.parent.name))
        folders.setdefault(run.parent, []).append(path)
    for paths in folders.values():
        results = [Result.read(path) for path in paths]
        labels = label_runs(results)
        for path, result, label in zip(paths, results, labels, strict=True):
            rows = [identify(result, before_training=before) for before in (False, True)]
            first, second = (_digest(repr((row.trained_on, row.settings, row.backbone))) for row in rows)
            name = path.parent.relative_to(unpacked()).as_posix()
            facts[name] = f"{run_key(dict(result.config))} {first} {second} {label}"
    return facts


def tables() -> Facts:
    """Digests of the tables and reports of committed results."""
    facts: Facts = {}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        for number, (runs, *words) in enumerate(PAGES):
            files = [place / f"{number}.{suffix}" for suffix in ("md", "svg", "csv")]
            flags = ("--markdown", "--picture", "--csv")
            known = [word for pair in zip(flags, files, strict=True) for word in pair]
            text = _juzhen("table", str(unpacked() / runs), *words, *map(str, known))
            name = " ".join((f"results/{runs}", *words))
            facts[name] = _digest(text.replace(folder, ""))
            facts |= {f"{name} {file.suffix}": _digest(file.read_bytes()) for file in files}
        report = place / "report"
        _juzhen("report", str(unpacked() / "transfer/runs"), "--out", str(report))
        # The command of the next run names the folder of this checkout, and .juzhen-files has digests of the pages.
        for path in sorted(report.glob("[!.]*")):
            facts[f"report {path.name}"] = _digest(path.read_bytes().replace(bytes(unpacked()), b"results"))
    return facts


def builtin() -> Facts:
    """What the built-in encoder computes: embeddings, rankings, mined rows and scores."""
    from juzhen import SentenceEncoder

    facts = embeddings(SentenceEncoder.load("builtin/mini_zh"))
    with _apart() as folder:
        run = _run(folder, "backbone=mini_zh", "dataset=[]", "benchmark=demo", "debug_rows=200")
        facts |= {f"scores {name}": value for name, value in _scores(run).items()}
        facts |= _found(folder, "builtin/mini_zh") | _mined(folder, "builtin/mini_zh")
    return facts


def e5() -> Facts | None:
    """Embeddings of a multilingual-e5-small, where JUZHEN_MODELS has one."""
    folder = Path(os.environ.get("JUZHEN_MODELS", "")) / "e5_small_zh"
    if not os.environ.get("JUZHEN_MODELS") or not folder.is_dir():
        return None
    from juzhen import SentenceEncoder

    encoder = SentenceEncoder.load(folder)
    return embeddings(encoder) | {
        f"{name} {side}": value
        for side in ("query", "document")
        for name, value in embeddings(encoder.with_prompt(None, f"{side}: ")).items()
    }


def embeddings(encoder: Any) -> Facts:
    """Text → products of its embedding with fixed vectors."""
    vectors = encoder.encode(list(TEXTS))
    return {
        f"{number} {text[:20]}": _rounded(_directions(len(vector)) @ vector)
        for number, (text, vector) in enumerate(zip(TEXTS, vectors, strict=True))
    }


def families() -> Facts:
    """Key, stage digests, losses, scores and weights of a short run of every family."""
    facts: Facts = {}
    with _apart() as folder:
        teacher = _run(folder, "loss=cosent", "seed=7", "training.duration=2 steps") / "encoder"
        for name, words in JOBS.items():
            store = folder / "stages" / name
            stored = () if name == "lexical" else (f"schedule.store={store}",)
            run = _run(folder, *(word.format(teacher=teacher) for word in words), *stored)
            if stored:
                facts[f"{name} stages"] = sorted(path.name for path in store.iterdir() if path.is_dir())
            is_rounded = "{teacher}" in "".join(words)  # the key covers weights, which the processor rounds
            facts[f"{name} key"] = run.name.rpartition("-")[0] if is_rounded else run.name
            facts |= {f"{name} loss {file}": values for file, values in _losses(run).items()}
            facts |= {f"{name} {metric}": value for metric, value in _scores(run).items()}
            facts |= {f"{name} weights {tensor}": value for tensor, value in _weights(run).items()}
    return facts


def verbs() -> Facts:
    """What fit, merge, mine, index and BM25 compute of encoders with random weights."""
    from juzhen import SentenceEncoder, fit
    from juzhen.metrics.lexical import BM25

    bm25 = BM25(list(TEXTS))
    facts: Facts = {f"bm25 {query}": [round(float(x), 6) for x in bm25.scores(query)] for query in QUERIES}
    with _apart() as folder:
        words = ("dataset=[demo_qmc]", "loss=info_nce", "evaluation.limit=40")
        base = _run(folder, *words, "training.duration=1 steps")
        first, second, third = (
            _run(folder, *words, f"init_from={base}", f"seed={seed}") for seed in (1, 2, 3)
        )
        for method, models in {
            "linear": (first, second, third), "slerp": (first, second), "multislerp": (first, second, third),
            "task_arithmetic": (first, second), "ties": (first, second), "dare": (first, second),
            "model_stock": (first, second), "greedy_soup": (first, second, third),
        }.items():  # fmt: skip
            merged = folder / method
            basis = (
                ("--base", str(base)) if method in ("task_arithmetic", "ties", "dare", "model_stock") else ()
            )
            _juzhen("merge", *map(str, models), str(merged), "--method", method, *basis)
            facts |= {f"merge {method} {name}": value for name, value in _weights(merged).items()}
            facts |= {f"merge {method} {name}": value for name, value in _scores(merged).items()}
        facts |= _found(folder, str(first)) | _mined(folder, str(first))
        for loss in ("cosent", "info_nce", "circle"):
            pairs = zip(TEXTS[:24:2], TEXTS[1:24:2], strict=True)
            rows = [(*pair, number % 2) for number, pair in enumerate(pairs)]
            encoder = fit(
                SentenceEncoder.load(first),
                rows,
                loss=loss,
                epochs=2,
                batch_size=4,
                learning_rate=1e-3,
                progress=False,
            )
            facts |= {f"fit {loss} {name}": value for name, value in _tensors(encoder.state_dict()).items()}
    return facts


SECTIONS: Mapping[str, Callable[[], Facts | None]] = {
    each.__name__: each for each in (keys, tables, builtin, e5, families, verbs)
}


def _found(folder: Path, encoder: str) -> Facts:
    """What an index of the texts gives to each query, by vectors, by BM25 and by both."""
    texts = folder / "texts.txt"
    write_text(texts, "\n".join(dict.fromkeys(text.strip() for text in TEXTS)) + "\n", in_own_folder=True)
    place = folder / "index"
    _juzhen("index", "build", str(place), encoder, str(texts))
    facts: Facts = {}
    for mode in ("dense", "bm25", "hybrid"):
        for query in QUERIES:
            words = ("index", "search", str(place), query, "--mode", mode, "--top-k", "8")
            facts[f"search {mode} {query}"] = _juzhen(*words).splitlines()
    return facts


def _mined(folder: Path, encoder: str) -> Facts:
    out = folder / "mined_hard.tsv"
    words = ["--limit", "60", "--range-max", "20", "--num-negatives", "2", "--relative-margin", "none"]
    _juzhen("mine", "demo_qmc", encoder, "bm25", "--out", str(out), *words)
    with out.open(encoding="utf-8", newline="") as file:
        rows = [*csv.reader(file, delimiter="\t")]
    return {f"mined {number}": _digest("\t".join(row)) for number, row in enumerate(rows)}


def _tiny(folder: Path) -> Path:
    """The architecture of `random_small` with one layer of 32, where a job takes a second."""
    tiny = folder / "tiny"
    if not tiny.is_dir():
        tiny.mkdir()
        source = ROOT / "juzhen" / "builtin" / "encoder"
        contents = {
            file.name: file.read_text(encoding="utf-8")
            for file in source.iterdir()
            if file.suffix in (".json", ".txt")
        }
        small = {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        }
        contents["config.json"] = json.dumps(json.loads(contents["config.json"]) | small)
        for name, text in contents.items():
            write_text(tiny / name, text, in_own_folder=True)
    return tiny


def _run(folder: Path, *words: str) -> Path:
    """Runs a job in this process; its folder."""
    from hydra import compose, initialize_config_dir

    import train
    from launch.job import register_resolvers

    register_resolvers()
    is_small = not any(word.startswith("backbone=") for word in words)
    small = ("backbone=random_small", f"backbone.path={_tiny(folder)}") if is_small else ()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("train", overrides=[*SMALL, f"output_dir={folder / 'runs'}", *small, *words])
    with _quiet():
        train.run_job(config)
    return Path(config.run_dir)


def _losses(run: Path) -> Facts:
    curves: Facts = {}
    for path in sorted(run.glob("metrics/*/metrics.csv")):
        with path.open(encoding="utf-8") as file:
            curves[path.parent.name] = [
                float(row["train/loss"]) for row in csv.DictReader(file) if row.get("train/loss")
            ]
    return curves


def _scores(run: Path) -> Facts:
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {name: score["value"] for name, score in result["scores"].items()}


def _weights(run: Path) -> Facts:
    from safetensors.numpy import load_file

    tensors = {
        f"{path.relative_to(run)} {name}": tensor
        for path in sorted(run.rglob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }
    return _tensors(tensors)


def _tensors(tensors: Mapping[str, Any]) -> Facts:
    """Layer-wise sums of products of tensors with fixed vectors: a few numbers that every weight moves."""
    import numpy as np

    sums: dict[str, Any] = {}
    for name, tensor in tensors.items():
        group = name.partition(" ")[0] if " " in name else "all"
        values = np.asarray(tensor, dtype=np.float64).reshape(-1)
        sums[group] = sums.get(group, 0) + _directions(values.size) @ values / np.sqrt(max(values.size, 1))
    return {group: _rounded(values) for group, values in sums.items()}


@cache
def _directions(size: int) -> Any:
    import numpy as np

    return np.random.default_rng(size).standard_normal((DIRECTIONS, size))


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.7g}") for value in values]


def _juzhen(*words: str) -> str:
    """Runs a verb and gives what it prints. Raises UserError where it fails."""
    from juzhen.cli.main import main as juzhen

    with _quiet() as (printed, errors):
        status = juzhen(words)
    if status:
        raise UserError(f"juzhen {' '.join(words)}: exit status {status}. {errors.getvalue()[-2000:]}")
    return printed.getvalue()


@contextlib.contextmanager
def _quiet() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Keeps stdout and stderr."""
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        yield printed, errors


@contextlib.contextmanager
def _apart() -> Iterator[Path]:
    """A folder that work is done in, and caches lie in: paths below it are the same every time."""
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["JUZHEN_CACHE"] = "cache"
        yield Path()


def _digest(content: str | bytes) -> str:
    content = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:12]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.fsync = os.fstat  # nothing here must survive a power cut
    sys.exit(run_program(main))
