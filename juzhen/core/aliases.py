"""Names of other toolkits, papers and earlier versions for losses, sets, settings, verbs and options, for hints.

In `SETTINGS`, {value} is the typed value, {percent} is 100 times it, and {inverse} is 1 divided by it.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any, TypeVar

from juzhen.core.progress import tell

Taker = TypeVar("Taker", bound=Callable[..., Any])


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Name of others → what to type, from what to type → their names for it."""
    return {name: typed for typed, words in names.items() for name in words.split()}


LOSSES = _by_name(
    {
        "loss=info_nce": "mnrl mnr multiplenegativesranking",
        "loss=info_nce_in_batch": "inbatchnegatives infoncewithinbatchnegatives",
        "loss=info_nce loss.symmetric=true": "multiplenegativessymmetricranking",
        "loss=info_nce hardware.micro_batch_tokens=8192": "cachedmultiplenegativesranking",
        "loss=info_nce loss.symmetric=true hardware.micro_batch_tokens=8192": "cachedmultiplenegativessymmetricranking",
        "model=guided loss=info_nce_guided": "gistembed",
        "model=guided loss=info_nce_guided hardware.micro_batch_tokens=8192": "cachedgistembed",
        "loss=cosine": "cosinesimilarity cosinemse",
        "loss=triplet_batch_all": "batchalltriplet",
        "loss=triplet_soft_margin": "batchhardsoftmargintriplet",
        "loss=matryoshka_2d": "adaptivelayer",
        "loss=spread_out": "globalorthogonalregularization",
        "loss=list_kl": "distillkldiv listnet",
        "model=distill loss=distill_cosine": "embeddistill",
        "model=crossencoder loss=bce": "binarycrossentropy bcewithlogits",
        "model=crossencoder loss=ce": "crossentropy",
        "loss=nt_xent": "simclr",
        "loss=arcface": "additiveangularmargin",
        "loss=sup_con": "supervisedcontrastive",
        "loss=quantile": "pinball",
        "loss=huber": "smoothl1 mae",
        "loss=info_nce_weighted": "embeddinggemma",
        "model=splade": "splade cachedsplade flops",
        # What is not here, with the nearest that is.
        "loss=triplet_soft_margin (no margin)": "batchhardtriplet",
        "loss=triplet_batch_all (all triplets that violate the margin)": "batchsemihardtriplet",
        "loss=triplet_online (one margin between positive and negative, not one for each)": "megabatchmargin",
        "model=views loss=info_nce (from texts alone, by contrast and without a decoder)": "denoisingautoencoder tsdae",
        "loss=simcse (from texts alone, with one encoder instead of two)": "contrastivetension "
        "contrastivetensionlossinbatchnegatives",
        "loss=matryoshka (short and dense, not sparse. Sparse by terms: model=splade)": "csr csrreconstruction",
    }
)
MODELS = _by_name(
    {
        "model=biencoder": "sentencetransformer sbert siamese twotower dualencoder embedding",
        "model=cot": "cotbert twostagecot twostagecotbert",
        "model=colbert": "lateinteraction multivector",
        "model=splade": "sparse",
        "model=crossencoder": "rank",
        "model=lexical": "tfidf",
        "model=guided": "gist",
        "model=views loss=info_nce": "crops",
        "backbone=bert_en (Chinese: bert_zh)": "bert",
    }
)
BACKBONES = _by_name(
    {
        "backbone=bert_zh": "bertbasechinese",
        "backbone=bert_en": "bertbaseuncased",
        "backbone=bert_en (Chinese: bert_zh)": "bertbase bert",
        "backbone=roberta_wwm_zh": "chineserobertawwmext robertawwmext",
        "backbone=macbert_zh": "chinesemacbertbase macbert",
        "backbone=bge_small_zh": "bgesmallzhv15",
        "backbone=e5_small": "multilinguale5small",
        "backbone=minilm_en": "allminilml6v2",
        "backbone=m3e_base": "m3e",
        "backbone=modernbert_base": "modernbert",
        "backbone=mmbert_base": "mmbert",
        "backbone=qwen3_embedding_0_6b": "qwen3embedding",
    }
)
DATASETS = _by_name(
    {
        "dataset=bq": "bqcorpus",
        "dataset=csts": "chinesestsb stsbchinese stsbzh cnsdsts cnsdstsb chnstsb",
        "dataset=stsb_en (Chinese: csts)": "stsb sts",
        "dataset=stsb_en": "stsbenchmark",
        "dataset=pawsx_zh": "pawsx",
        "dataset=xiaobu": "oppoxiaobu oppo",
        "dataset=pkuparaph": "pkuparaphrasebank",
        "dataset=allnli_zh (English: 'dataset=[snli,mnli]')": "nli",
        "dataset=allnli_zh": "nlizh",
        "'dataset=[snli,mnli]' (Chinese: allnli_zh)": "allnli",
        "dataset=csnli": "cnsdnli snlizh",
        "dataset=mnli": "multinli",
        "dataset=qqp": "quora",
        "dataset=newsgroups": "20newsgroups",
        "dataset=msmarco": "msmarcopassages",
        "dataset=wiki1m": "wikipedia",
        "dataset=tatoeba_en_zh": "tatoeba",
        "dataset=simclue": "simcluev1",
        "dataset=simclue_positive": "simcluev2",
        "dataset=simclue_rank": "simcluev3",
        "dataset=simclue_rank loss=triplet": "simcluev4",
    }
)
HARDWARE = _by_name(
    {
        "hardware=cuda": "gpu nvidia cuda0",
        "hardware=cuda_ddp": "multigpu gpus ddp",
        "hardware=cuda_fsdp": "fsdp deepspeed",
        "hardware=mps_m4": "mps mac m1",
        "hardware=cpu_bf16 (on a GPU: hardware=cuda hardware.precision=bf16-mixed)": "bf16",
    }
)
LOGGERS = {"wandb": "logger=wandb_online", "none": "logger=csv"}
SCHEDULES = _by_name(
    {
        "schedule=serial": "curriculum sequential",
        "schedule=mix": "multitask mixture",
    }
)
SETTINGS = _by_name(
    {
        "optimizer.lr={value}": "lr learningrate",
        "training.duration='{value} epochs'": "epochs epoch numepochs numtrainepochs maxepochs",
        "training.duration='{value} steps'": "steps maxsteps",
        "training.batch_size={value}": "batchsize trainbatchsize",
        "training.batch_size={value} (over all devices)": "perdevicetrainbatchsize pergputrainbatchsize",
        "hardware.eval_batch_tokens=… (a number of tokens)": "perdeviceevalbatchsize pergpuevalbatchsize evalbatchsize",
        "training.accumulate={value}": "gradientaccumulationsteps accumulategradbatches",
        "hardware.micro_batch_tokens=… (a number of tokens)": "minibatchsize",
        "backbone.max_length={value}": "maxseqlength maxlength maxlen querymaxlen passagemaxlen",
        "backbone={value}": "modelnameorpath modelname modelpath basemodel pretrainedmodelnameorpath",
        "init_from={value}": "checkpoint",
        "resume=auto": "resumefromcheckpoint ckptpath",
        "dataset={value}": "datasetname",
        "juzhen dataset FILE --columns {value}, once. Then data=FILE reads it so": "columns",
        "data={value}": "trainfile trainpath traindata file",
        "optimizer.warmup='{percent} percent'": "warmupratio",
        "optimizer.warmup='{value} steps'": "warmupsteps",
        "optimizer.weight_decay={value}": "weightdecay",
        "optimizer.clip_norm={value}": "maxgradnorm gradientclipval",
        "optimizer.decay={value}": "lrschedulertype scheduler",
        "training.validate_every='{value} steps'": "evalsteps evaluationsteps",
        "training.checkpoint_every='{value} steps'": "savesteps",
        "training.patience={value}": "earlystoppingpatience",
        "training.monitor={value}": "metricforbestmodel",
        "loss.temperature={inverse}": "scale",
        "backbone.pooling={value}": "pooling poolingmode poolingtype poolertype sentencepoolingmethod",
        "backbone.normalize={value}": "normalizeembeddings normalized",
        "seed={value}": "randomseed seedeverything",
        "hardware={value}": "device",
        "hardware=cuda": "gpu",
        "hardware=cuda_ddp hardware.devices={value}": "gpus numgpus",
        "hardware.precision=16-mixed": "fp16 useamp mixedprecision",
        "hardware.precision=bf16-mixed": "bf16",
        "hardware.gradient_checkpointing={value}": "gradientcheckpointing",
        "hardware.num_workers={value}": "dataloadernumworkers",
        "hardware.compile={value}": "torchcompile",
        "logger=csv or logger=default": "reportto",
        "logger.every_steps={value}": "loggingsteps",
        "output_dir={value}": "outputpath savedir",
        "cache_dir={value}": "cachefolder",
        "adapter=lora": "uselora",
        "adapter=lora backbone.adapter.rank={value}": "loraranks lorar lorarank",
        "adapter=lora backbone.adapter.alpha={value}": "loraalpha",
        "loss=matryoshka loss.dims={value}": "matryoshkadims",
        "training.validate_every='0.5 epochs'": "evalstrategy",
        "mining=dynamic callbacks.mining.num_negatives={value}": "numhardnegatives",
        "name={value}": "runname",
        "++dataset.<set>.limit={value}": "maxtrainsamples maxsamples",
        "loss.temperature={value}": "temp",
        "loss.label_smoothing={value}": "labelsmoothingfactor",
        "training.validate_every='{value} epochs' (or steps)": "valcheckinterval",
        "hardware=cuda_ddp or hardware=cuda_fsdp": "strategy deepspeed fsdp",
        "model=crossencoder loss=ce (an output for each class of the set)": "numlabels",
        "juzhen push RUN OWNER/NAME, after the training": "pushtohub hubmodelid",
    }
)
ENCODERS = "python train.py --help in a clone (docs/guides/choose.md compares the encoders)"
VERBS = _by_name(
    {
        "python train.py in a clone, or juzhen.fit in Python": "train finetune fit",
        "python train.py -m in a clone": "sweep",
        "juzhen index build, then juzhen index search": "search retrieve",
        "juzhen index search": "query",
        "juzhen index build": "build create",
        "juzhen index add": "add insert",
        "juzhen index remove": "remove delete",
        "juzhen index search --rerank, or /v2/rerank of juzhen serve": "rank rerank",
        "juzhen score --threshold; a run has its own in encoder/thresholds.json": "threshold",
        "juzhen score --decide": "decide",
        "juzhen encode": "embed embedding embeddings vectors",
        "juzhen encode or juzhen score": "infer",
        "juzhen score": "predict similarity sim pairs",
        "juzhen evaluate": "eval test validate",
        "juzhen mteb": "benchmark bench",
        "juzhen serve": "server api up web",
        "juzhen --help": "help usage man",
        "juzhen --version": "version about",
        "hf download OWNER/NAME --local-dir FOLDER": "download pull install",
        "juzhen push": "upload publish",
        "juzhen export": "convert onnx quantize",
        ENCODERS: "list recommend models",
        "juzhen dataset": "data prepare",
        "juzhen leaks": "dedup duplicates overlap",
        "juzhen mine": "negatives",
        "juzhen fuse or juzhen merge": "ensemble",
        "juzhen merge": "soup average",
        "juzhen shrink": "prune",
        "juzhen distill or juzhen shrink": "teach",
        "juzhen transfer": "classify probe",
        "juzhen report or juzhen space": "plot",
        "juzhen report, whose page has them; metrics/ of a run holds them as CSV": "curves",
        "juzhen space": "visualize tsne umap",
        "juzhen table": "matrix results leaderboard show",
        "juzhen compare": "diff",
        "juzhen memory": "vram gpu",
    }
)
RENAMED_VERBS = {"distil": "distill", "new": "dataset", "parity": "verify", "student": "shrink"}
"""Verb of 0.2 → its name from 0.3 on. The old names are accepted, with a notice, until 0.4."""

