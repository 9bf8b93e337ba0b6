"""A key that a job does not read is refused where it is typed, and is no part of the run's key and row."""

import shlex

import pytest
from forks import ROOT
from jobs import compose_job, key_of, typed_job

from juzhen.core.errors import UserError
from juzhen.core.schema import ConfigError
from juzhen.identity import deciding_backbone
from launch.check import check_command_line

START = "init_from=juzhen/builtin/encoder"
ON_DEMO = "'dataset=[demo_sts]' loss=cosent"

UNREAD = {
    f"{START} backbone.pooling=cls": "replaces the backbone",
    f"{START} backbone.max_length=32": "backbone.path=<its encoder folder> backbone.max_length=…",
    f"{START} backbone=random_small": "replaces the backbone",
    f"{START} backbone=mini_zh backbone.learning_rate=1e-4": "replaces the backbone",
    "model=crossencoder backbone.pooling=mean model.pooling=mean": "has no embeddings",
    "model=mlm loss=cosent": "learns without a loss",
    "model=crossencoder backbone.normalize=true": "model.pooling=cls or mean",
    f"-m sweep=pooling model=crossencoder {ON_DEMO}": "backbone.pooling=cls",
    "-m model=crossencoder seed=1,2 backbone.pooling=cls": "has no embeddings",
    "-m model=crossencoder seed=1,2 backbone.pooling=mean,cls": "has no embeddings",
    "model=cot loss=info_nce_pool backbone.pooling=max": "model.read=pooling",
    "model=mlm loss=mse": "learns without a loss",
    "-m model=mlm loss=mse,cosent": "learns without a loss",
    "model=lexical benchmark=demo loss=mse": "learns nothing",
    "'dataset=[]' benchmark=demo mining=dynamic": "nothing is trained",
    "augmentation.delete=0.3": "augmentation.views",
    "schedule.temperature=3": "no stage mixes",
    "'dataset=[demo_sts,demo_qmc]' schedule.sample_by=blend schedule.temperature=3": "sample_by=blend",
    "experiment=three_stage_demo training.duration='4 steps'": "every set or stage has its own",
    "schedule.weigh_loss=true": "no stage mixes",
    "optimizer.lr=1e-3 backbone.learning_rate=1e-4": "replaces it",
    "'dataset=[demo_sts,demo_nli]' loss=by_kind schedule=serial "
    "+loss@schedule.stages.demo_nli.loss=ce +loss@schedule.sets.demo_nli.loss=softmax": "Keep one of the two",
}
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


@pytest.mark.parametrize("line", UNREAD)
@pytest.mark.sampled(5)
def test_what_a_job_does_not_read_is_refused(line):
    with pytest.raises(UserError) as refusal:
        check(line)
    assert UNREAD[line] in str(refusal.value)
    assert "not read by" in str(refusal.value)


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
