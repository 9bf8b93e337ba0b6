"""Jobs of model=distill: what a student learns of its teacher, and what it leaves behind."""

import json
import shutil

import numpy as np
import pytest
import scipy.stats
import torch
from jobs import compose_job, logged, run_job
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.core.result import Result
from juzhen.encoders import SentenceEncoder, load_encoder
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.losses import distill_cosine, distill_mse, distill_similarity
from launch.job import run_key
from lightning_modules import distill
from lightning_modules.distill import DistillTranslations, Targets, TeacherEmbeddingCache

TEACHER = "model.teacher=builtin/mini_zh@2"
JOB = (
    "model=distill",
    "loss=distill",
    TEACHER,
    "training.batch_size=32",
    "training.duration=20 epochs",
    "training.patience=null",
    "logger.every_steps=1",
    "optimizer.lr=5e-3",
)
TEXTS = ["今天天气很好", "我", "你们在不在", "今天", "天气", "人有了"]


@pytest.fixture(scope="module")
def teacher():
    return SentenceEncoder.load("builtin/mini_zh")


def test_a_student_that_is_its_teacher_has_nothing_to_learn():
    vectors = torch.randn(6, 5, dtype=torch.float64)
    for loss in (distill_cosine, distill_mse, distill_similarity):
        assert loss(vectors, vectors).item() == pytest.approx(0, abs=1e-12)
    assert distill_similarity(vectors[:1], vectors[1:2]).item() == pytest.approx(0, abs=1e-12)  # one row


def test_the_losses_by_hand():
    student, teacher = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    assert distill_cosine(student, teacher).item() == pytest.approx((0 + 0.2) / 2)
    assert distill_mse(student, teacher).item() == pytest.approx((1 + 0 + 0.36 + 4.84) / 4)
    assert distill_similarity(student, teacher).item() == pytest.approx(0.36)  # 0 and 0.6, seen twice