RENAMED_NAMES = {
    "clusters": "cluster",
    "communities": "detect_communities",
    "paraphrases": "mine_paraphrases",
    "space": "analyze_embeddings",
}
"""Name that `juzhen` exported in 0.2 → its name from 0.3 on. The old names are accepted, with a warning, until 0.4."""

_OPTIONS = {
    "top topk k limit": ("--top-k", "--top"),
    "n num": ("--top-k", "--num-negatives", "--limit", "--top"),
    "batchsize maxbatchtokens": ("--batch-tokens",),
    "output o": ("--output", "--out"),
    "out outputdir": ("--out", "--output"),
    "input": ("--file",),
    "data": ("--data-dir", "--file"),
    "datadir": ("--data-dir",),
    "split": ("--split", "--sets"),
    "dim dimension dimensions dims mrl": ("--truncate-dim", "--dim"),
    "prompt instruction": ("--prompt-name", "--query-prompt", "--prompt"),
    "column": ("--columns", "--text"),
    "noheader": ("--header",),
    "dtype": ("--precision",),
    "quantize": ("--precision", "--format"),
    "jobs numworkers workers": ("--workers", "--processes"),
    "servedmodelname": ("--name",),
    "hostname": ("--host",),
    "processes": ("--processes", "--workers"),
    "cpu gpu": ("--device", "--backend"),
    "maxlength": ("--max-length", "--tokens"),
    "apikey token": ("--api-keys", "--key-variable"),
    "private": ("--public",),
    "reranker": ("--rerank",),
    "format": ("--format", "--json"),
    "where": ("--filter",),
    "task languages lang": ("--tasks", "--dataset"),
    "dataset": ("--dataset", "--sets"),
    "datasets": ("--sets", "--dataset"),
    "indextype": ("--kind", "--index"),
    "fp16 bf16 half onnx": ("--backend", "--format"),
    "negativenumber negatives numhardnegatives": ("--num-negatives",),
    "alpha t ratio": ("--weights",),
}
OPTIONS = {word: flags for words, flags in _OPTIONS.items() for word in words.split()}
"""Option of other tools → ours, the likeliest first. A verb has some of them."""

