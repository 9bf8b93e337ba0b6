"""The main job from end to end: a tiny encoder, a few rows, everything else as it is."""

import json
import os
import runpy
import subprocess
import sys

import numpy as np
import pytest
import torch
from expected_losses import AROUND, EXPECTED
from forks import ROOT, in_a_fork
from jobs import SMALL, compose_job, forbid_reading, key_of, logged, run_job, typed_job, weights
from scipy.stats import spearmanr

import train
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.data import loading
from juzhen.encoders import load_encoder
from juzhen.metrics.lexical import lexical_scores
from launch.curriculum import StageRun
from lightning_modules.base import SentenceModule
from lightning_modules.loss_factory import match_losses

STEPS = ("training.duration=2 steps", "debug_rows=24")
STILL = "optimizer.lr=1e-30"
"""A learning rate that leaves float32 weights as they are."""


def values(scores):
    return {key: score.value for key, score in scores.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    """The run that most tests look at: one graded set, evaluated on all four."""
    return run_job(
        tmp_path_factory.mktemp("runs"),
        tiny_backbone,
        "benchmark=demo",
        "training.duration=3 epochs",
        "evaluation.bootstrap_samples=50",
        "evaluate.demo_qmc.layouts.tsv.files.dev=demo_qmc/none.tsv",
        "evaluate.demo_order.layouts.tsv.files.test=demo_order/none.tsv",
    )


@pytest.fixture(scope="module")
def result(run):
    return Result.read(run)


def test_scores_have_intervals_and_counts(result):
    for split in ("dev", "test"):
        score = result.scores[f"{split}/demo_sts/spearman"]
        assert -1 <= score.low <= score.value <= score.high <= 1
        assert score.low < score.high
        assert score.count == 48
    assert {key.rpartition("/")[2] for key in result.scores if "/demo_order/" in key} == {
        "spearman",
        "pearson",
        "score_mean",
        "score_variance",
        "ks",
        "mcc",
        "ks_p_value",
        "accuracy",
        "f1",
        "average_precision",
        "auc",
    }


def test_a_split_without_a_file_is_a_null_and_no_threshold_is_taken_from_test(result):
    assert result.scores["test/demo_order/spearman"].value is None
    assert result.scores["dev/demo_qmc/spearman"].value is None
    assert result.scores["test/demo_qmc/accuracy"].value is None
    assert result.scores["test/demo_qmc/average_precision"].value is not None
    assert result.scores["dev/demo_order/accuracy"].value is not None


def test_the_result_knows_where_it_comes_from(run, result, project_root):
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=project_root, capture_output=True, text=True, check=False
    )
    assert result.environment["git_commit"] == (head.stdout.strip() or None)
    assert result.environment["packages"]["torch"] == torch.__version__
    assert result.trained_on == ["demo_sts"]
    assert result.config["training"]["batch_size"] == 8
    assert "${" not in json.dumps(result.config)
    assert run.name.endswith(result.key)
    training = result.training
    assert training["rows_seen"] == 3 * 48
    assert training["steps"] == training["planned_steps"] == 18
    assert training["rows_per_second"] == pytest.approx(144 / training["train_seconds"], rel=0.1)
    # The best of the validations is the one that was tested.
    assert training["best_dev_spearman"] == pytest.approx(
        result.scores["dev/demo_sts/spearman"].value, abs=1e-6
    )


def test_the_key_follows_what_decides_the_numbers_only():
    plain = key_of()
    hardware = ("hardware.num_workers=3", "hardware.threads=3", "hardware.micro_batch_tokens=99")
    assert plain == key_of(*hardware, "logger=csv", "output_dir=elsewhere", "resume=auto")
    assert plain == key_of("loss.temperature=0.05", "optimizer.lr=5e-4"), (
        "a default that is typed is the default"
    )
    changed = ("seed=1", "training.batch_size=8", "loss=cosine", "benchmark=demo", "hardware=cpu_bf16")
    assert len({plain, *map(key_of, changed)}) == 6
    assert key_of("dataset=[demo_sts,demo_nli]") != key_of("dataset=[demo_nli,demo_sts]")


@pytest.mark.slow
def test_another_precision_is_another_run_and_is_trained(tmp_path, tiny_backbone):
    words = (*STEPS, "resume=auto", "evaluation.splits=[dev]")
    full, half, again = (
        run_job(tmp_path, tiny_backbone, *words, f"hardware.precision={precision}")
        for precision in ("32-true", "bf16-mixed", "32-true")
    )
    assert full == again != half
    for run, precision in ((full, "32-true"), (half, "bf16-mixed")):
        result = Result.read(run)
        assert result.config["hardware"]["precision"] == precision
        assert run.name.endswith(result.key)
    assert weights(full) != weights(half)


