"""What a job cannot do is refused before a row is read, in words that name the way out."""

import json
import shlex
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import rerankers
from forks import ROOT
from jobs import COLUMNS, SCORED, forbid_reading, module_of, ranked_rows, run_job, typed_job
from refusals import each, rows

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.paths import BUILTIN
from juzhen.data.loading import load_job_data
from juzhen.data.spec import configured_set
from juzhen.encoders import CrossEncoder, SentenceEncoder, load_encoder, save_encoder
from juzhen.encoders.projection import BilinearScore
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.metrics.classification import score_classes
from launch.check import check_command_line
from lightning_modules.base import SentenceModule
from lightning_modules.biencoder import BiEncoder
from lightning_modules.colbert import ColBERT
from lightning_modules.crossencoder import CrossEncoderModule
from lightning_modules.loss_factory import match_losses
from lightning_modules.reranker import RerankerModule
from lightning_modules.splade import Splade
from lightning_modules.trainability import require_grades

NLI = "dataset.demo_nli.learning"
REFUSED = {
    "": {
        "callbacks=[ema] callbacks.ema.decay=1": "number from 0 to below 1",
        "callbacks.space_health.probe_sentences=0": r"callbacks\.space_health\.probe_sentences=0: .* 1",
        "callbacks.space_health.collapse_cosine=1": r"space_health\.collapse_cosine=1: .* 0\.9999",
        "callbacks.space_health.collapse_rank=-1": "collapse_rank=-1: .* 0",
        "callbacks.score_health.collapse_spread=-1": "collapse_spread=-1: .* 0",
        "callbacks.loss_gradient.low=20": r"callbacks\.loss_gradient.*the lower number first",
        "callbacks.throughput._target_=callbacks.trainer.Callback": "no class of juzhen's",
        "callbacks.throughput._target_=callbacks.trainer.ModelCheckpoint": "no class of juzhen's",
        "loss=matryoshka loss.dims=[8,4096]": r"loss\.dims=\[8, 4096\]: 4096 are more than the \d+",
        "loss=matryoshka loss.dims=[]": r"loss\.dims=\[\]: expected distinct sizes",
        "loss=matryoshka loss@loss.of=softmax dataset=[demo_qmc]": "a head of one size",
        "loss=matryoshka loss@loss.of=cosent_layers": "it reads layers. Choose a loss of scores",
        "loss=matryoshka loss@loss.of=by_kind": r"loss\.of: expected a class",
        "loss=matryoshka model=crossencoder": "loss=matryoshka needs an embedding of each sentence",
        "loss=matryoshka model.score=bilinear": "does not read the score of a pair",
        "schedule=serial loss=by_kind dataset=[demo_nli,demo_sts] +loss@schedule.stages.demo_sts.loss=softmax": "loss"
        "=softmax needs",
        "weights=uncertainty": "no stage of this job mixes any",
        "dataset=[demo_sts,demo_qmc] weights=pcgrad": "callbacks.weights: .*schedule.sample_by=blend",
        "dataset=[demo_sts,demo_qmc] weights=gradnorm": "GradNorm compares the gradients",
        "dataset=[demo_sts,demo_qmc] weights=mean_loss callbacks.weights.alpha=2": "alpha=2: .* 1",
        "model=cot_single loss=info_nce_pool backbone=random_small": "initialize=random.*model.untrained_mask=true",
        "model=cot_detached loss=info_nce_pool backbone=random_small": "initialize=random",
        "loss=ce dataset=[demo_qmc]": "loss=ce",
        "loss=softmax dataset=[demo_sts]": "loss=softmax",
        "model=crossencoder loss=cosent_layers": "loss=cosent_layers",
        "model=crossencoder loss=by_kind": "loss=|by_kind",
        "model=cot loss=simcse": "loss=simcse",
        "model=views loss=triplet dataset=[demo_nli]": "loss=triplet",
        "model=views loss=clustering": "loss=clustering",
    },
    "dataset=[demo_qmc]": {
        "loss=ce": "loss=ce needs one logit per class, and model=biencoder gives none",
        "loss=distill": "loss=distill needs the vector of a teacher .* model=biencoder gives none. "
        "Type model=distill model.teacher=<",
        "loss=info_nce_guided": "loss=info_nce_guided needs the vectors of a guide .*. "
        "Type model=guided model.teacher=",
    },
    "model=crossencoder": {
        "loss=cosine": "loss=cosine needs a cosine of two embeddings, and model=crossencoder gives none",
        "loss=softmax dataset=[demo_qmc]": "needs an embedding of each sentence",
        "loss=ce dataset=[demo_sts] dataset.demo_sts.grades=null": "grades=null: loss=ce needs classes",
        "loss=ce dataset=[demo_qmc,demo_nli]": "one head.* demo_qmc 2, demo_nli 3",
        "backbone.layer_norm=true": "backbone.layer_norm is for embeddings",
        "evaluation.backend=onnx": "evaluation.backend",
        "evaluation.cache_embeddings=true": "evaluation.cache_embeddings is for .* a cross-encoder has none",
        "dataset=[demo_nli] model.symmetric=true": "premise and hypothesis cannot be exchanged",
        "dataset=[demo_nli] model.symmetric_training=true": "premise and hypothesis",
    },
    "model=distill loss=distill model.teacher=builtin/mini_zh@2": {
        "model.teacher=nowhere/at/all": "nowhere/at/all: no such folder",
        "loss=cosent": "loss=cosent needs one score per pair, and model=distill gives none. Choose one of distill, ",
        "loss=simcse": "loss=simcse needs an embedding of each sentence, and model=distill gives none",
        "cache_dir=null": "cache_dir=null: .*Type cache_dir=<a folder>",
        "+model.score=bilinear": "loss=distill does not read the score of a pair",
        "augmentation=noise": "Leave augmentation out",
    },
    "model=guided loss=info_nce_guided model.teacher=builtin/mini_zh@2 dataset=[demo_qmc]": {
        "model.teacher=nowhere/at/all": "nowhere/at/all: no such folder",
        "loss=info_nce": "loss=info_nce needs .*, and model=guided gives none. Choose one of info_nce_guided",
        "cache_dir=null": "cache_dir=null: .*Type cache_dir=<a folder>",
        "+model.score=bilinear": "loss=info_nce_guided does not read the score of a pair",
        "dataset=[demo_sts]": "demo_sts has scored pairs, which cannot be converted",
    },
    "model=views loss=info_nce": {
        "model.views=[delte]": "model.views=delte: unknown choice. Did you mean delete",
        "model.views=[translation]": "model.translations=null: no such file",
        "model.views=[translation] model.translations=nowhere.tsv": "no such file",
        "loss=cosent": "loss=cosent: model=views makes positive pairs.*info_nce",
    },
    "model.score=bilinear": {
        "loss=cosine": "model.score=bilinear: loss=cosine does not read the score .*model.score=cosine",
        "loss=info_nce dataset=[demo_qmc]": "loss=info_nce does not read the score of a pair",
        "loss=cosent_layers": "loss=cosent_layers does not read the score",
        "loss=by_kind dataset=[demo_nli]": "loss=softmax does not read the score",
    },
    "backbone.prompts={query:'问：'} backbone.default_prompt_name=query": {
        "model=crossencoder": "'问：'.*two sentences in one input.*default_prompt_name=none",
        "model=simcse loss=info_nce_pool model.language=zh": "'问：'.*templates.*default_prompt_name=none",
    },
    "augmentation=noise": {
        "model=mlm dataset=[text_lctt]": "MaskedLanguageModel learns from text alone",
        "augmentation=synonym model=views loss=info_nce": "ViewEncoder learns from text alone.*model=views",
        "loss=simcse": "the loss of demo_sts learns from single sentences",
        "augmentation=translation": "augmentation.translations=null: no such file",
        "augmentation=translation augmentation.translations=no.tsv": "augmentation.translations=no.tsv: no such",
        "augmentation.views=[delete,synonym]": r"augmentation.views.*\[synonym,delete\]",
        "augmentation.views=[synonym,translation]": r"augmentation.views.*\[translation,synonym\]",
        "augmentation.sets=[demo_stx]": "augmentation.sets=demo_stx: unknown choice. Did you mean demo_sts",
        "augmentation.sets=[]": "augmentation.sets",
        "augmentation.probability=1.5": "augmentation.probability=1.5: expected",
    },
    "dataset=[demo_nli]": {
        f"loss=info_nce_extended {NLI}.in_batch=true": "in_batch=true: loss=info_nce_extended does not ask .* "
        "Choose loss=info_nce, or type .*in_batch=null",
        f"loss=info_nce_own {NLI}.in_batch=true": "loss=info_nce_own does not",
        f"loss=info_nce loss.symmetric=true {NLI}.in_batch=false": "loss.symmetric=True is about texts of other rows",
        f"loss=info_nce loss.false_negative_margin=0 {NLI}.in_batch=false": "loss.false_negative_margin=0 is about "
        "texts of other rows",
        f"loss=info_nce dataset.demo_nli.convert_to=positive_pair {NLI}.in_batch=false": "rows are read as positive "
        "pairs, which have no negatives of their own. Have them read as triplets",
        f"loss=cosent {NLI}.num_negatives=1": "rows are read as NLI pairs",
        f"loss=triplet {NLI}.temperature=0.1": "loss=triplet has none. Choose",
        f"model=crossencoder loss=cosent {NLI}.temperature=0.1": r"divides cosines, .* Type loss.temperature=…, or "
        "type dataset.demo_nli.learning.temperature=null",
        f"loss=cosent_adaptive {NLI}.temperature=0.1": "divides cosines, and loss=cosent_adaptive gets",
        f"model=mlm {NLI}.temperature=0.1": "model=mlm has none",
        f"model=views loss=info_nce {NLI}.in_batch=false": "read as sentences",
    },
}
"""Words that make the job → further words → what is said."""


