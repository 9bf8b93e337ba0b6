"""Progress is shown on stderr: stdout belongs to results, and its reader may be gone before they come."""

from types import SimpleNamespace

from hydra import compose, initialize_config_dir
from jobs import run_job

from callbacks.trainer import StageProgress
from train import CONFIGURATION


def test_bars_say_what_goes_on_and_leave_stdout_alone(capsys):
    bars = StageProgress("demo_sts")
    bars._trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"))
    for start in (bars.init_train_tqdm, bars.init_validation_tqdm, bars.init_test_tqdm):
        start().close()
    said = capsys.readouterr()
    assert said.out == ""
    for words in ("training on demo_sts", "scoring dev", "scoring all sets"):
        assert words in said.err
    assert "Epoch" not in said.err


def test_a_job_leaves_nothing_but_its_result_on_stdout(tmp_path, tiny_backbone, capsys):
    run = run_job(tmp_path, tiny_backbone, "training.duration=2 steps", "logger.progress=true")
    said = capsys.readouterr()
    assert said.out.startswith("Spearman ×100, trained on demo_sts")
    assert f"result and encoder: {run}" in said.out
    assert not [word for word in ("training on ", "scoring", "\r") if word in said.out]
    assert "training on demo_sts" in said.err


def test_messages_go_to_stderr_and_to_a_file_that_takes_chinese():
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        logging = compose("train", return_hydra_config=True).hydra.job_logging
    assert logging.handlers.console.stream == "ext://sys.stderr"
    assert logging.handlers.file.encoding == "utf-8"
