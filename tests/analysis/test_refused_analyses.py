"""What cannot be drawn, measured, calibrated or fused is refused by option, file or set, with the way out."""

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zstandard
from jobs import run_job
from refusals import each, rows, typed
from test_curves import write
from test_leaks_of_runs import LINES
from test_transfer import NUMBERS, Vectors, of_one_class, pairs

import juzhen
from juzhen.calibration.calibration import fit_platt, fit_temperature, fit_weight
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.paths import BUILTIN, DATASETS
from juzhen.core.result import Result
from juzhen.evaluation import space as spaces
from juzhen.evaluation.run import transfer
from juzhen.report.page_data import read_curves

ROWS = "\n".join(f"第{number}句话,{'甲乙'[number % 2]}" for number in range(12))
FILES = {
    "five.txt": "一\n二\n三\n四\n五\n",
    "two.txt": "一\n二\n",
    "pairs.csv": "a,b\n一,二\n",
    "classes.csv": f"text,label\n{ROWS}\n,甲\n没有类别,\n",
    "titles.csv": f"标题,类\n{ROWS}\n,甲\n没有类别,\n",
    "longer.csv": f"text,label\n{ROWS}\n多,了,一\n少\n",
    "blank.txt": f"{ROWS}\n\n \n",
    "graded.csv": "a,b,score\n甲,乙,0.5\n丙,丁,2.5\n戊,己,5\n",
    "afqmc/train.tsv": "sentence1\tsentence2\tlabel\n甲一\t乙一\t1\n",
}