def before_rows(f, words):
    """A job that reads no row and loads no model."""
    forbid_reading(f.monkeypatch)
    for model in (BiEncoder, CrossEncoderModule):
        f.monkeypatch.setattr(
            model, "load_encoder", lambda *given, **options: pytest.fail("a model was loaded")
        )
    run_job(f.tmp_path, f.tiny_backbone, *words.split())


QLORA, BFLOAT16 = "+backbone.adapter={kind:lora,base:nf4}", "+backbone.adapter={kind:lora,base:bfloat16}"
UNSUITABLE = {
    "": {
        "adapter=lora backbone.adapter.rank=0": "rank=0",
        "adapter=lora backbone.adapter.kind=lorra": "kind=lorra",
        "training.monitor=dev/csts/spearman": "does not score csts. .*demo_sts",
        "evaluation.transfer=[snli,mrpcc]": "evaluation.transfer=mrpcc: .*Did you mean mrpc",
    },
    "benchmark=demo +dataset@evaluate.tnews=tnews": {
        "training.monitor=dev/demo_nli/triplet_accuracy": "nli pairs, .* no triplet_accuracy .* spearman",
        "training.monitor=dev/tnews/spearman": "labelled texts, .* no spearman .* class_mean_accuracy",
        "training.monitor=dev/tnews/transfer_accuracy": "transfer_accuracy chooses no checkpoint",
        "training.monitor=dev/demo_sts/mlm_accuracy": "no mlm_accuracy .* Choose spearman",
        "training.monitor=dev/demo_nli/macro_f1": "no macro_f1 .* Choose spearman or pearson",
    },
    "dataset=[demo_sts]": {
        "model=cot dataset=[demo_sts,wiki1m]": r"demo_sts \(zh\), wiki1m \(en\)"
        ".* model.language=en or model.language=zh",
        "dataset=[demo_nli] loss=softmax dataset.demo_nli.convert_to=triplet": "softmax needs NLI pairs",
        "dataset=[wiki1m] loss=info_nce dataset.wiki1m.convert_to=triplet": "convert_to=triplet: .*: sentence$",
        "dataset=[demo_retrieval] loss=by_kind dataset.demo_retrieval.convert_to=sentence": "convert_to="
        "positive_pair, or loss=<name>, one of simcse",
        "dataset=[demo_qmc] training.stratify_by=label_length loss=info_nce": r"\(demo_qmc as positive pairs\).* "
        r"training\.stratify_by=length",
        "dataset=[demo_sts] model=views training.stratify_by=label_length loss=info_nce": "as sentences",
        "loss=spread_out loss@loss.of=distill": "cannot be inside, as it reads teacher",
        "dataset=[demo_qmc] loss=matryoshka loss@loss.of=info_nce_queue": "owns a head of one size",
    },
    "model=mlm dataset=[demo_sts]": {
        "+loss@schedule.sets.demo_sts.loss=cosent": "schedule.sets.demo_sts.loss: model=mlm learns without",
        "schedule=serial +loss@schedule.stages.demo_sts.loss=cosent": "schedule.stages.demo_sts.loss: model=mlm",
    },
    "model=crossencoder loss=ce": {
        "dataset=[demo_qmc] loss=spread_out": "loss=spread_out needs an embedding",
        "dataset=[stsb_en]": r"dataset.stsb_en.grades=null: loss=ce needs classes.*grades=\[0,2.5,5\]",
        "dataset=[csts] dataset.csts.grades=[0,1,2,7]": r"two or more numbers that rise, within score_range \[0, 5\]",
        "dataset=[csts,demo_nli]": "one head, .*: csts 6, demo_nli 3",
    },
    "model=crossencoder": {
        "model.symmetric=true dataset=[demo_nli]": "symmetric=false",
        "model.symmetric_training=true dataset=[demo_nli] dataset.demo_nli.convert_to=triplet loss=list_mle": "training"
        "=false",
        "model.symmetric=true dataset=[demo_sts] +dataset@evaluate.demo_nli=demo_nli": "symmetric=false",
        "model.symmetric=true dataset=[demo_sts] benchmark=demo": "symmetric=false",
        "model.symmetric=true dataset=[] +dataset@evaluate.demo_nli=demo_nli": "symmetric=false",
        "model.symmetric=true dataset=[demo_qmc] dataset.demo_qmc.symmetric=false": "symmetric=false",
    },
    "dataset=[demo_nli]": {
        f"{NLI}.num_negatives=0": f"{NLI}.num_negatives=0",
        f"{NLI}.temperature=0": f"{NLI}.temperature=0",
        f"{NLI}.in_batch=often": f"{NLI}.in_batch=often",
    },
    "model=cot dataset=[demo_sts]": {
        "loss=cosent": "info_nce_pool",
        "loss=triplet": "positive pairs",
        "loss=info_nce model.language=fr": "language=fr",
        "loss=info_nce model.templates.zh.anchor=no": r"expected one \[X\]",
        "loss=info_nce +model.templates.zh.anchr=no": "Did you mean anchor",
        "loss=info_nce model.templates.zh.positive=null": "template for the positive",
    },
    "model=reranker": {
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        "loss=info_nce dataset=[demo_qmc]": "loss=info_nce needs",
        "loss=bce augmentation=noise dataset=[demo_qmc]": "augmentation.views=.* augmentation out",
    },
    "model=colbert": {
        "loss=triplet dataset=[demo_qmc]": "loss=triplet needs an embedding of each sentence.*Choose one of bce",
        "loss=spread_out loss@loss.of=info_nce dataset=[demo_qmc]": "loss=spread_out needs an embedding",
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        "loss=info_nce augmentation=noise dataset=[demo_qmc]": "augmentation.views=.* augmentation out",
        f"loss=cosent {QLORA}": "adapter.base=nf4: model=colbert .* backbone.adapter.base=float32",
        f"loss=cosent {BFLOAT16}": "base=bfloat16: model=colbert",
    },
    "model=splade": {
        "loss=triplet dataset=[demo_qmc]": "loss=triplet needs an embedding of each sentence",
        "loss=matryoshka loss@loss.of=info_nce dataset=[demo_qmc]": "loss=matryoshka needs",
        "loss=contrastive dataset=[demo_qmc]": "needs a cosine of two embeddings",
        "loss=info_nce_weighted dataset=[demo_qmc]": "hardness_strength multiplies cosines",
        "loss=bce dataset=[demo_qmc]": "never below 0. Type loss=cosent",
        "loss=mse": "never below 0",
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        f"loss=cosent {QLORA}": "adapter.base=nf4: model=splade .* backbone.adapter.base=float32",
        f"loss=cosent {BFLOAT16}": "base=bfloat16: model=splade",
        "loss=cosent model.pooling=mean": r"model\.pooling=mean: expected one of max, sum",
        "loss=cosent model.query_flops=-1": r"model\.query_flops=-1: expected a number from 0",
        "loss=info_nce dataset=[demo_qmc] +dataset.demo_qmc.learning={temperature:0.05}": "divides cosines",
    },
    "hardware=cuda_fsdp": {
        "hardware.precision=16-mixed": "hardware.precision=bf16-mixed",
        "callbacks=[default,ema]": "callbacks.ema=null",
        "mining=dynamic dataset=[demo_qmc] loss=info_nce": "callbacks.mining=null",
        "adapter=qlora": "adapter=lora",
    },
}
"""The same of losses and models that do not suit, which a job says before it begins."""

