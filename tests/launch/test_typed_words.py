"""What is typed for a key of text arrives as it was typed."""

import pytest
from forks import ROOT
from hydra.core.override_parser.overrides_parser import OverridesParser
from jobs import typed_job
from omegaconf import OmegaConf

from launch.check import check_command_line
from launch.overrides import as_typed


@pytest.mark.parametrize("text", ["1234e56", "12e400", "1_000", "true", "inf", ".50", "+1"])
def test_text_is_not_read_as_a_number(text):
    words = [f"{key}={text}" for key in ("sweep_row", "backbone.path", "logger.project", "init_from")]
    job = typed_job(*as_typed(words))
    assert [job.sweep_row, job.backbone.path, job.logger.project, job.init_from] == [text] * 4


def test_each_text_of_a_list_and_of_a_sweep_is_kept():
    assert typed_job(*as_typed(["logger.tags=[1e3,a,007]"])).logger.tags == ["1e3", "a", "007"]
    (override,) = OverridesParser.create().parse_overrides(as_typed(["name=1e3,b"]))
    assert list(override.sweep_string_iterator()) == ['"1e3"', "b"]
    assert as_typed(["backbone.revision=7e3", "callbacks.mining.index=1e2"]) == [
        'backbone.revision="7e3"',
        'callbacks.mining.index="1e2"',
    ]


def test_other_words_stay_as_they_are():
    words = [
        "seed=1",
        "optimizer.lr=1e-4",
        "init_from=null",
        "name='1e3'",
        "loss.scale=1e2",
        "-m",
        "dataset=[1e3]",
    ]
    assert as_typed(words) == words
    assert OmegaConf.create({"optimizer": {"lr": 1e-4}}).optimizer.lr == typed_job(words[1]).optimizer.lr


def test_what_a_set_has_of_its_own_may_stand_by_its_plain_key():
    words = ["dataset=[demo_sts,demo_qmc]", "schedule.sample_by=weight", "benchmark=none"]
    words += ["schedule.sets.demo_sts.weight=2", "schedule.sets.demo_sts.loss=cosine"]
    command = check_command_line(words, conf_dir=ROOT / "conf")
    numbers = command.job.schedule.sets["demo_sts"]
    assert (numbers.weight, numbers.loss["name"]) == (2, "cosine")