def in_a_folder(f):
    """The folder at work, with `FILES`, the first pairs of demo_qmc as faq.csv, and two faulty rows behind them."""
    f.monkeypatch.chdir(f.tmp_path)
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    lines = (BUILTIN / "data" / "demo_qmc" / "dev.tsv").read_text("utf-8").splitlines()[1:61]
    head = ["问题", "相似问题", "是否同义"]
    table = [head, *(line.split("\t")[:3] for line in lines)]
    for name, more in (
        ("faq.csv", []),
        ("faulty.csv", [["怎么退货", "", "1"], ["怎么退货", "如何退货", ""]]),
    ):
        with open(name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([*table, *more])


def drawn(f, words):
    """No encoder is loaded for it."""
    in_a_folder(f)
    f.monkeypatch.setattr(spaces, "open_encoder", lambda source: pytest.fail("an encoder was loaded"))
    typed(f, "space", f.encoder_folder, *words.split())


def read_first(f, words):
    in_a_folder(f)
    typed(f, "space", f.encoder_folder, "--maps", "pca", *words.split())


def a_cross_encoder(f):
    (f.tmp_path / "head.safetensors").touch()
    (f.tmp_path / "config.json").write_text("{}")
    typed(f, "space", f.tmp_path, "--out", f.tmp_path / "out")


SPACE = [
    *each(
        drawn,
        [
            ("--data demo_stss", "Did you mean demo_sts"),
            ("--data csts --data-dir nowhere", "--data-dir nowhere: no such folder"),
            ("--data none.txt", "none.txt: No such file"),
            ("--data none.csv", "none.csv: No such file"),
            ("--data five.txt", "t-SNE of 5 texts: it needs at least 10"),
            ("--data two.txt --maps pca", "PCA of 2 texts: it needs at least 3"),
            ("--data pairs.csv", "no column `text`, but a, b"),
            ("--data demo_sts --colour class", r"demo_sts \(dev\) has no classes. Type --colour set"),
            ("--before", "no result in this folder"),
            ("builtin/mini_zh --before", "Leave out one"),
            ("--texts 3", "Invalid value for '--texts'"),
        ],
    ),
    (a_cross_encoder, "Name a bi-encoder"),
    (lambda f: juzhen.analyze_embeddings(f.encoder_folder, texts=["甲乙丙丁戊"] * 5), "t-SNE of 5 texts"),
    *(
        (
            lambda f, value=value: juzhen.analyze_embeddings(
                f.encoder_folder, texts=["甲"] * 9, classes=value
            ),
            "^classes",
        )
        for value in (["a"], "abcdefghi", [float("nan")] * 9, [None, *"abcdefgh"], 5)
    ),
    *each(
        read_first,
        [
            ("--data classes.csv", "--on-bad-row drop"),
            ("--data titles.csv --columns label=类,text=标题", "--on-bad-row drop"),
            ("--data longer.csv", "--on-bad-row drop"),
            ("--data blank.txt", "--on-bad-row drop"),
        ],
    ),
]

SCORED = {"kind": Kind.SCORED_PAIR, "texts": {"text_a": ["1"], "text_b": ["2"]}, "targets": [0.5]}


def a_set_with_a_faulty_row(f, words):
    f.monkeypatch.chdir(f.tmp_path)
    about = (DATASETS / "demo_qmc.yaml").read_text(encoding="utf-8")
    counts = ("rows: {train: 4000, dev: 600, test: 600}", "rows: {train: null}")
    for old, new in (("demo_qmc", "tiny"), ("source: builtin", "source: local"), counts):
        about = about.replace(old, new)
    lines = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text("utf-8").splitlines()[:61]
    for path, text in (
        ("conf/dataset/tiny.yaml", about),
        ("tiny/train.tsv", "\n".join([*lines, "没有答案\t\t1", ""])),
    ):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(text, encoding="utf-8")
    verb, *more = words.split()
    typed(f, verb, f.encoder_folder, *more, "tiny", "--data-dir", ".", "--config-dir", "conf")


TRANSFER = [
    *each(
        lambda f, splits: transfer(Vectors(), splits, **NUMBERS),
        [
            ({"train": Examples.from_texts("graded", "train", **SCORED)}, "0/1 pairs or NLI pairs"),
            ({"train": None}, "no file of any split.*data_dir="),
            ({"train": of_one_class(), "test": pairs(20, seed=1)}, "some: .*class"),
            ({"test": of_one_class()}, "some: .*class"),
        ],
    ),
    *each(
        lambda f, words: typed(f, "transfer", f.encoder_folder, *words.split()),
        [
            ("demo_qcm", "Did you mean demo_qmc"),
            ("mrpc --data-dir nowhere", "--data-dir nowhere: no such folder"),
            ("demo_qmc --limit 3", "Invalid value for '--limit'"),
            ("demo_sts", "0/1 pairs or NLI pairs"),
        ],
    ),
    *each(
        a_set_with_a_faulty_row,
        [(words, "--on-bad-row drop") for words in ("transfer", "space --maps pca --split train --data")],
    ),
]


def looked_for(f, words):
    in_a_folder(f)
    f.monkeypatch.setenv("JUZHEN_DATA", str(f.tmp_path))
    f.without_promised_rows  # noqa: B018, a fixture
    typed(f, "leaks", *words.split(), "--output", "out", "--no-progress")


LEAKS = each(
    looked_for,
    [
        ("--train afqm", "^error: .*Did you mean afqmc"),
        ("--train csts", "no file of train of csts below"),
        ("--train afqmc --evaluate csts", "--evaluate: no file of dev or test of csts"),
        ("--train afqmc --threshold 7", "at most 1"),
        ("--train afqmc --examples -1", "Invalid value for '--examples'"),
        ("--train afqmc --data-dir /nowhere", "no such folder"),
        ("--text none.txt", "none.txt: No such file"),
        ("--text afqmc", "--train afqmc"),
        ("--text none.txt --threshold 0.5", "Leave it out with --text"),
    ],
)


def of_a_run(f, kind):
    """A run on pairs, one whose text has changed since, and one with a seed that is no number."""
    words = ["training.duration=1 steps"]
    if kind != "pairs":
        text = f.tmp_path / "data" / "text" / "tatoeba_zh.txt.zst"
        text.parent.mkdir(parents=True)
        text.write_bytes(zstandard.compress("\n".join(LINES).encode()))
        f.monkeypatch.setenv("JUZHEN_DATA", str(f.tmp_path / "data"))
        words += ["model=views", "loss=info_nce", f"data_dir={f.tmp_path / 'data'}", "dataset=[text_tatoeba]"]
        words += ["debug_rows=null", "+dataset@evaluate.demo_sts=demo_sts"]
        words += ["training.monitor=dev/demo_sts/spearman"]
    run = run_job(f.tmp_path / "runs", f.tiny_backbone, *words)
    if kind == "changed":
        text.write_bytes(zstandard.compress("\n".join([*LINES, "又来了一句话"]).encode()))
    if kind == "seed":
        result = Result.read(run)
        result.config["seed"] = "seven"
        result.write(run)
    typed(f, "leaks", "--run", run, *["--evaluate", "demo_sts"][: 2 * (kind != "pairs")], "--no-progress")


OF_RUNS = each(
    of_a_run,
    [
        ("pairs", "Type --train <set> for sets of pairs"),
        ("changed", "text_tatoeba/train below"),
        ("seed", "seed=seven: expected a valid integer"),
    ],
)


CURVES = [
    (lambda f: read_curves(f.tmp_path), "metrics"),
    (
        lambda f: read_curves(write(f.tmp_path, [[0.5, 0.5, 0, 19, ""], ["much", 0.5, 0, 39, ""]])),
        "metrics.csv, line 3: ",
    ),
]

FITTED = [
    *(
        (lambda f, fit=fit: fit(np.arange(20.0), np.ones(20)), "both labels")
        for fit in (fit_platt, fit_temperature)
    ),
    (lambda f: fit_weight(np.ones(5), np.ones(5), np.arange(5.0)), "constant"),
]


def calibrated(f, words):
    joint, other = f.hasty_runs
    verb, *more = words.format(joint=joint, other=other).split()
    typed(f, verb, *more)


def calibrated_on_a_table(f, words):
    in_a_folder(f)
    typed(f, "calibrate", f.encoder_folder, "--no-plot", *words.split())


CALIBRATION = [
    *each(
        calibrated,
        [
            ("calibrate nowhere", "nowhere: no result in this folder.* --data "),
            ("calibrate {joint} --sets demo_sts", r"Did you mean demo_qmc\?"),
            ("fuse {joint} {other} --sets demo_qcm", r"Did you mean demo_qmc\?"),
        ],
    ),
    *each(
        calibrated_on_a_table,
        [
            ("--data graded.csv", "graded.csv.*label"),
            ("--data faq.csv --columns text_a=问,text_b=2,label=3", "问.*问题"),
            ("--data faq.csv --sets demo_qmc", "--sets.*--data"),
            ("--columns text_a=1,text_b=2,label=3", "--columns.*--data"),
            ("--data faq.csv faq.csv", "faq/dev.*Rename"),
            ("--data none.csv", "none.csv"),
            ("--data faulty.csv", "--on-bad-row drop"),
        ],
    ),
]


def as_fitted(f, words, *, verb="score"):
    """By files that calibrate and fuse have written for two runs."""
    (joint, other), folder = f.runs, f.fitted
    places = {
        "joint": joint,
        "other": other,
        "fusion": folder / "fusion-demo_qmc.json",
        "graded": folder / "fusion-demo_sts.json",
        "calibration": folder / "calibration-demo_qmc.json",
        "out": f.tmp_path / "out.tsv",
    }
    typed(f, verb, *words.format(**places).split())


OF_FITTED = [
    *each(
        as_fitted,
        [
            ("--fuse {joint} {other} 今天 明天", "--fuse needs --calibration FILE, which juzhen fuse writes"),
            (
                "{joint} --scaling platt 今天 明天",
                "--scaling needs --calibration FILE, which juzhen calibrate",
            ),
            ("{joint} --calibration {fusion} 今天 明天", "Type --fuse RUN RUN"),
            (
                "--fuse {other} {joint} --calibration {fusion} 今天 明天",
                r"and this is not \S+\. Name the folder",
            ),
            (
                "--fuse {joint} nowhere --calibration {fusion} 今天 明天",
                "nowhere: no such folder. Expected a run",
            ),
            ("{joint} --calibration {calibration} 今天 明天", "was fitted to the scores of another encoder"),
            ("--fuse {joint} {other} --calibration {calibration} 今天 明天", "calibration-demo_qmc.json: "),
            ("{joint} --calibration {joint}/result.json 今天 明天", "result.json: .*juzhen calibrate"),
            ("{joint} --calibration none.json 今天 明天", r"none.json: No such file"),
            (
                "--fuse {joint} {other} --calibration {graded} --scaling platt 今天 明天",
                "fitted on a set without 0/1 labels",
            ),
            ("", "expected a run or an encoder"),
            (
                "--fuse {joint} {other} --calibration {fusion} --backend torch_bf16 今天 明天",
                "without --cache and --backend",
            ),
        ],
    ),
    *each(
        partial(as_fitted, verb="distill"),
        [
            ("{graded} demo_qmc --split test --out {out} --grade probability", "without 0/1 labels"),
            ("{fusion} demo_qmc --split test --out {out} --fuse {other} {joint}", "and this is not"),
            (
                "{joint} demo_qmc --split test --out {out} --fuse {joint} {other}",
                "--fuse goes with a fusion-<set>.json",
            ),
        ],
    ),
]

REFUSED = {
    "space": SPACE,
    "transfer": TRANSFER,
    "leaks": LEAKS,
    "leaks of runs": OF_RUNS,
    "curves": CURVES,
    "fit": FITTED,
    "calibration": CALIBRATION,
    "fitted": OF_FITTED,
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, slow=["leaks of runs", "fitted"]))
def test_what_cannot_be_analysed_is_refused_by_its_name(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    assert "\n" not in str(caught.value)