BEFORE_TORCH = {
    "augmentation.views=[delte]": r"augmentation.views\[0\]=delte: .*Did you mean delete",
    "augmentation.delete=1": "augmentation.delete=1: .*less than 1",
    "augmentation.shuffle=1": "augmentation.shuffle=1: .*equal to 2",
    "augmentation=synonyms": "Did you mean synonym",
    "loss=cosent model._target_=lightning_modules.biencoder.BiEncodr": "Did you mean lightning_modules.biencoder."
    "BiEncoder",
    "~model": "model=biencoder",
    "training.monitor=dev/demo_sts/mlm_loss": "mlm_loss: unknown metric. Known: .*mlm_accuracy",
    "model=crossencoder loss=cosent dataset=[csts] dataset.csts.grades=[0,5]": "model=crossencoder loss=ce alone",
}


def joined(table):
    """Words that make a job and further ones, and what is said."""
    return [(f"{job} {more}", said) for job, cases in table.items() for more, said in cases.items()]


@pytest.fixture(scope="module")
def bilinear(encoder_folder, tmp_path_factory):
    """An encoder that scores pairs by a learnt form."""
    encoder = load_encoder(encoder_folder)
    encoder.score_head = BilinearScore(encoder.dim)
    return save_encoder(encoder, tmp_path_factory.mktemp("bilinear") / "encoder", card={})


