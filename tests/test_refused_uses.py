"""What a library, a machine or a file of a run cannot do is refused by key or file and with the way out."""

import math
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jobs import compose_job, tiny_encoder, typed_job
from omegaconf import OmegaConf
from refusals import rows
from test_accelerator import another_machine  # noqa: F401, a fixture
from test_benchmarks import result as of_benchmark
from test_evaluate_rows import FAQ
from test_result_format import CONFIG
from test_result_format import read as read_result

import train
from benchmarks import measure, report
from benchmarks.measure import apart
from benchmarks.table import resolve
from conf.job import Duration
from conf.own_classes import keys_of
from juzhen import CrossEncoder, SentenceEncoder, SparseEncoder, evaluate, fit
from juzhen.calibration.run_scores import PairedRuns
from juzhen.cli.compare import compare
from juzhen.cli.options import data_folder
from juzhen.core import lazy_names, machine
from juzhen.core.errors import UserError
from juzhen.core.machine import require_accelerator
from juzhen.core.row_scores import ROWS_FILE, RowScores
from juzhen.core.schema import ConfigError
from juzhen.data import loading
from juzhen.data.source import read_hub, require_hub
from juzhen.data.spec import HubConfig
from juzhen.encoders import resolve_path
from juzhen.encoders.resolve_path import download, locate_folder
from juzhen.evaluation.backfill import Backfill
from juzhen.evaluation.saved_run import ENCODER_FOLDER
from juzhen.evaluation.settings import EvaluationSettings, require_device
from juzhen.families.registry import FAMILIES
from juzhen.merging.merge import merge
from launch.check import check_command_line
from launch.job import check_target, read_job
from launch.overrides import naming_keys
from lightning_modules.biencoder import BiEncoder
from lightning_modules.crossencoder import CrossEncoderModule

GRAPH = type(FAMILIES["bi_encoder"]).export


def not_saved(f, name):
    try:
        FAMILIES[name].save(object(), f.tmp_path / "saved", card={})
    finally:
        assert not list(f.tmp_path.iterdir())


def accelerated(f, there, **words):
    f.another_machine(**there)
    require_accelerator(
        SimpleNamespace(**{"accelerator": "cpu", "devices": 1, "precision": "32-true"} | words)
    )


def on_a_cluster(f, launcher):
    f.another_machine()
    words = ["-m", "hardware=auto", f"hydra/launcher={launcher}", "benchmark=none"]
    check_command_line(words, conf_dir=train.CONFIGURATION)


def without_devices(f):
    f.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    f.monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def job_without_devices(f, words):
    without_devices(f)
    try:
        with naming_keys(OmegaConf.create({"hardware": {"accelerator": "cpu"}})):  # as train.py does
            train.run_job(compose_job("benchmark=none", f"output_dir={f.tmp_path}", words))
    finally:
        assert not list(f.tmp_path.iterdir())


def with_an_old_gpu(f):
    cuda = {"is_available": lambda: True, "device_count": lambda: 1, "get_device_name": lambda: "Tesla T4"}
    # torch says yes to whoever does not rule out that it is imitated.
    cuda["is_bf16_supported"] = lambda including_emulation=True: including_emulation
    for name, answer in cuda.items():
        f.monkeypatch.setattr(torch.cuda, name, answer)
    require_device(read_job(compose_job("benchmark=none", "hardware=cuda")).hardware)


def measured_on(f, device):
    without_devices(f)
    measure.choose_device(device)


BUILT = "'12.6'"
MACHINES = [
    (
        lambda f: accelerated(f, {"built_for": BUILT}, accelerator="cuda"),
        "driver of NVIDIA is missing.*Available: cpu. Choose accelerator=cpu",
    ),
    (lambda f: accelerated(f, {"devices": 0, "built_for": BUILT}, accelerator="cuda"), "shows no device"),
    (
        lambda f: accelerated(f, {"devices": 1}, accelerator="cuda"),
        "built without CUDA. Choose accelerator=cpu",
    ),
    (lambda f: accelerated(f, {}, accelerator="mps"), "Metal is Apple's.* Choose accelerator=cpu"),
    (lambda f: accelerated(f, {}, precision="16-mixed"), "needs CUDA.*bf16-mixed or 32-true"),
    *(
        (lambda f, at=at: on_a_cluster(f, at), f"hardware=auto looks at this machine, .*launcher={at}")
        for at in ("slurm", "ray")
    ),
    (lambda f: job_without_devices(f, "hardware=cuda"), "accelerator=cuda: .* hardware=cpu"),
    (lambda f: job_without_devices(f, "hardware=mps_m4"), "accelerator=mps: .* hardware=cpu"),
    (lambda f: job_without_devices(f, "hardware.precision=16-mixed"), "16-mixed needs CUDA.*bf16-mixed"),
    (with_an_old_gpu, "Tesla T4 would only imitate bfloat16. .*precision=16-mixed"),
    *(
        (lambda f, device=device: measured_on(f, device), f"--device {device}: torch sees no")
        for device in ("cuda", "mps")
    ),
]


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def add(number):
    return 2 * number + 1