@pytest.mark.parametrize(
    ("projection", "dim"),
    [
        pytest.param("drop", 32, marks=pytest.mark.slow),
        pytest.param("keep", 256, marks=pytest.mark.slow),
        ("pca", 32),
    ],
)
@pytest.mark.slow
def test_a_student_comes_nearer_to_its_teacher(
    projection, dim, tmp_path, tiny_backbone, teacher, monkeypatch
):
    run = run_job(tmp_path, tiny_backbone, *JOB, f"model.projection={projection}")
    assert Result.read(run).data["train/demo_sts"]["kind"] == "sentence"
    cosines, losses = logged(run, "train/demo_sts/teacher_cosine"), logged(run)
    assert np.mean(cosines[-3:]) > np.mean(cosines[:3]) + 0.1
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])
    student = load_encoder(run / "encoder")
    assert student.encode(TEXTS).shape == (len(TEXTS), dim)
    modules = json.loads((run / "encoder" / "modules.json").read_text())
    assert ("2_Dense" in [one["path"] for one in modules]) == (projection == "keep")

    encode = SentenceEncoder.encode
    monkeypatch.setattr(
        SentenceEncoder,
        "encode",
        lambda encoder, *given, **how: (
            pytest.fail("encoded again") if encoder.dim == teacher.dim else encode(encoder, *given, **how)
        ),
    )
    again = run_job(tmp_path, tiny_backbone, *JOB, f"model.projection={projection}")
    assert (again / "encoder/model.safetensors").read_bytes() == (
        run / "encoder/model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_sentence_transformers_loads_a_projection_that_was_kept(tmp_path, tiny_backbone):
    library = pytest.importorskip("sentence_transformers")
    run = run_job(tmp_path, tiny_backbone, *JOB, "model.projection=keep", "training.duration=2 steps")
    theirs = library.SentenceTransformer(str(run / "encoder"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(load_encoder(run / "encoder").encode(TEXTS), theirs, atol=1e-5)


@pytest.mark.slow
def test_the_next_stage_goes_on_with_the_layer_that_was_kept(tmp_path, tiny_backbone):
    words = ("model.projection=keep", "schedule=serial", "schedule.order=[demo_sts,demo_sts]")
    run = run_job(tmp_path, tiny_backbone, *JOB, *words, "training.duration=2 steps")
    assert len(load_encoder(run / "encoder").output_layers) == 1


@pytest.mark.slow
def test_a_positive_shall_have_its_anchors_vector(tmp_path, tiny_backbone, monkeypatch):
    seen = []
    encode = DistillTranslations.encode

    def spy(self, batch):
        seen.append((batch, encode(self, batch)))
        return seen[-1][1]

    monkeypatch.setattr(DistillTranslations, "encode", spy)
    words = ("model=distill_translations", "dataset=[demo_qmc]", "training.duration=2 steps")
    run_job(tmp_path, tiny_backbone, *JOB, *words)
    for batch, encoded in seen:
        half = len(batch)
        assert encoded["projected"].shape == (2 * half, 256)
        assert torch.equal(encoded["teacher"][:half], encoded["teacher"][half:])
        torch.testing.assert_close(encoded["teacher"].norm(dim=1), torch.ones(2 * half))


def targets_of(encoder, folder, sentences, **how):
    kept = TeacherEmbeddingCache(encoder, EmbeddingCache(folder), precision="32-true")
    kept.fill(sentences, progress=False)
    numbers = np.arange(len(sentences))
    return Targets({"a": (kept.find(sentences, numbers), numbers)}, **how)


def vectors_of(encoder, folder, sentences, **how):
    return targets_of(encoder, folder, sentences, **how)("a", np.arange(len(sentences)))


def test_targets_are_the_teachers_vectors_centred_and_cut(tmp_path, teacher):
    raw = teacher.encode(TEXTS, show_progress=False)
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    plain = vectors_of(teacher, tmp_path, TEXTS, center=0.0, dim=None)
    np.testing.assert_allclose(plain, unit(raw), atol=2e-3)
    centred = vectors_of(teacher, tmp_path, TEXTS, center=1.0, dim=None)
    np.testing.assert_allclose(centred, unit(raw - raw.mean(axis=0)), atol=2e-3)
    cut = vectors_of(teacher, tmp_path, TEXTS, center=1.0, dim=5)  # six points lie in five dimensions
    np.testing.assert_allclose(cut @ cut.T, centred @ centred.T, atol=1e-4)


def test_turned_targets_keep_their_angles_and_lie_where_the_student_begins(tmp_path, teacher):
    numbers = np.arange(len(TEXTS))
    targets = targets_of(teacher, tmp_path, TEXTS, center=1.0, dim=4)
    before = targets("a", numbers)
    turn = scipy.stats.ortho_group.rvs(4, random_state=0)
    targets.turn([("a", numbers, 3 * before @ turn)])
    np.testing.assert_allclose(targets("a", numbers), before @ turn, atol=1e-5)


@pytest.mark.parametrize("value", [65536.0, -65536.0, np.nan])
def test_vectors_beyond_half_precision_are_not_kept(tmp_path, teacher, monkeypatch, value):
    encode = teacher.encode
    monkeypatch.setattr(
        teacher, "encode", lambda texts, **how: np.full_like(encode(texts, **how), value, np.float32)
    )
    with pytest.raises(UserError, match="half precision"):
        vectors_of(teacher, tmp_path, TEXTS, center=0.0, dim=None)


def test_work_on_vectors_that_was_cut_off_goes_on_and_gives_the_same(tmp_path, teacher, monkeypatch):
    monkeypatch.setattr(distill, "CALL", 1)
    monkeypatch.setattr(distill, "PORTION", 2)
    whole = vectors_of(teacher, tmp_path / "whole", TEXTS, center=1.0, dim=None)
    encode, calls = teacher.encode, []

    def stops(texts, **how):
        calls.append(texts)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return encode(texts, **how)

    monkeypatch.setattr(teacher, "encode", stops)
    with pytest.raises(KeyboardInterrupt):
        vectors_of(teacher, tmp_path / "cut", TEXTS, center=1.0, dim=None)
    again = vectors_of(teacher, tmp_path / "cut", TEXTS, center=1.0, dim=None)
    assert len(calls) == 4 + 4  # the first portion of two was kept, and what followed it was not
    np.testing.assert_array_equal(again, whole)


def test_another_teacher_in_the_same_folder_is_another_run(tmp_path):
    folder = shutil.copytree(BUILTIN / "mini_zh@2", tmp_path / "teacher")
    job = compose_job("model=distill", "loss=distill", f"model.teacher={folder}")
    key = run_key(job)
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert run_key(compose_job("model=distill", "loss=distill", f"model.teacher={moved}")) == key
    weights = load_file(folder / "model.safetensors")
    save_file({name: one * 1.5 for name, one in weights.items()}, folder / "model.safetensors")
    assert run_key(job) != key


@pytest.mark.slow
def test_a_teacher_reads_behind_the_prompt_that_it_is_given(tmp_path, tiny_backbone, teacher, monkeypatch):
    prompted = "model.teacher_prompt='问：'"
    words = ("model=distill", "loss=distill", TEACHER)
    key = run_key(compose_job(*words))
    assert run_key(compose_job(*words, prompted)) != key
    older = compose_job(*words)  # a run from before there was such a key
    OmegaConf.set_struct(older, False)
    del older.model.teacher_prompt
    assert run_key(older) == key
    seen, encode = {}, SentenceEncoder.encode

    def spy(encoder, texts, **how):
        vectors = encode(encoder, texts, **how)
        if encoder.dim == teacher.dim:
            seen.update(zip(texts, vectors, strict=True))
        return vectors

    monkeypatch.setattr(SentenceEncoder, "encode", spy)
    words = (prompted, f"cache_dir={tmp_path}/cache", "training.duration=1 steps", "debug_rows=8")
    run_job(tmp_path, tiny_backbone, *JOB, *words)
    texts = list(seen)[:3]
    expected = encode(teacher.with_prompt(prompt="问："), texts)
    np.testing.assert_allclose([seen[text] for text in texts], expected, atol=1e-5)