@pytest.fixture(scope="module")
def colbert(encoder_folder, tmp_path_factory):
    reading = MultiVectorSettings(query_length=12, document_length=30, expand_to=12)
    encoder = MultiVectorEncoder.around(load_encoder(encoder_folder), dim=8, reading=reading)
    return encoder.save(tmp_path_factory.mktemp("colbert") / "encoder")


@pytest.fixture(scope="module")
def splade(encoder_folder, tmp_path_factory):
    return SparseEncoder.around(load_encoder(encoder_folder)).save(
        tmp_path_factory.mktemp("splade") / "encoder"
    )


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    place = rerankers.write("qwen3", tmp_path_factory.mktemp("lm") / "m", tied=False, by_bytes=False)
    encoder = SentenceEncoder.load(place)
    options = {"true_answer": "a", "false_answer": "b", "template": "{query} > {document}"}
    return GenerativeReranker.around(encoder, **options).save(place.parent / "asked")


def joint(f, **options):
    options = {"outputs": 1, "segments": True, "symmetric": False, "seed": 0} | options
    return CrossEncoder(load_encoder(f.encoder_folder), **options)


def pairs(f, **options):
    return save_encoder(joint(f, **options), f.tmp_path / "joint", card={})


def of_seven(f):
    """A form over more numbers than embeddings have."""
    folder = shutil.copytree(f.bilinear, f.tmp_path / "seven")
    BilinearScore(7).save(folder)
    return folder