def without_markers(f):
    (f.tmp_path / "page.md").write_text("no markers", encoding="utf-8")
    report.write_into(f.tmp_path / "page.md", "new")


BENCHMARKS = [
    *(
        (lambda f, words=words: resolve("training", "tiny", words.split()), told)
        for words, told in (
            ("stps=9", "stps=9: .*training. Did you mean steps"),
            ("sizes=S,XL", "sizes=XL"),
            ("rounds=0", "from 1 on"),
            ("steps=4", "from 5 on"),  # all would be left out of the time
            ("memory_steps=1", "from 2 on"),
        )
    ),
    (without_markers, "expected a line"),
]
SLOW_BENCHMARKS = [
    (lambda f: apart(add, None), "unsupported operand"),
    (lambda f: apart(be_killed), "killed"),
    (
        lambda f: report.write(of_benchmark("mining", {"cpu_seconds": math.nan}), f.tmp_path),
        "not JSON compliant",
    ),
]
COSENT = {"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent"}
BM25 = {"_target_": "lightning_modules.lexical.BM25Module"}
CLASSES = [
    *(
        (lambda f, target=target: keys_of(target), "no class of juzhen's")
        for target in (
            "os.system",
            "juzhen.losses.pairwise_ranking.Nothing",
            "juzhen.losses.nothing.CoSENT",
            "lightning_modules.base.Match",
        )
    ),
    *(
        (lambda f, node=node, key=key: check_target(node, key), words)
        for node, key, words in (
            (
                {"_target_": "fractions.Fraction"},
                "loss",
                r"loss\._target_=fractions\.Fraction: .*Known: juzhen",
            ),
            (COSENT, "model", "Known: lightning_modules"),
            (
                {"_target_": "juzhen.losses.info_nce.InfoNCE"},
                "loss",
                r"losses\.in_batch_negatives\.InfoNCE\b",
            ),
            (COSENT | {"temprature": 1}, "loss", "loss.temprature: .* Did you mean loss.temperature"),
            (COSENT | {"temperature": "0.05"}, "loss", "loss.temperature=0.05: .*valid number"),
            (COSENT | {"temperature": True}, "loss", "loss.temperature=true: .*valid number"),
            (COSENT | {"temperature": None}, "loss", "loss.temperature=null: .*valid number"),
            (COSENT | {"_partial_": True}, "loss", "loss._partial_: unknown key"),
            (
                {"_target_": "juzhen.losses.listwise.LambdaLoss", "mu": [1]},
                "loss",
                r"loss.mu=\[1\]: expected",
            ),
            (BM25 | {"tokens": "words"}, "model", "'characters' or 'jieba'"),
            (BM25 | {"tokens": "jieba", "b": 1}, "model", "model.k1 is not set"),
            (
                {"_target_": "juzhen.losses.classes.SoftmaxClassifier", "dim": 3},
                "loss",
                "loss.dim: unknown key",
            ),
        )
    ),
    *(
        (lambda f, text=text: Duration.parse(text), "a number and one unit")
        for text in ("３ epochs", "٣ steps", "1_0 steps", "1e3 steps", "-1 steps", "inf steps")
    ),
]


def loaded_late(f, *words):
    """Sets whose scores a job asks for, over a folder with texts and one class."""
    for name, text in (
        ("wiki1m/dev.txt", "some\nlines\n"),
        ("tnews/dev.tsv", "text\tlabel\na\tnews_story\n"),
    ):
        (f.tmp_path / name).parent.mkdir()
        (f.tmp_path / name).write_text(text)
    model = CrossEncoderModule if "model=crossencoder" in words else BiEncoder
    job = typed_job("dataset=[]", "benchmark=none", f"data_dir={f.tmp_path}", *words)
    return loading.load_job_data(job, {}, unscored=model.unscored)


