"""What a job reads is accepted; what it does not read is no part of the run's key and row."""

import shlex

import pytest
from forks import ROOT
from jobs import compose_job, key_of, typed_job

from juzhen.core.schema import ConfigError
from juzhen.identity import deciding_backbone
from launch.check import check_command_line

START = "init_from=juzhen/builtin/encoder"

READ = (
    f"{START} backbone.learning_rate=1e-4",
    "model=lexical 'dataset=[]' benchmark=demo",
    "-m model=biencoder,crossencoder backbone.pooling=cls",  # by one of them
    "-m model=biencoder,crossencoder backbone.pooling=mean,cls",
    "-m 'dataset=[],[demo_sts]' optimizer.lr=1e-4",
    "augmentation=noise augmentation.delete=0.3",
    "experiment=three_stage_demo schedule.stages.tasks.training.duration='4 steps'",  # all stages have their own
    "experiment=three_stage_demo schedule.stages.tasks.loss.temperature=0.1",  # one of its sets has its own
    "'dataset=[demo_sts,demo_qmc]' +loss@schedule.sets.demo_sts.loss=cosine "
    "+loss@schedule.sets.demo_qmc.loss=contrastive "
    "schedule.sets.demo_qmc.loss.margin=0.4",
)


def check(line: str) -> None:
    words = shlex.split(line)
    small = [] if "benchmark=demo" in words else ["benchmark=none"]
    check_command_line([*words, *small], conf_dir=ROOT / "conf")


@pytest.mark.parametrize("line", READ)
@pytest.mark.sampled(3)
def test_what_one_run_reads_is_accepted(line):
    check(line)


@pytest.mark.parametrize(
    ("job", "unread"),
    [
        ((START,), "backbone.pooling=cls"),
        (("model=crossencoder",), "backbone.pooling=cls"),
        (("model=mlm",), "loss=mse"),
        (("model=lexical",), "training.batch_size=3"),
        (("model=lexical",), "model.tokens=jieba"),
        ((), "evaluation.clusterings=5"),
        (("dataset=[]",), "optimizer.lr=1"),
        (("dataset=[]",), "backbone.dropout=0.5"),
    ],
)
def test_the_key_of_a_run_is_that_of_what_it_reads(job, unread):
    assert key_of(*job) == key_of(*job, unread) != key_of(*job, "seed=7")


def test_compiling_is_part_of_the_key():
    assert key_of() == key_of("hardware.compile=false") != key_of("hardware.compile=true")
    assert key_of("model=lexical") == key_of("model=lexical", "hardware.compile=true")


def test_a_folder_counts_once_however_its_path_is_spelt():
    keys = {
        key_of(f"backbone.path={path}")
        for path in ("builtin/mini_zh@2", "./builtin/mini_zh@2", "builtin//mini_zh@2/")
    }
    assert keys == {key_of()}


def test_what_is_measured_counts_once_in_whatever_order():
    assert key_of() == key_of("evaluation.splits=[test,dev]")
    one, other = (
        key_of(f"evaluation.transfer=[{names}]") for names in ("demo_qmc,demo_nli", "demo_nli,demo_qmc")
    )
    assert one == other != key_of()


def test_a_built_in_encoder_counts_by_its_revision():
    """The first one by its plain name, as in results from before there was a second one."""
    first = {**compose_job("backbone=mini_zh_1").backbone}
    assert deciding_backbone(first) == deciding_backbone(first | {"path": "builtin/mini_zh"})
    assert key_of() == key_of("backbone=mini_zh") != key_of("backbone=mini_zh_1")
    assert deciding_backbone({"path": "runs/a@1"}) != deciding_backbone({"path": "runs/a"})
    with pytest.raises(ConfigError, match=r"backbone\.path=builtin/mini_zh@2"):
        typed_job("backbone=local", "backbone.path=builtin/mini_zh")
    words = ["model=distill", "loss=distill", "benchmark=none", "model.teacher=builtin/mini_zh"]
    job = check_command_line(words, conf_dir=ROOT / "conf").job
    assert job.model["teacher"] == "builtin/mini_zh@2"