def test_data_are_known_by_their_content(result, tmp_path, tiny_backbone):
    other = Result.read(run_job(tmp_path, tiny_backbone, *STEPS, "seed=7", "dataset.demo_sts.limit=20"))
    assert other.data["train/demo_sts"]["rows"] == 20
    assert other.data["dev/demo_sts"]["rows"] == 24
    for key in ("train/demo_sts", "dev/demo_sts"):
        assert other.data[key]["fingerprint"] == result.data[key]["fingerprint"]
    assert len({one["fingerprint"] for one in result.data.values()}) == len(result.data)


def test_scores_equal_cosines_computed_pair_by_pair(run, result):
    job = typed_job("dataset=[demo_sts]", "benchmark=none", "debug_rows=48")
    data = loading.load_job_data(job, {name: match.kind for name, match in match_losses(job).items()})
    encoder = load_encoder(run)
    for examples in data.evaluation:
        cosines = []
        for pair in zip(examples.texts("text_a"), examples.texts("text_b"), strict=True):
            first, second = encoder.encode(list(pair), batch_tokens=512, show_progress=False).astype(
                np.float64
            )
            cosines.append(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
        expected = spearmanr(cosines, examples.targets).statistic
        found = result.scores[f"{examples.split}/demo_sts/spearman"].value
        assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
def test_a_finished_run_evaluated_again_has_the_same_scores(run, result, tmp_path, tiny_backbone):
    again = run_job(tmp_path, tiny_backbone, "dataset=[]", "benchmark=demo", f"init_from={run}")
    read = Result.read(again)
    assert read.trained_on == []
    assert read.training == {}
    shared = {key for key in values(result.scores) if "/demo_sts/" in key or "/demo_nli/" in key}
    assert len(shared) == 24
    for key in shared:
        assert read.scores[key].value == pytest.approx(result.scores[key].value, abs=1e-3)


def test_training_goes_on_from_a_run(run, tmp_path, tiny_backbone):
    still = run_job(tmp_path, tiny_backbone, *STEPS, f"init_from={run}", STILL)
    assert weights(still) == weights(run)


@pytest.mark.slow
def test_weights_before_training_are_scored_on_demand(tmp_path, tiny_backbone):
    trained = Result.read(run_job(tmp_path, tiny_backbone, *STEPS, "evaluation.untrained=true"))
    alone = run_job(tmp_path, tiny_backbone, "debug_rows=24", "dataset=[]", "benchmark=demo")
    assert set(trained.untrained) == set(trained.scores)
    before = values(Result.read(alone).scores)
    for key, score in trained.untrained.items():
        # Other sentences in a batch mean other padding, and that another rounding.
        assert score.value == pytest.approx(before[key], abs=1e-3)
    assert values(trained.untrained) != values(trained.scores)


def test_a_mixture_gives_each_kind_its_loss(tmp_path, tiny_backbone, monkeypatch):
    built = {}
    build = StageRun._build_module

    def remember(self, *given):
        module = build(self, *given)
        built["losses"] = {name: type(loss).__name__ for name, loss in module.losses.items()}
        built["head"] = {
            key: one.clone() for key, one in module.state_dict().items() if key.startswith("losses.")
        }
        return module

    monkeypatch.setattr(StageRun, "_build_module", remember)
    run = run_job(
        tmp_path,
        tiny_backbone,
        "dataset=[demo_sts,demo_qmc,demo_nli]",
        "loss=by_kind",
        "debug_rows=24",
        "logger.every_steps=1",
    )
    assert built["losses"] == {
        "demo_sts": "CosineSimilarity",
        "demo_qmc": "OnlineContrastive",
        "demo_nli": "SoftmaxClassifier",
    }
    kept = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    assert built["head"], "the softmax classifier has parameters"
    for key, before in built["head"].items():
        assert not torch.equal(kept[key], before), f"{key} was not trained"
    for name in ("train/loss", "dev/demo_sts/spearman", "dev/demo_nli/spearman"):
        assert logged(run, name)


NEEDS_MODEL = {"ce", *(name for name, one in EXPECTED.items() if one.kinds in ("teacher", "guide"))}
"""Losses of which a bi-encoder has not what they read."""
FITS = {name: one.sets for name, one in EXPECTED.items() if name not in NEEDS_MODEL}
FITS["by_kind"] = {"demo_sts", "demo_qmc", "demo_order", "demo_nli"}
SETS = ("demo_sts", "demo_qmc", "demo_order", "demo_nli")
OFTEN = {"cosent", "info_nce", "by_kind", "softmax"}


def test_every_loss_on_file_is_tried(project_root):
    assert {path.stem for path in (project_root / "conf" / "loss").glob("*.yaml")} == set(FITS) | NEEDS_MODEL


def losses_on_sets():
    """Every loss with every set; slow, but for one set that it takes, one that it refuses, and losses used OFTEN."""
    for loss, fitting in FITS.items():
        fits, refused = ([name for name in SETS if (name in fitting) is wanted] for wanted in (True, False))
        quick = {*fits[:1], *refused[:1]} | ({"demo_qmc", "demo_nli"} if loss in OFTEN else set())
        for dataset in SETS:
            yield pytest.param(loss, dataset, marks=[] if dataset in quick else [pytest.mark.slow])


@pytest.mark.parametrize(("loss", "dataset"), losses_on_sets())
@pytest.mark.sampled(30)
def test_every_loss_runs_on_every_set_or_refuses_before_data_are_read(
    loss, dataset, tmp_path, tiny_backbone, monkeypatch
):
    overrides = (
        f"dataset=[{dataset}]",
        f"loss={loss}",
        "training.duration=1 steps",
        "evaluation.splits=[dev]",
    )
    if dataset in FITS[loss]:
        result = Result.read(run_job(tmp_path, tiny_backbone, *overrides))
        assert result.training["steps"] == 1
        return
    forbid_reading(monkeypatch)
    with pytest.raises(UserError) as refused:
        run_job(tmp_path, tiny_backbone, *overrides)
    message = str(refused.value)
    assert f"loss={loss} needs" in message
    if "needs a teacher score" in message:
        assert "loss=list_mle needs none" in message
        assert dataset in FITS["list_mle"]
        return
    named = message.partition(f"Losses for {dataset}: ")[2].strip(".").split(", ")
    assert set(named) == {name for name, sets in FITS.items() if dataset in sets} - {"by_kind", *AROUND}


def test_a_curriculum_leaves_a_result_per_stage_and_goes_on_where_it_stopped(tmp_path, tiny_backbone):
    words = (
        "dataset=[demo_nli,demo_sts]",
        "schedule=serial",
        "benchmark=none",
        "debug_rows=24",
        "logger.tags=[x]",
    )
    run = run_job(tmp_path, tiny_backbone, *words)
    first = run / "stages" / "0-demo_nli"
    assert Result.read(first).trained_on == ["demo_nli"]
    assert Result.read(run).trained_on == ["demo_nli", "demo_sts"]
    assert (Result.read(first).stage, Result.read(run).stage) == (0, 1)
    assert set(Result.read(first).scores) == set(Result.read(run).scores)
    assert weights(first) != weights(run)

    whole, written = weights(run), (first / "result.json").stat().st_mtime_ns
    (run / "result.json").unlink()
    (run / "encoder" / "model.safetensors").unlink()
    again = run_job(tmp_path, tiny_backbone, *words, "resume=auto")
    assert again == run
    assert (first / "result.json").stat().st_mtime_ns == written
    assert weights(again) == whole


@pytest.mark.slow
def test_a_layer_norm_is_learnt_and_left_behind(tmp_path, tiny_backbone):
    words = ("evaluation.splits=[dev]", "backbone.layer_norm=true", "training.duration=1 epochs")
    run = run_job(tmp_path, tiny_backbone, *words)
    encoder = load_encoder(run)
    (norm,) = encoder.projections
    assert not torch.equal(norm.norm.weight, torch.ones(32))
    assert not torch.equal(norm.norm.bias, torch.zeros(32))
    again = run_job(
        tmp_path, tiny_backbone, "dataset=[]", "benchmark=demo", "evaluation.splits=[dev]", f"init_from={run}"
    )
    key = "dev/demo_sts/spearman"
    assert Result.read(again).scores[key].value == pytest.approx(Result.read(run).scores[key].value, abs=1e-6)


@pytest.mark.slow
def test_each_batch_of_a_job_holds_labels_and_lengths_in_proportion(tmp_path, tiny_backbone, monkeypatch):
    seen = []
    step = SentenceModule.training_step
    monkeypatch.setattr(
        SentenceModule,
        "training_step",
        lambda module, batch, index: (
            seen.append(batch.tensors["targets"].tolist()),
            step(module, batch, index),
        )[1],
    )
    words = ("dataset=[demo_qmc]", "training.duration=1 epochs", "evaluation.splits=[dev]")
    run_job(tmp_path, tiny_backbone, *words, "training.stratify_by=label_length")
    labels = [label for batch in seen for label in batch]
    assert len(labels) == 48
    share = sum(labels) / len(labels)
    assert all(abs(sum(batch) - share * len(batch)) < 2 for batch in seen)


@pytest.mark.slow
def test_starting_afresh_keeps_earlier_work_aside(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, *STEPS)
    before = (run / "result.json").read_text()
    assert run_job(tmp_path, tiny_backbone, *STEPS) == run
    assert (run / "previous" / "1" / "result.json").read_text() == before
    assert Result.read(run).key == Result.read(run / "previous" / "1").key


def test_the_lexical_row_is_tfidf_and_nothing_is_learnt(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, "model=lexical", "benchmark=demo")
    result = Result.read(run)
    assert result.trained_on == []
    assert not (run / "encoder").exists()
    job = typed_job("dataset=[demo_sts]", "benchmark=none", "debug_rows=48")
    (dev,) = (
        one
        for one in loading.load_job_data(job, {"demo_sts": "scored_pair"}).evaluation
        if one.split == "dev"
    )
    expected = spearmanr(lexical_scores(dev.texts("text_a"), dev.texts("text_b")), dev.targets).statistic
    assert result.scores["dev/demo_sts/spearman"].value == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_a_checkpoint_is_chosen_on_the_set_that_is_named(tmp_path, tiny_backbone):
    words = (*STEPS, "benchmark=demo")
    result = Result.read(run_job(tmp_path, tiny_backbone, *words, "training.monitor=dev/demo_qmc/spearman"))
    assert result.training["selected_on"] == ["demo_qmc"]
    found = result.scores["dev/demo_qmc/spearman"].value
    assert result.training["best_dev_spearman"] == pytest.approx(found, abs=1e-6)


def test_without_a_dev_split_the_last_weights_are_tested(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, *STEPS, "evaluation.splits=[test]")
    training = Result.read(run).training
    assert (training["selected_on"], training["best_dev_spearman"]) == ([], None)
    assert not (run / "checkpoints" / "best.ckpt").exists()
    assert Result.read(run).scores["test/demo_sts/spearman"].value is not None


@pytest.mark.slow
def test_patience_ends_a_training_that_learns_nothing(tmp_path, tiny_backbone):
    words = ("training.duration=40 steps", "training.validate_every=2 steps", STILL, "debug_rows=24")
    stopped = Result.read(run_job(tmp_path, tiny_backbone, *words, "training.patience=2")).training
    # The first validation is the best so far; two more are not better.
    assert (stopped["steps"], stopped["planned_steps"]) == (6, 40)
    assert (
        Result.read(run_job(tmp_path, tiny_backbone, *words, "training.patience=null")).training["steps"]
        == 40
    )


@pytest.mark.slow
def test_the_debug_recipe_runs(tmp_path, tiny_backbone):
    config = compose_job(
        "debug=fast",
        "backbone=random_small",
        f"output_dir={tmp_path}",
        f"backbone.path={tiny_backbone}",
        "logger.progress=false",
    )
    train.run_job(config)
    result = Result.read(config.run_dir)
    assert result.training["steps"] == 3
    assert result.scores["test/demo_nli/spearman"].count == 32


def test_the_asked_number_of_threads_is_taken(tmp_path, tiny_backbone):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        run_job(tmp_path, tiny_backbone, *STEPS, "hardware.threads=1")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def run_program(folder, *words):
    os.chdir(folder)
    sys.argv = [str(ROOT / "train.py"), *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


def test_the_program_itself(tmp_path, tiny_backbone, capfd):
    """In a copy of this process, which has torch; `train.py -m` of tests/sweeps/test_train_m.py starts new ones."""

    def start(*words):
        status = in_a_fork(run_program, tmp_path, *words)
        said = capfd.readouterr()
        assert status == 0, said.err
        return said.out

    assert "batch_size: 64" in start("--cfg", "job")
    shown = start(*SMALL, *STEPS, f"output_dir={tmp_path}", f"backbone.path={tiny_backbone}")
    assert "demo_sts" in shown
    (run,) = (path for path in tmp_path.iterdir() if path.name.startswith("demo_sts"))
    assert str(run) in shown
    assert Result.read(run).environment["command"][0] == "train.py"
    assert (run / ".hydra" / "overrides.yaml").exists()
