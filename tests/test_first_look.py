"""Mistakes in data, encoders, devices and losses are told before torch is loaded, and before a folder is made."""

import json

import pytest
from forks import python
from jobs import SMALL, compose_job

import train
from juzhen.core.kinds import UNSCORED
from juzhen.core.result import Result
from juzhen.data import loading
from juzhen.data.loading import LOOKED_AT_BYTES, look_at_data
from launch.job import read_job

GOOD = "sentence1\tsentence2\tlabel\n今天天气好\t天气不错\t4.0\n我想退货\t怎么改密码\t1.0\n他在跑步\t他正在跑\t5.0\n"
OWN = ["dataset.demo_sts.source=local", "dataset.demo_sts.rows={train:null,dev:null,test:null}"]

PROGRAM = """
import importlib.abc, io, json, sys, time
from contextlib import redirect_stderr

class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "transformers", "pytorch_lightning", "datasets"):
            raise ImportError(f"{name} is loaded")

sys.meta_path.insert(0, NoTorch())
import train
from juzhen.cli.program import status_of
for words in json.loads(sys.argv[1]):
    sys.argv = ["train.py", *words]
    told, since = io.StringIO(), time.process_time()
    with redirect_stderr(told):
        status = status_of(train.main)
    print(json.dumps([status, told.getvalue(), time.process_time() - since]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data folder with one good set, one without labels, one column short; a broken encoder beside them."""
    root = tmp_path_factory.mktemp("place")
    for name, content in {
        "good": GOOD,
        "label": GOOD.replace("1.0", "viel"),
        "column": GOOD.replace("sentence2", "sentence_2"),
    }.items():
        (root / name / "demo_sts").mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (root / name / "demo_sts" / f"{split}.tsv").write_text(content, encoding="utf-8")
    (root / "encoder").mkdir()
    (root / "encoder" / "config.json").write_text("{")
    return root


def mistakes(root):
    """Words of a command line → what is said of them."""
    return {
        (f"data_dir={root}/nowhere", *OWN): "nowhere: no such folder. Choose data_dir=",
        (f"data_dir={root}", *OWN): "not found",
        (f"data_dir={root}/label", *OWN): "'viel', not a number",
        (f"data_dir={root}/column", *OWN): "Did you mean sentence_2?",
        ("hardware=mps_m4", "hardware.devices=2"): "hardware.",
        ("hardware.precision=16-mixed",): "needs CUDA",
        (f"cache_dir={root}/encoder/config.json/x",): "config.json is a file, not a folder",
        ("loss=softmax",): "loss=softmax needs NLI pairs or labelled pairs",
        (
            "loss=ce",
            "dataset=[demo_qmc]",
        ): "loss=ce needs one logit per class, and model=biencoder gives none",
        ("backbone=local", f"backbone.path={root}/nowhere"): "no such folder",
        ("backbone=local", f"backbone.path={root}/encoder"): "encoder: no tokenizer",
        ("backbone=bert_zh",): "HF_HUB_OFFLINE is set",
        (f"init_from={root}/good",): "neither a run nor an encoder",
        ("dataset=csts", "source=hub"): "csts: source=hub, but HF_HUB_OFFLINE is set",
        ("dataset=[]", "benchmark=none"): "there is nothing to evaluate",
    }


@pytest.fixture(scope="module")
def answers(place):
    """What is said of each mistake, and at last of a job that is right: (status, words, seconds of the processor)."""
    lines = [["benchmark=none", *words, f"output_dir={place / 'runs'}"] for words in mistakes(place)]
    lines.append(["benchmark=none", *OWN, f"data_dir={place}/good", f"output_dir={place / 'made'}"])
    ended = python("-c", PROGRAM, json.dumps(lines))
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(found) == len(lines), ended.stderr
    return found


@pytest.mark.slow
def test_mistakes_are_told_before_torch_is_loaded_and_leave_no_folder(place, answers):
    for (words, part), (status, told, seconds) in zip(mistakes(place).items(), answers[:-1], strict=True):
        assert status == 2, (words, status, told)
        assert told.startswith("error: "), words
        assert told.count("\n") == 1, told
        assert part in told, words
        assert seconds < 6, words  # of the processor; 0.7 on a quick machine
    assert not (place / "runs").exists()


@pytest.mark.slow
def test_a_job_that_is_right_says_that_torch_is_loaded(answers):
    status, told, _ = answers[-1]
    assert status == 1
    assert "ImportError: torch is loaded" in told
    assert told.startswith("loading torch …\n")
    assert told.count("loading torch") == 1


def job_of(*words):
    return read_job(compose_job(*SMALL, *words))


@pytest.fixture
def read(monkeypatch):
    """Set and split of everything that is read."""
    splits = []
    load = loading.load_examples
    monkeypatch.setattr(
        loading,
        "load_examples",
        lambda config, split, **how: splits.append((config.name, split)) or load(config, split, **how),
    )
    return splits


def test_small_files_are_read_before_torch_and_once_after_it(place, tmp_path, tiny_backbone, read):
    words = (
        *SMALL,
        *OWN,
        f"data_dir={place}/good",
        f"output_dir={tmp_path}",
        f"backbone.path={tiny_backbone}",
    )
    config = compose_job(*words, "training.duration=1 steps")
    splits = [("demo_sts", split) for split in ("dev", "test", "train")]
    train.first_look(read_job(config))
    assert sorted(read) == splits
    read.clear()
    train.run_job(config, is_checked=True)
    assert sorted(read) == splits
    assert Result.read(config.run_dir).data["train/demo_sts"]["rows"] == 3


def test_large_files_are_left_for_later(place, monkeypatch, read):
    job = job_of(*OWN, f"data_dir={place}/label")
    monkeypatch.setattr("juzhen.data.loading.LOOKED_AT_BYTES", 10)
    look_at_data(job, unscored=UNSCORED)
    assert read == []
    assert LOOKED_AT_BYTES > 10**6


def test_sets_that_a_model_does_not_read_are_left_alone(place, read):
    """The lexical baseline learns from nothing and loads no encoder; a model of running text scores no pairs."""
    words = (
        f"data_dir={place}/label",
        *OWN,
        "backbone.path=no/such/folder",
        "model=lexical",
        "benchmark=demo",
    )
    train.first_look(job_of(*words))
    assert ("demo_sts", "train") not in read
    assert ("demo_qmc", "dev") in read
