"""Jobs whose encoder wants a prompt: what they leave behind, and their key."""

import shutil

import pytest
from jobs import compose_job, run_job
from omegaconf import open_dict

from juzhen.core.result import Result
from juzhen.encoders import SentenceEncoder
from juzhen.identity import PROMPT_KEYS
from launch.job import run_key

PROMPT = ("backbone.prompts={query: '问：'}", "backbone.default_prompt_name=query")


def test_jobs_without_a_prompt_keep_their_keys():
    config, before = (compose_job("backbone=mini_zh") for _ in range(2))
    with open_dict(before):
        for key in PROMPT_KEYS:
            assert before.backbone.pop(key) is None
    assert run_key(config) == run_key(before)
    others = [
        compose_job("backbone=mini_zh", *PROMPT, *more) for more in ((), ("backbone.include_prompt=false",))
    ]
    assert len({run_key(one) for one in (config, *others)}) == 3


@pytest.mark.slow
def test_a_job_trains_and_saves_with_its_prompt(tiny_backbone, tmp_path):
    plain = run_job(tmp_path / "plain", tiny_backbone)
    run = run_job(tmp_path / "prompted", tiny_backbone, *PROMPT, "backbone.include_prompt=false")
    encoder = SentenceEncoder.load(run)
    assert (encoder.prompt, encoder.unpooled) == ("问：", 3)
    scores = [Result.read(one).scores["dev/demo_sts/spearman"].value for one in (plain, run)]
    assert scores[0] != scores[1]
    copied, told = shutil.copytree(run / "encoder", tmp_path / "copied"), "config_sentence_transformers.json"
    assert key_from(copied) == key_from(run / "encoder")
    (copied / told).write_text(
        (copied / told).read_text(encoding="utf-8").replace("问", "答"), encoding="utf-8"
    )
    assert key_from(copied) != key_from(run / "encoder")


def key_from(folder):
    return run_key(compose_job("dataset=[]", f"init_from={folder}"))