GENERAL_BEST = "python train.py -m sweep=general_ways, whose row way-2 it is"

MOVED_MODULES = {
    "juzhen.losses.order": "juzhen.losses.pairwise_ranking",
    "juzhen.losses.pools": "juzhen.losses.in_batch_all",
    "juzhen.losses.contrast": "juzhen.losses.in_batch_negatives",
    "juzhen.losses.lists": "juzhen.losses.listwise",
    "juzhen.losses.memory": "juzhen.losses.in_batch_all",
    "juzhen.losses.nested": "juzhen.losses.matryoshka",
    "juzhen.losses.queue": "juzhen.losses.in_batch_all",
    "juzhen.losses.regularised": "juzhen.losses.regularizers",
    "lightning_modules.views": "lightning_modules.biencoder",
    "callbacks.loss_gradient": "callbacks.health",
    "callbacks.peak_memory": "callbacks.trainer",
    "callbacks.score_health": "callbacks.health",
    "callbacks.set_counts": "callbacks.trainer",
    "callbacks.throughput": "callbacks.trainer",
    "callbacks.training_record": "callbacks.trainer",
}
"""Module that results of earlier versions name → the module that has its classes now."""

LOSS_FLAGS = {
    "couples": "is_batchwise",
    "compares": "is_ranking",
    "consumes": "input_type",
    "has_head": "has_parameters",
    "remembers": "is_stateful",
}
"""Class attribute of a loss in 0.2 → its name now; the old ones are taken until 0.4."""

