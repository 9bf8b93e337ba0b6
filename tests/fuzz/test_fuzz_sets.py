"""Whatever a file of a data set, or the configuration in a stranger's result says, it is a job or one UserError."""

import json
import re
from dataclasses import asdict

import pytest
from fuzzing import answer, any_file, changed, memory_bound, on_examples, sizes
from hypothesis import strategies as st

import train
from juzhen.data.spec import DatasetConfig, read_description
from juzhen.evaluation.settings import EvaluationSettings
from launch.check import check_command_line, checked_job
from launch.job import register_resolvers, stored_job

SHIPPED = (train.CONFIGURATION / "dataset" / "demo_qmc.yaml").read_bytes()
OWN = re.sub(rb"demo_qmc", b"mine", SHIPPED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    memory_bound()
    register_resolvers()
    return tmp_path_factory.mktemp("sets")


@sizes
def test_descriptions(folder, size):
    @on_examples(size, raw=any_file(OWN))
    def holds(raw):
        (folder / "mine.yaml").write_bytes(raw)
        found = answer(lambda: read_description(folder / "mine.yaml"))
        assert isinstance(found, str | DatasetConfig)


@sizes
@pytest.mark.slow
def test_sets_of_ones_own(folder, size):
    """As the program takes them: composed, typed, checked."""
    place = folder / "conf"
    (place / "dataset").mkdir(parents=True)
    words = [f"--config-dir={place}", "dataset=[mine]", "benchmark=none"]

    @on_examples(size, 0.2, raw=any_file(OWN, OWN + b"limit: 3\nignore_labels: ['-1']\n"))
    def holds(raw):
        (place / "dataset" / "mine.yaml").write_bytes(raw)
        answer(lambda: check_command_line(words, conf_dir=train.CONFIGURATION))


@sizes
@pytest.mark.slow
def test_configurations_in_results(size):
    memory_bound()
    today = checked_job(["dataset=[demo_qmc]", "benchmark=none"], conf_dir=train.CONFIGURATION, extra=None)
    stored = json.loads(json.dumps(asdict(today)))

    @on_examples(size, config=changed(stored), own_hardware=st.booleans())
    def holds(config, own_hardware):
        if not isinstance(config, dict):
            return  # no result: `Result.read` refuses it
        assert isinstance(answer(lambda: EvaluationSettings.of(config)), str | EvaluationSettings)
        answer(lambda: stored_job(config, today, own_hardware=own_hardware))