def of_grades(f, grades):
    folder = pairs(f, outputs=6, grades=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    settings = json.loads((folder / "crossencoder.json").read_text())
    (folder / "crossencoder.json").write_text(json.dumps(settings | {"grades": grades}))
    return folder


def rows_of_other_scores(f):
    columns = {"text_a": ["甲", "乙", "丙"], "text_b": ["丁", "戊", "己"]}
    targets = np.array([1, 0.2, 0.5], dtype=np.float32)
    examples = Examples.from_texts("csts", "train", kind=Kind.SCORED_PAIR, texts=columns, targets=targets)
    require_grades(examples, configured_set("csts"))


def without_mask_token(f):
    folder = shutil.copytree(f.tiny_backbone, f.tmp_path / "no_mask")
    for name in ("tokenizer_config.json", "tokenizer.json"):
        content = json.loads((folder / name).read_text("utf-8"))
        content.pop("mask_token", None)
        content["added_tokens"] = [
            one for one in content.get("added_tokens", []) if one["content"] != "[MASK]"
        ]
        if "tokenizer_class" in content:
            content["tokenizer_class"] = "PreTrainedTokenizerFast"
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def run(f, words, *, reads=True):
    """A job of these words, in which fixtures stand for their folders."""
    if not reads:
        forbid_reading(f.monkeypatch)
    names = {name: str(getattr(f, name)) for name in ("bilinear", "encoder_folder") if f"{{{name}}}" in words}
    return run_job(f.tmp_path, f.tiny_backbone, *shlex.split(words.format(**names)))


def lacking(name):
    return {column: place for column, place in SCORED.items() if column != name}


def ranked(f, columns, last="0.5"):
    return run_job(
        f.tmp_path, f.tiny_backbone, "loss=margin_mse", *ranked_rows(f.tmp_path / "data", columns, last)
    )


def without_teacher_scores(f, model, words):
    forbid_reading(f.monkeypatch)
    words = words or ranked_rows(f.tmp_path / "data", COLUMNS)
    return run_job(f.tmp_path, f.tiny_backbone, f"model={model}", "loss=list_kl", *words)


def more_negatives(f):
    words = ranked_rows(f.tmp_path / "data", SCORED, "0.5")
    job = typed_job("benchmark=none", "loss=list_kl", *words)
    job.dataset["simclue_rank"].learning.num_negatives = 4
    return load_job_data(job, {"simclue_rank": Kind.TRIPLET})


def projected(f):
    """A student of more dimensions than its teacher."""
    forbid_reading(f.monkeypatch)
    words = ("model=distill", "loss=distill", f"model.teacher={f.encoder_folder}", "model.projection=pca")
    return run_job(f.tmp_path, BUILTIN / "mini_zh@2", *words)


def job_from(folder, model, *words):
    return typed_job("benchmark=none", f"model={model}", f"init_from={folder}", *words)


def symmetric_from(f, *words):
    job = job_from(pairs(f, symmetric=True), "crossencoder", *words)
    try:
        match_losses(job)
    finally:
        job.model["symmetric"] = False
        match_losses(job)


UNFREEZING = (
    "callbacks=[default,unfreezing] training.patience=null 'callbacks.unfreezing.head_warmup=2 steps'"
)
CALLS = {
    "a command line": each(before_rows, joined(REFUSED)),
    "a loss or model": each(
        lambda f, words: match_losses(typed_job("benchmark=none", *words.split())), joined(UNSUITABLE)
    ),
    "before torch": each(
        lambda f, words: check_command_line([*words.split(), "benchmark=none"], conf_dir=ROOT / "conf"),
        BEFORE_TORCH.items(),
    ),
    "a job": [
        (lambda f, words=words: run(f, words), told)
        for words, told in {
            "benchmark=demo evaluation.cache_embeddings=true cache_dir=null": "cache_embeddings=true: .*cache_dir",
            "model=mlm evaluation.backend=torch_bf16 benchmark=demo": "MaskedLanguageModel .*more than embeddings",
            "loss=r_drop backbone.dropout=0": r"has none. Type backbone\.dropout=0\.1",
            UNFREEZING: "head_warmup: demo_sts has no weights above the layers",
            f"{UNFREEZING} dataset=[demo_sts,demo_qmc] weights=uncertainty": "head_warmup: demo_sts has no weights",
            "model=distill loss=distill_mse model.teacher={bilinear}": "learnt form uᵀWv, .*model.score=cosine",
            "dataset=[demo_sts,demo_qmc] weights=focal training.monitor=dev/demo_sts/spearman": "demo_qmc has no dev",
            "'training.validate_every=3 steps' callbacks.space_health.on_collapse=stop callbacks.space_health."
            "collapse_cosine=-0.9": "collapsed at step 3",
            "model=crossencoder 'training.validate_every=3 steps' callbacks.score_health.on_collapse=stop "
            "callbacks.score_health.collapse_spread=9": "collapsed at step 3.*score_health.on_collapse=warn",
        }.items()
    ],
    "a job before rows": [
        (
            lambda f: run(f, "model=mlm init_from={bilinear}", reads=False),
            r"bilinear form: .*\+model.score=cosine",
        ),
        (
            lambda f: run(f, "model=views loss=info_nce init_from={bilinear}", reads=False),
            r"bilinear form: .*\+model.score=cosine",
        ),
        (projected, "256 numbers and the teacher 32"),
        (
            lambda f: run_job(f.tmp_path, f.tiny_backbone, f"init_from={pairs(f)}"),
            "cross-encoder with a head of its own.* model=crossencoder",
        ),
        *(
            (
                lambda f, model=model, words=words: without_teacher_scores(f, model, words),
                "loss=list_kl needs a teacher score .* score_positive",
            )
            for model in ("biencoder", "crossencoder")
            for words in ((), ("dataset=[demo_nli]",))
        ),
    ],
    "rows": [
        (lambda f: ranked(f, SCORED, "nan"), r"train.tsv.*8: score_negative_2 is 'nan', expected a finite"),
        (lambda f: ranked(f, SCORED, "viel"), r"train.tsv.*8: score_negative_2 is 'viel', expected a finite"),
        (lambda f: ranked(f, lacking("score_negative"), "0"), "needs a column for score_negative, "),
        (lambda f: ranked(f, lacking("negative_2"), "0"), "score_negative_2, which a triplet does not have"),
        (more_negatives, "num_negatives=4: .* have 2. Name more columns negative_2"),
        (rows_of_other_scores, "csts/train.*2.5, .* dataset.csts.grades"),
    ],
    "a folder": [
        (lambda f: load_encoder(of_seven(f)), "score.safetensors: .* 32 numbers"),
        *(
            (
                lambda f, wrong=wrong: CrossEncoder.load(of_grades(f, wrong)),
                "6 classes needs a grade for each",
            )
            for wrong in ([], [0, 1], [0, 0.2, 0.4, 0.6, 0.8, 7])
        ),
        (lambda f: module_of(without_mask_token(f), "dataset=[demo_sts]", "model=mlm"), "no mask token"),
        (
            lambda f: ColBERT.load_encoder(job_from(f.colbert, "colbert", "model.markers=false")),
            r"model\.markers: .* made otherwise",
        ),
        (
            lambda f: Splade.load_encoder(job_from(f.splade, "splade", "loss=cosent", "model.pooling=sum")),
            r"model\.pooling: .* with max. Leave it out",
        ),
        (
            lambda f: RerankerModule.check_start(job_from(f.reranker, "reranker", "model.true_answer=a")),
            r"model\.true_answer: .* is a reranker, and has its own",
        ),
        (
            lambda f: CrossEncoderModule.check_start(job_from(f.reranker, "crossencoder")),
            "scores by its answer.* model=reranker",
        ),
        (lambda f: BiEncoder.load_encoder(job_from(f.reranker, "biencoder")), r"CrossEncoder\.load"),
        (
            lambda f: RerankerModule.load_encoder(
                typed_job(
                    "benchmark=none",
                    "model=reranker",
                    "backbone=random_small",
                    f"backbone.path={f.tiny_backbone}",
                )
            ),
            "needs a causal language model, and this is bert",
        ),
        (lambda f: symmetric_from(f, "dataset=[demo_nli]"), "symmetric=false"),
        (
            lambda f: symmetric_from(f, "dataset=[demo_qmc]", "+dataset@evaluate.demo_nli=demo_nli"),
            "symmetric=false",
        ),
    ],
}


SAMPLED = dict.fromkeys(CALLS, 2) | {"a command line": 6, "before torch": 1}


@pytest.mark.parametrize(("call", "words"), rows(CALLS, sampled=SAMPLED))
@pytest.mark.sampled(2)
def test_what_a_folder_or_rows_do_not_hold_is_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_a_score_that_is_no_number_is_named_by_its_row():
    texts = {column: list("ab") for column in ("premise", "hypothesis")}
    examples = Examples.from_texts("nli", "dev", kind=Kind.NLI_PAIR, texts=texts, targets=[0, 0])
    with pytest.raises(ValueError, match="nli/dev: row 1"):
        score_classes(np.array([[0.0, 1], [np.nan, 0]]), examples)


def test_a_metric_that_a_model_does_not_give_chooses_nothing_in_silence():
    data = SimpleNamespace(
        selection=SimpleNamespace(columns=["dev/demo_sts/spearman", "dev/demo_nli/mrr"]), validation_plan=None
    )
    module = SimpleNamespace(
        trainer=SimpleNamespace(datamodule=data),
        validates_as_tested=False,
        _put_out=lambda: None,
        _score=lambda *given: SimpleNamespace(scores={"dev/demo_sts/spearman": None}),
    )
    with pytest.raises(UserError, match=r"training\.monitor: .*dev/demo_nli/mrr"):
        SentenceModule.on_validation_epoch_end(module)


MINE = "mine demo_retrieval {} --out {out}/of_tests.tsv --range-max 10 --limit 8 --num-negatives 1"
VERBS = [
    ("colbert", f"{MINE} --index hnsw", "one per token. Type --index exact"),
    ("colbert", f"{MINE} --index centroids", "exact"),
    ("colbert", f"{MINE} --cache {{out}}/kept", "cache: "),
    *((name, "encode {} {texts}", "") for name in ("colbert", "splade")),
    *((name, "export {} {out}/export", "") for name in ("colbert", "splade")),
    *((name, "space {} --dataset demo_sts", "") for name in ("colbert", "splade")),
    ("splade", f"{MINE} --index hnsw", "sparse ones"),
    ("splade", "index build {texts} {} --out {out}/index", ""),
    ("splade", "score {} a b --truncate-dim 8", ""),
    ("encoder_folder", "score {} a b --words", "take a sparse encoder"),
    ("pairs", "score {} a b --backend onnx", "has no embeddings"),
    ("pairs", "score {} a b --cache {out}/kept", "has no embeddings"),
]


@pytest.mark.parametrize(("kind", "words", "told"), VERBS)
@pytest.mark.sampled(3)
def test_a_verb_that_an_encoder_cannot_serve_says_so_in_a_line(f, kind, words, told, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("怎么退货\n", encoding="utf-8")
    folder = pairs(f) if kind == "pairs" else getattr(f, kind)
    places = {"texts": tmp_path / "texts.txt", "out": tmp_path / "out"}
    assert main([word.format(folder, **places) for word in words.split()]) == 2
    output = capsys.readouterr()
    assert told in output.err
    assert "\n" not in output.err.strip()  # one line, and no traceback
    assert {path.name for path in tmp_path.glob("out/*")} <= {"of_tests.shards"}