def joint(f):
    inner = tiny_encoder(f.tiny_backbone)
    return CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0).eval()


MEASURES = [
    *(
        (lambda f, words=words: loaded_late(f, *words.split()), told)
        for words, told in {
            "model=crossencoder +dataset@evaluate.tnews=tnews": "tnews cannot be scored .*has none",
            "+dataset@evaluate.wiki1m=wiki1m": "wiki1m cannot be scored .*masked language model.*built-in sets",
            "+dataset@evaluate.csts=csts": "nothing to evaluate: no file of csts",
            "evaluation.transfer=[mrpcc]": "evaluation.transfer.*Did you mean mrpc",
            "evaluation.transfer=[mrpc]": "mrpc has no file.*data_dir",
            "evaluation.transfer=[demo_sts]": "demo_sts has scored pairs.*classes",
            "evaluation.transfer=[demo_qmc] model=crossencoder": "transfer: classes .*Leave it at",
            "evaluation.transfer=[demo_qmc] debug_rows=1": "transfer: demo_qmc: 1 row .* one class",
        }.items()
    ),
    *(
        (lambda f, encoder=encoder, given=given: evaluate(encoder, given), words)
        for encoder, given, words in (
            (lambda texts: np.zeros((1, 2)), FAQ, "shape"),
            (lambda texts: np.full((len(texts), 2), np.nan), FAQ, "NaN"),
            (object(), FAQ, "encode"),
            ("builtin/mini_zh", ["怎么退货", "几天发货"], "set"),
            ("builtin/mini_zh", [("怎么退货",), ("几天发货",)], "compared"),
            ("builtin/mini_zh", [], "rows"),
            ("builtin/mini_zh", 3, "rows"),
        )
    ),
    (
        lambda f: evaluate(joint(f), [{"text": f"今天{n}", "label": "体育科技"[n % 2]} for n in range(8)]),
        "classes",
    ),
    (
        lambda f: evaluate(joint(f), ["demo_reranking"], settings=EvaluationSettings(long_texts="chunk")),
        "gives no text vectors",
    ),
    (lambda f: fit("builtin/mini_zh", FAQ, loss="info_nce", dev=["一句话", "另一句"]), "dev=rows"),
    (
        lambda f: SentenceEncoder.load("builtin/mini_zh").is_same(["a", "b"], ["c"], threshold=0.0),
        "two lists of one",
    ),
    (lambda f: SentenceEncoder.load("builtin/mini_zh").is_same([("a", "b")]), r"threshold=0\.7"),
]


