"""Words of a job that name nothing or several things, or what other toolkits call otherwise: each is answered.

Also keys that the job does not read. They are refused where they are typed.
"""

import shlex

import pytest

from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from juzhen.encoders.preflight import check_encoder_files
from launch.check import check_command_line

START = "init_from=juzhen/builtin/encoder"
ON_DEMO = "'dataset=[demo_sts]' loss=cosent"
ANSWERS = {
    # names of other toolkits
    "loss=MultipleNegativesRankingLoss": "loss=info_nce",
    "loss=mnrl": "loss=info_nce",
    "loss=CosineSimilarityLoss": "loss=cosine",
    "loss=CoSENTLoss": "loss=cosent",
    "adapter=vera": "adapter=lora",
    "model=crops": "model=views loss=info_nce",
    "hardware=gpu": "hardware=cuda",
    "dataset=bqcorpus": "dataset=bq",
    "dataset=[csts,BQCorpus]": "dataset=bq",
    "backbone=general-best": "sweep=general_ways",
    "experiment=general_best": "sweep=general_ways",
    "model=BAAI/bge-small-zh-v1.5": "backbone=BAAI/bge-small-zh-v1.5",
    "epochs=3": "training.duration='3 epochs'",
    "lr=1e-4": "optimizer.lr=1e-4",
    "learning_rate=1e-4": "optimizer.lr=1e-4",
    "optimizer.learning_rate=1e-4": "optimizer.lr=1e-4",
    "+lr=1e-4": "optimizer.lr=1e-4",
    "--lr=1e-4": "optimizer.lr=1e-4",
    "-m lr=1e-4,1e-5": "optimizer.lr=",
    "trainer.max_epochs=3": "training.duration='3 epochs'",
    "batch_size=8": "training.batch_size=8",
    "per_gpu_train_batch_size=8": "training.batch_size=8",
    "pooler_type=cls": "backbone.pooling=cls",
    "temp=0.05": "loss.temperature=0.05",
    "label_smoothing_factor=0.1": "loss.label_smoothing=0.1",
    "strategy=ddp": "hardware=cuda_ddp",
    "push_to_hub=true": "juzhen push",
    "trainer.precision=bf16-mixed": "Did you mean hardware.precision?",
    "trainer.devices=2": "Did you mean hardware.devices?",
    "temprature=0.1": "Did you mean loss.temperature or",
    "weigth_decay=0.1": "Did you mean optimizer.weight_decay?",
    "datset=[demo_sts]": "Did you mean dataset?",
    "max_seq_length=64": "backbone.max_length=64",
    "warmup_ratio=0.06": "optimizer.warmup='6 percent'",
    "scale=20": "loss.temperature=0.05",
    "model_name_or_path=BAAI/bge-m3": "backbone=BAAI/bge-m3",
    "dataset=[faq.csv,csts]": "data=faq.csv",
    "-m backbone=mini_zh,BAAI/bge-m3": "rows",
    "-m optimizer.lrr=1,2": "Did you mean optimizer.lr?",
    "-m seed=1,2,": "Type seed=1,2, or",
    "backbone.max_length=4096": "Choose 512 or less",
    # several things, a folder, a sign of another keyboard
    "loss=[cosent,mse]": "train.py -m loss=cosent,mse",
    "model=[biencoder,colbert]": "train.py -m model=biencoder,colbert",
    "optimizer=sgd": "optimizer.<key>=<value>",
    "optimizer.lr=1e\u22123": "'optimizer.lr=1e-3'",
    "optimizer.lr=1e\u20133": "'optimizer.lr=1e-3'",
    "学习率=1e-3": "unknown key",
    "data={folder}": "b.csv",
    "data={folder}/*.csv": "b.csv",
    "dataset={folder}": "data=<file>",
    # names that the real tree has otherwise
    "loss=cosnet": "cosent",
    "dataset=[csts,afqcm]": "Did you mean afqmc or afqmc_mined?",
    "benchmark=zh_maching": "zh_matching",
    "model=biencodr": "Did you mean biencoder or crossencoder?",
    "loss.temprature=0.1": "Did you mean loss.temperature?",
    "loss.temperature=low": "expected a valid number",
    "backbone=local": "backbone.path is not set",
    "optimizer.lr=abc": "expected a valid number",
    "dataset.demo_sts.name=lcqmc": "dataset.demo_sts.name=lcqmc: expected demo_sts",
    "evaluation.limit=0": "evaluation.limit",
    "adapter.rank=0": "Add adapter=",
    "adapter=lora adapter.rank=0": "backbone.adapter.rank",
    "mining.range_max=5": "Add mining=",
    "model=distill loss=distill": "train.py model.teacher=",
    "model=distill_translations loss=distill": "train.py model.teacher=",
    "model=guided loss=distill": "train.py model.teacher=",
}
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
REFUSED = dict.fromkeys(("dataset=null", "dataset=[null]", "dataset=[csts,null]"), ("=null", "dataset=[]"))
REFUSED |= {line: (hint,) for line, hint in ANSWERS.items()}
REFUSED |= {line: (hint, "not read by") for line, hint in UNREAD.items()}


def _first_checks(words):
    command = check_command_line(words, conf_dir=ROOT / "conf")
    check_encoder_files(command.job.backbone)


@pytest.mark.parametrize("line", REFUSED)
@pytest.mark.sampled(2)
def test_an_odd_word_is_answered_with_what_to_type(line, tmp_path):
    (tmp_path / "b.csv").write_text("text_a,text_b\n")
    (tmp_path / "a.bin").touch()
    words = shlex.split(line) if "'" in line else line.split()
    words = [word.replace("{folder}", str(tmp_path)) for word in words]
    if "benchmark=" not in line:
        words.append("benchmark=none")
    with pytest.raises(UserError) as caught:
        _first_checks(words)
    told = str(caught.value).replace("-m benchmark=none ", "")
    assert [word for word in REFUSED[line] if word not in told] == []


NUMBERS = [
    ["model=colbert", "loss=info_nce", "model.dim=0"],
    ["model=colbert", "loss=info_nce", "model.dim=99999"],
    ["model=crossencoder", "loss=bce", "model.head_dropout=1"],
]