RENAMED_IN_LOSSES = {
    "smoothing": "label_smoothing",
    "weighting": "weighting_scheme",
    "hardness": "hardness_strength",
    "weigh": "hardness_mode",
}
"""Option of our losses in 0.2 → its name from 0.3 on, as in torch and sentence-transformers. Accepted until 0.4."""

RENAMED_GROUPS = {"suite": "benchmark"}
"""Group of `conf/` in 0.2 → its name from 0.3 on. The old names are accepted, with a notice, until 0.4."""

RENAMED_MINING = {
    "share": "relative_margin",
    "share_of": "positive_reference",
    "margin": "absolute_margin",
    "threshold": "max_score",
    "first_rank": "range_min",
    "depth": "range_max",
    "negatives": "num_negatives",
    "judge": "cross_encoder",
    "keep_out": "exclude_from",
}
"""Option of mining in 0.2 → its name from 0.3 on, as in sentence-transformers. Accepted until 0.4."""

RENAMED_FLAGS = {
    "mine": {
        f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in RENAMED_MINING.items()
    }
}
"""Verb → its options of 0.2 → their names from 0.3 on. Accepted, with a notice, until 0.4."""

RENAMED_KEYS = {
    "dataset.*.view": "convert_to",
    "evaluate.*.view": "convert_to",
    "callbacks.mining.beside": "background",
    **{f"callbacks.mining.{old}": new for old, new in RENAMED_MINING.items()},
}
"""Dotted key of a job in 0.2 → its last word from 0.3 on. Digests keep the old words, so that results keep their keys;
the old ones are accepted, with a notice, until 0.4.
"""