def networked(f, **environment):
    for name in ("HTTPS_PROXY", "https_proxy", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        f.monkeypatch.delenv(name, raising=False)
    for name, value in ({"HF_HOME": str(f.tmp_path / "hf")} | environment).items():
        f.monkeypatch.setenv(name, value)
    machine._hub_problem.cache_clear()


def set_of_the_hub(f, **environment):
    networked(f, **environment)
    f.monkeypatch.setitem(__import__("sys").modules, "datasets", None)  # to import it would fail
    read_hub("toy", HubConfig(id="C-MTEB/BQ", splits={"train": "train"}, columns={}), "train")


def beside_a_copy(f, entry):
    networked(f, HF_HUB_OFFLINE="1")
    (f.tmp_path / "hf" / entry).mkdir(parents=True)
    require_hub("toy", "C-MTEB/LCQMC")


def below_a_folder(f):
    f.monkeypatch.chdir(f.tmp_path)
    (f.tmp_path / "runs" / "csts").mkdir(parents=True)
    locate_folder("runs/cst")


def of_another_hub(f):
    def answer(*words, **options):
        raise KeyError("id")  # what its client raises where ModelScope answers

    f.monkeypatch.setattr("huggingface_hub.snapshot_download", answer)
    f.monkeypatch.setattr("juzhen.encoders.resolve_path.hub_problem", lambda: None)
    f.monkeypatch.setenv("HF_ENDPOINT", "https://modelscope.cn")
    download("acme/tiny", None)


def data_in_a_file(f):
    (f.tmp_path / "data").touch()
    f.monkeypatch.setenv("JUZHEN_DATA", str(f.tmp_path / "data"))
    data_folder(None)


def without_a_room(f):
    (f.tmp_path / "rooms.toml").write_text('[gone]\nnames.gone = "gone.part:run"\n', encoding="utf-8")
    for name in ("ROOT", "PACKAGE"):
        f.monkeypatch.setattr(lazy_names, name, f.tmp_path)
    lazy_names.offered("names", "gone_name")


HUB = "source=hub, but {}.*not in the local cache.*source=local and data_dir=<folder>"
PLACES = [
    (lambda f: set_of_the_hub(f, HF_HUB_OFFLINE="1"), HUB.format("HF_HUB_OFFLINE is set")),
    (
        lambda f: set_of_the_hub(f, HF_ENDPOINT="http://127.0.0.1:9"),
        HUB.format("the hub does not answer within 2 s"),
    ),
    (lambda f: beside_a_copy(f, "hub/datasets--C-MTEB--BQ"), "C-MTEB/LCQMC"),
    (lambda f: beside_a_copy(f, "datasets/C-MTEB___bq"), "C-MTEB/LCQMC"),
    (below_a_folder, "runs/cst: .*Did you mean runs/csts"),
    (lambda f: resolve_path.encoder_folder("acme/tiny"), "acme/tiny: no such .*hf download acme/tiny "),
    (of_another_hub, "HF_ENDPOINT=https://modelscope.cn: .*no such"),
    (data_in_a_file, "JUZHEN_DATA"),
    (without_a_room, "gone_name"),
    (lambda f: CrossEncoder.load("builtin/mini_zh"), r"SentenceEncoder\.load"),
    (lambda f: SparseEncoder.load("builtin/mini_zh"), r"SentenceEncoder\.load"),
    *((lambda f, name=name: not_saved(f, name), "not saved") for name in ("lexical", "query_document")),
    *(
        (
            lambda f, name=name: FAMILIES[name].export(None, f.tmp_path, quantised=False),
            r"\. (Copy|Export|Use) ",
        )
        for name in FAMILIES
        if type(FAMILIES[name]).export is not GRAPH
    ),
]


def lacking(f, key):
    return read_result(f.tmp_path, config={name: value for name, value in CONFIG.items() if name != key})


def rows_of(f, content):
    (f.tmp_path / ROWS_FILE).write_bytes(content)
    return RowScores.read(f.tmp_path)


def without_sets(runs):
    paired = PairedRuns(runs, data_dir=None, batch_tokens=512)
    paired.runs[0].result.data.clear()
    return paired


def copy_of(f):
    (f.tmp_path / "copy").symlink_to(f.two_runs[0])
    return f.tmp_path / "copy"


RUNS = [
    *(
        (lambda f, n=n: read_result(f.tmp_path, format_version=n), f"of format {n}, .* format 2")
        for n in (1, 3)
    ),
    *(
        (lambda f, key=key: lacking(f, key).config[key], rf"result\.json: .* has no {key}")
        for key in ("model", "dataset", "evaluate", "source", "data_dir")
    ),
    *(
        (lambda f, key=key: Backfill()._settings(lacking(f, key), {}), f"has no {key}")
        for key in ("dataset", "evaluate")
    ),
    *(
        (lambda f, content=content: rows_of(f, content), f"{ROWS_FILE}: no scores of single rows")
        for content in (b"", b"no parquet", b"PAR1")
    ),
    (lambda f: compare([f.tmp_path] * 27), "27 runs: at most 26"),
    (lambda f: without_sets(f.two_runs).columns(None, ["nope"]), "no evaluation set in common"),
    (lambda f: merge([*f.two_runs, copy_of(f) / ENCODER_FOLDER]), "same weights|each model once"),
    (lambda f: merge(f.two_runs, method="task_arithmetic", base=copy_of(f)), "base"),
]
REFUSED = {
    "a machine": MACHINES,
    "a benchmark": BENCHMARKS,
    "a slow benchmark": SLOW_BENCHMARKS,
    "a class": CLASSES,
    "a measure": MEASURES,
    "a place": PLACES,
    "a run": RUNS,
}
ERRORS = (UserError, ConfigError, ValueError, TypeError, MemoryError)


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, slow=["a slow benchmark"]))
@pytest.mark.sampled(2)
def test_what_cannot_be_is_refused_by_its_key(f, call, words):
    with pytest.raises(ERRORS, match=words) as caught:
        call(f)
    assert isinstance(caught.value, UserError) <= ("\n" not in str(caught.value))
