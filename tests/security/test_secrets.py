"""No secret of the environment or of a command line ends in a result, a log, a message or at W&B."""

import json
import logging
import sys
from types import SimpleNamespace

import pytest
from forks import python

from callbacks.reporting import build_loggers
from conf import READABLE
from conf.job import LoggerConfig
from datamodules.datamodule import only_stage
from juzhen.core.result import Result
from juzhen.core.secrets import REDACTED, hide_in_logs, redacted
from juzhen.data.spec import read_description
from launch.job import read_job
from sweeps.ledger import Event, Ledger

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
PLAIN = "correct-horse-battery"


@pytest.fixture(autouse=True)
def secrets_of_the_environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("MY_DATABASE_PASSWORD", PLAIN)


def test_what_is_on_the_list_is_read(monkeypatch, job_with):
    for name in READABLE:
        monkeypatch.setenv(name, f"/{name}")
        assert read_job(job_with(data_dir=f"${{oc.env:{name}}}")).data_dir == f"/{name}"
    monkeypatch.delenv("JUZHEN_DATA")
    assert read_job(job_with()).data_dir == "data"


def test_a_description_of_a_data_set_reads_no_variable(project_root, tmp_path):
    text = (project_root / "conf" / "dataset" / "demo_sts.yaml").read_text(encoding="utf-8")
    (tmp_path / "set.yaml").write_text(
        f"{text}origin: ${{oc.env:HF_TOKEN}}\n".replace("origin: juzhen", "# origin")
    )
    assert TOKEN not in str(read_description(tmp_path / "set.yaml"))


SECRET = [
    TOKEN,
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwx",
    "sk-proj-0123456789abcdefghijABCDEFGHIJ",
    "glpat-0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
    PLAIN,
]


@pytest.mark.parametrize("secret", SECRET)
def test_a_secret_is_told_by_its_looks_or_by_the_environment(secret):
    assert redacted(secret) == REDACTED
    assert redacted(f"about: {secret}, and more") == f"about: {REDACTED}, and more"
    assert redacted({"a": [{"b": (secret, 1)}]}) == {"a": [{"b": [REDACTED, 1]}]}


def test_a_password_in_an_address_and_under_a_telling_name():
    assert redacted("https://me:hunter2@host/x?y=1") == f"https://{REDACTED}@host/x?y=1"
    assert redacted({"api_key": "short", "password": "x", "eval_batch_tokens": 3, "key": "abcd1234"}) == {
        "api_key": REDACTED,
        "password": REDACTED,
        "eval_batch_tokens": 3,
        "key": "abcd1234",
    }


@pytest.mark.parametrize(
    "harmless",
    [
        "0123456789abcdef0123456789abcdef01234567",  # a commit
        "runs/a+b-biencoder-cosent-s42-71397b56",
        "hfl/chinese-roberta-wwm-ext",
        "https://host:80/a@b",
        "task-0123456789012345678901234567890",
        "今天天气很好",
        "",
        None,
        1.5,
        True,
    ],
)
def test_what_is_no_secret_stays(harmless):
    assert redacted({"a": [harmless]}) == {"a": [harmless]}


def leaks(folder):
    return [path for path in folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def test_what_is_stored_and_logged_holds_no_secret(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", f"dataset.x.about={TOKEN}"])
    Result("n", "k", [], {}, {"about": TOKEN}, {}, {}, {"command": sys.argv}, 1).write(tmp_path)
    assert json.loads((tmp_path / "result.json").read_text())["config"] == {"about": REDACTED}
    Ledger(tmp_path).add(Event.PLANNED, cell="a", words=[f"x={TOKEN}"], run_dir="a", devices=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logging, "getLogRecordFactory", logging.getLogRecordFactory)
        before = logging.getLogRecordFactory()
        hide_in_logs()
        try:
            handler = logging.FileHandler(tmp_path / "train.log")
            log = logging.Logger("a", level=logging.INFO)
            log.addHandler(handler)
            log.info("cannot read %s (%d)", TOKEN, 3)
            log.info("100 %")
        finally:
            logging.setLogRecordFactory(before)
    assert (tmp_path / "train.log").read_text() == f"cannot read {REDACTED} (3)\n100 %\n"
    assert not leaks(tmp_path)


def test_what_goes_to_wandb_holds_no_secret(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("callbacks.reporting.WandbLogger", lambda **words: given.update(words))
    logger = LoggerConfig(
        csv=False, wandb="offline", progress=False, every_steps=1, project="p", tags=[TOKEN]
    )
    job = SimpleNamespace(logger=logger, name="n", seed=1)
    build_loggers(job, only_stage([]), tmp_path, run_id="r", settings={"about": TOKEN})
    assert given["config"] == {"about": REDACTED}
    assert given["tags"] == [REDACTED]


@pytest.mark.parametrize(
    "word",
    [
        f"dataset.demo_sts.about={TOKEN}",
        "dataset.demo_sts.about=${oc.env:HF_TOKEN}",
        f"+hydra.job.env_set.A={TOKEN}",
    ],
)
@pytest.mark.sampled(3)
def test_the_program_refuses_it_and_leaves_it_nowhere(tmp_path, project_root, word):
    words = ("dataset=[demo_sts]", "benchmark=none", "debug=fast", word)
    done = python(project_root / "train.py", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert TOKEN not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