_CONVERT: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("share", "relative_margin"): lambda share: round(1 - share, 12),
    ("relative_margin", "share"): lambda margin: round(1 - margin, 12),
    ("first_rank", "range_min"): lambda rank: rank - 1,
    ("range_min", "first_rank"): lambda skipped: skipped + 1,
}
"""Old name, new name or the reverse → how a number changes with the name."""

OF_GROUPS: Mapping[str, Mapping[str, str]] = {
    "loss": LOSSES,
    "model": MODELS | {"generalbest": GENERAL_BEST},
    "backbone": BACKBONES | {"generalbest": GENERAL_BEST},
    "experiment": {"generalbest": GENERAL_BEST},
    "sweep": {"generalbest": GENERAL_BEST},
    "dataset": DATASETS,
    "adapter": {"vera": "adapter=lora backbone.adapter.rank=4"},
    "hardware": HARDWARE,
    "logger": LOGGERS,
    "schedule": SCHEDULES,
}
"""Group → option of other tools → what to type."""


def current_target(target: str) -> str:
    """Return the dotted name of a class with the module that it has moved to.

    Args:
        target: Dotted name of a class, as in `_target_`. One that has not moved stays.

    >>> current_target("juzhen.losses.order.CoSENT")
    'juzhen.losses.pairwise_ranking.CoSENT'
    """
    module, _, name = target.rpartition(".")
    return f"{MOVED_MODULES.get(module, module)}.{name}"


def current_key(key: str) -> str:
    """Return a dotted key of a job, or a group of `conf/`, by its name today.

    Args:
        key: Dotted key, or the name of a group. A name that has not changed is returned unchanged.

    >>> current_key("dataset.csts.view"), current_key("suite"), current_key("seed")
    ('dataset.csts.convert_to', 'benchmark', 'seed')
    """
    owner, _, last = key.rpartition(".")
    for pattern, name in RENAMED_KEYS.items():
        if fnmatchcase(key, pattern) and key.count(".") == pattern.count("."):
            return f"{owner}.{name}"
    if last in RENAMED_IN_LOSSES and "loss" in owner.split("."):
        return f"{owner}.{RENAMED_IN_LOSSES[last]}"
    return RENAMED_GROUPS.get(key, key)


def current_word(word: str) -> str:
    """Return an override with its key by the name of today, and its value if that changed with the name.

    Args:
        word: An override of Hydra, such as `+loss=cosent` or `seed=1,2`. One without a renamed key stays.

    >>> current_word("suite=none"), current_word("callbacks.mining.share=0.95"), current_word("seed=1")
    ('benchmark=none', 'callbacks.mining.relative_margin=0.05', 'seed=1')
    """
    prefix, key, rest = re.fullmatch(r"([+~]*)([^=@]*)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    name = current_key(key)
    if name == key:
        return word
    old, new = key.rpartition(".")[2], name.rpartition(".")[2]
    package, equals, values = rest.partition("=")
    values = ",".join(converted(old, new, value) for value in values.split(","))
    return f"{prefix}{name}{package}{equals}{values}"


def with_current_keys(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's settings with the renamed keys of earlier versions by their names today.

    Where both names are there, the old one counts: somebody wrote it, and the new one is a default.

    Args:
        job: Plain settings, nested as in `job.yaml`. They are not changed.

    >>> with_current_keys({"dataset": {"csts": {"convert_to": None, "view": "triplet"}}})
    {'dataset': {'csts': {'convert_to': 'triplet'}}}
    """
    return _renamed_in_losses(_renamed_all(job, list(RENAMED_KEYS.items())))


def with_old_keys(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's settings with the keys of 0.2, of which digests are made.

    Args:
        job: Plain settings with the names of today. They are not changed.

    >>> with_old_keys({"dataset": {"csts": {"convert_to": None}}})
    {'dataset': {'csts': {'view': None}}}
    """
    pairs = [(pattern.rpartition("."), name) for pattern, name in RENAMED_KEYS.items()]
    return _renamed_all(job, [(f"{owner}.{name}", old) for (owner, _, old), name in pairs])


def note_once(old: str, new: str) -> None:
    """Print once on stderr that a name of 0.2 has another name.

    Args:
        old: Name as it was typed.
        new: Name today.
    """
    if old not in _noted:
        _noted.add(old)
        tell(f"note: {old} is {new} since 0.3. Type the new name. The old one goes in 0.4")


_noted: set[str] = set()


def _renamed_all(job: Mapping[str, Any], names: Iterable[tuple[str, str]]) -> dict[str, Any]:
    renamed: Any = dict(job)
    for pattern, name in names:
        renamed = _renamed(renamed, pattern.split("."), name)
    return renamed


def _renamed(node: Any, pattern: Sequence[str], name: str) -> Any:
    """A copy of a node in which the last word of a pattern, where it is, is another one at the same place."""
    if not isinstance(node, Mapping):
        return node
    first, *rest = pattern
    if rest:
        return {
            key: _renamed(value, rest, name) if first in ("*", key) else value for key, value in node.items()
        }
    if first not in node:
        return node
    if name in node:
        value = converted(first, name, node[first])
        return {key: value if key == name else each for key, each in node.items() if key != first}
    return {
        name if key == first else key: converted(first, name, value) if key == first else value
        for key, value in node.items()
    }


def _renamed_in_losses(node: Any) -> Any:
    """A copy of settings in which options of our losses have their names today. Losses of users keep theirs."""
    if isinstance(node, list):
        return [_renamed_in_losses(value) for value in node]
    if not isinstance(node, Mapping):
        return node
    if _is_own_loss(node):
        for old, new in RENAMED_IN_LOSSES.items():
            node = _renamed(node, [old], new)
    return {key: _renamed_in_losses(value) for key, value in node.items()}


def _is_own_loss(node: Mapping[str, Any]) -> bool:
    return str(node.get("_target_", "")).startswith("juzhen.losses.")


def with_old_options(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a loss of ours with the options of 0.2, of which digests are made, and others unchanged.

    Args:
        node: Settings of a loss with `_target_`. They are not changed.

    >>> with_old_options({"_target_": "juzhen.losses.classes.CrossEntropy", "label_smoothing": 0})
    {'_target_': 'juzhen.losses.classes.CrossEntropy', 'smoothing': 0}
    """
    if _is_own_loss(node):
        for old, new in RENAMED_IN_LOSSES.items():
            node = _renamed(node, [new], old)
    return node


def converted(old: str, new: str, value: Any) -> Any:
    """Return the value that an option has under another name. Only numbers change.

    Args:
        old: Old name of the option, of a key or of a verb (`--share`).
        new: Its name today.
        value: A number, or its text. Other values, and options with the same meaning as before, keep their value.

    Returns:
        A number for a number, and a text for a text.

    >>> converted("share", "relative_margin", 0.95), converted("--share", "--relative-margin", "none")
    (0.05, 'none')
    """
    names = old.lstrip("-").replace("-", "_"), new.lstrip("-").replace("-", "_")
    convert = _CONVERT.get(names)
    if convert is None or value is None:
        return value
    if not isinstance(value, str):
        return convert(value) if isinstance(value, int | float) else value
    try:
        return f"{convert(float(value)):g}"
    except ValueError:  # such as none, or what the option will refuse
        return value


def accept_renamed(names: Mapping[str, str]) -> Callable[[Taker], Taker]:
    """Let a function or a class take its arguments by their earlier names too, with a warning.

    Args:
        names: Earlier name → name.

    Returns:
        A decorator.
    """

    def decorate(taker: Taker) -> Taker:
        call: Any = taker.__init__ if isinstance(taker, type) else taker  # type: ignore[misc]

        @wraps(call)
        def accepting(*arguments: Any, **options: Any) -> Any:
            for old in names.keys() & options.keys():
                new = names[old]
                options[new] = converted(old, new, options.pop(old))
                warnings.warn(f"{old} is {new} since 0.3. Use that name.", DeprecationWarning, stacklevel=2)
            return call(*arguments, **options)

        if not isinstance(taker, type):
            return accepting  # type: ignore[return-value]
        taker.__init__ = accepting  # type: ignore[misc]
        return taker

    return decorate


def current_flags(verb: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a verb with renamed options under their names, and note each on stderr.

    Args:
        verb: Subcommand of `juzhen`, such as `mine`.
        arguments: Its arguments as typed.

    Returns:
        The arguments, with values converted where the meaning of an option changed.

    >>> current_flags("mine", ["lcqmc", "--exclude-from", "bq"])
    ['lcqmc', '--exclude-from', 'bq']
    """
    renamed = RENAMED_FLAGS.get(verb, {})
    found: list[str] = []
    before = ("", "")
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag in renamed:
            before = (flag, renamed[flag])
            note_once(f"juzhen {verb} {flag}", renamed[flag])
            found.append(f"{renamed[flag]}{equals}{converted(*before, value)}")
        else:
            found.append(converted(*before, word))
        before = before if flag in renamed and not equals else ("", "")
    return found


def plain(word: str) -> str:
    """Remove case, punctuation and the suffix of losses from a word.

    Args:
        word: A name, in any spelling.

    Returns:
        Its lower-case letters and digits. The word `loss` alone stays.

    >>> plain("MultipleNegativesRankingLoss"), plain("info_nce"), plain("--top-k")
    ('multiplenegativesranking', 'infonce', 'topk')
    """
    letters = re.sub(r"[^\w]|_", "", word.lower())
    return letters.removesuffix("loss") or letters


def option_meant(group: str, word: str, options: Iterable[str] = ()) -> str | None:
    """Return our option of a group for an option of other tools. None if it is unknown, or not among the options.

    Args:
        group: Group of `conf/`, such as `loss`.
        word: Option as typed, in the spelling of any toolkit.
        options: Options that the group has. Without any, every known answer is given.

    Returns:
        Overrides, such as `loss=cosent`, divided by spaces.

    >>> option_meant("loss", "MultipleNegativesRankingLoss"), option_meant("loss", "CoSENTLoss", ["cosent"])
    ('loss=info_nce', 'loss=cosent')
    """
    name, known = plain(word), list(options)
    if same := [option for option in known if plain(option) == name]:
        return f"{group}={same[0]}"
    meant = OF_GROUPS.get(group, {}).get(name)
    if group == "loss" and name.startswith("sparse"):
        meant = (dense := option_meant(group, name.removeprefix("sparse"), known)) and f"model=splade {dense}"
    missing = re.findall(rf"(?:^| ){group}=(\w+)", meant or "")
    return None if known and not {*missing} <= {*known} else meant


def setting_meant(key: str, value: str | None = None) -> str | None:
    """Return our setting for a setting of other tools, or None.

    Args:
        key: Setting of another tool. Only the last part of a dotted key counts.
        value: Value as typed. None, or a list with commas, is shown as `…`.

    Returns:
        An override, with the value converted if the meaning differs.

    >>> setting_meant("num_train_epochs", "3"), setting_meant("scale", "20"), setting_meant("lr")
    ("training.duration='3 epochs'", 'loss.temperature=0.05', 'optimizer.lr=…')
    """
    target = SETTINGS.get(plain(key.rpartition(".")[2]))
    if target is None:
        return None
    shown = "…" if value is None or "," in value or not value else value
    try:
        number = float(shown)
        percent, inverse = f"{100 * number:g}", f"{1 / number:g}"
    except (ValueError, ZeroDivisionError):
        percent = inverse = "…"
    return target.format(value=shown, percent=percent, inverse=inverse)


def verb_meant(word: str) -> str | None:
    """Return the command for a verb of other tools, or None.

    Args:
        word: Subcommand as typed.

    Returns:
        Command such as `juzhen encode`, or None.

    Example:
        >>> verb_meant("embed")
        'juzhen encode'
    """
    return VERBS.get(plain(word))


def flag_meant(flag: str, flags: Iterable[str]) -> str | None:
    """Return our option for an option of other tools, or None.

    Args:
        flag: Option as typed, with its dashes.
        flags: Options that the subcommand has.

    Returns:
        One of `flags`, or None.

    Example:
        >>> flag_meant("--top", ["--top-k", "--mode"]), flag_meant("--top", ["--mode"])
        ('--top-k', None)
    """
    known = list(flags)
    same = [each for each in known if plain(each) == plain(flag)]
    return next((each for each in (*same, *OPTIONS.get(plain(flag), ())) if each in known), None)
