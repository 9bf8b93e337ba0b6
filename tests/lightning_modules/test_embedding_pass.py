"""The final evaluation of a job: with every back end, and with a cache that spares it the encoder."""

import numpy as np
import pytest
from jobs import key_of, run_job
from test_ddp import TWO, start

from juzhen.backends.torch_backend import TorchBackend
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.encoders import SentenceEncoder
from juzhen.evaluation.encoding_plan import NOTHING, CosinePlan

TWO_SETS = ("benchmark=none", *(f"+dataset@evaluate.{name}={name}" for name in ("demo_sts", "demo_qmc")))
UNTRAINED = ("dataset=[]", *TWO_SETS)


@pytest.fixture
def encoded(monkeypatch):
    """Number of sentences in each call of the encoder."""
    counts = []
    plain = SentenceEncoder.forward
    monkeypatch.setattr(
        SentenceEncoder, "forward", lambda self, tokens: counts.append(len(tokens)) or plain(self, tokens)
    )
    return counts


def scores(run):
    return {key: score.value for key, score in Result.read(run).scores.items() if score.value is not None}


def evaluate(folder, backbone, *words):
    return scores(run_job(folder, backbone, *UNTRAINED, *words))


def assert_close(found, expected, *, atol):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=atol), key


@pytest.mark.slow
def test_the_same_weights_encode_nothing_a_second_time(tmp_path, tiny_backbone, encoded):
    kept = ("evaluation.cache_embeddings=true", f"cache_dir={tmp_path / 'cache'}")
    plain = evaluate(tmp_path / "plain", tiny_backbone)
    needed = sum(encoded)
    few = evaluate(tmp_path / "few", tiny_backbone, *kept, "evaluation.splits=[dev]")
    encoded.clear()
    assert len(few) < len(plain)
    assert_close(evaluate(tmp_path / "first", tiny_backbone, *kept), plain, atol=1e-6)
    assert 0 < sum(encoded) < needed, "what is known was encoded, or what is not known was not"
    encoded.clear()
    assert_close(evaluate(tmp_path / "second", tiny_backbone, *kept), plain, atol=1e-6)
    assert encoded == []
    other = evaluate(tmp_path / "other", tiny_backbone, *kept, "backbone.pooling=cls")
    assert sum(encoded) == needed, "another pooling has other embeddings"
    assert other != plain


@pytest.mark.slow
def test_weights_before_and_after_training_are_kept_apart(tmp_path, tiny_backbone, encoded):
    words = ("training.duration=2 steps", *TWO_SETS, "evaluation.untrained=true")
    kept = ("evaluation.cache_embeddings=true", f"cache_dir={tmp_path / 'cache'}")
    plain = Result.read(run_job(tmp_path / "plain", tiny_backbone, *words))
    for folder in ("first", "second"):
        found = Result.read(run_job(tmp_path / folder, tiny_backbone, *words, *kept))
        for side in ("scores", "untrained"):
            for key, score in getattr(plain, side).items():
                assert getattr(found, side)[key].value == pytest.approx(score.value, abs=1e-6)
    assert plain.scores != plain.untrained


@pytest.mark.slow
def test_a_job_is_tested_with_its_back_end_and_validated_with_torch(tmp_path, tiny_backbone, monkeypatch):
    calls = []
    plain = TorchBackend.encode
    monkeypatch.setattr(
        TorchBackend, "encode", lambda self, tokens: calls.append(self.name) or plain(self, tokens)
    )
    # The probe of the space's health is encoded by the torch back end, too.
    words = ("training.duration=2 steps", "benchmark=none", "callbacks.space_health=null")
    exact = scores(run_job(tmp_path / "exact", tiny_backbone, *words))
    assert calls == []
    run = run_job(tmp_path / "rounded", tiny_backbone, *words, "evaluation.backend=torch_bf16")
    assert set(calls) == {"torch_bf16"}
    assert scores(run) != exact
    assert_close(
        {key: value for key, value in scores(run).items() if key.endswith("spearman")},
        {key: value for key, value in exact.items() if key.endswith("spearman")},
        atol=0.05,  # 48 rows
    )
    assert Result.read(run).config["evaluation"]["backend"] == "torch_bf16"


@pytest.mark.slow
def test_a_graph_evaluates_as_torch_does(tmp_path, tiny_backbone):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    found = evaluate(tmp_path / "onnx", tiny_backbone, "evaluation.backend=onnx")
    assert_close(found, evaluate(tmp_path / "torch", tiny_backbone), atol=1e-4)


def test_the_back_end_belongs_to_the_run_and_the_cache_does_not():
    assert key_of() == key_of("evaluation.cache_embeddings=true") == key_of("cache_dir=elsewhere")
    assert key_of() != key_of("evaluation.backend=onnx")
    assert key_of() != key_of("evaluation.bootstrap_samples=47")


def test_what_cannot_work_is_said_before_training(tmp_path, tiny_backbone, monkeypatch):
    words = ("training.duration=2 steps", "benchmark=demo")

    def refuses(encoder, name):
        raise UserError(f"no {name}")

    monkeypatch.setattr("juzhen.evaluation.encoding_plan.open_backend", refuses)
    monkeypatch.setattr("juzhen.evaluation.encoding_plan.require_packages", lambda name: None)
    monkeypatch.setattr(SentenceEncoder, "forward", lambda self, tokens: pytest.fail("it trained"))
    with pytest.raises(UserError, match="no onnx"):
        run_job(tmp_path, tiny_backbone, *words, "evaluation.backend=onnx")


def test_a_plan_says_which_sentences_are_pending():
    first, second = ["今天", "明天", "今天"], ["明天", "后天", "昨天"]
    pairs = Examples.from_texts(
        "pairs", "dev", kind=Kind.SCORED_PAIR, texts={"text_a": first, "text_b": second}, targets=np.zeros(3)
    )
    plan = CosinePlan([pairs])
    assert plan.examples.sentences == plan.sentences == ["今天", "明天", "后天", "昨天"]
    embeddings = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    (expected,) = plan.scores(embeddings)
    known = embeddings.copy()
    known[[1, 3]] = np.nan
    plan.recall(np.array([1, 3]), known)
    assert plan.examples.texts("text") == ["明天", "昨天"]
    np.testing.assert_array_equal(plan.scores(embeddings[[1, 3]])[0], expected)
    plan.recall(np.array([], dtype=np.int64), embeddings)
    assert plan.examples is NOTHING
    np.testing.assert_array_equal(plan.scores(np.zeros((1, 5), np.float32))[0], expected)


@pytest.mark.slow
def test_two_processes_read_and_fill_one_cache(tmp_path, tiny_backbone, project_root):
    kept = (
        "evaluation.cache_embeddings=true",
        f"cache_dir={tmp_path / 'cache'}",
        "benchmark=demo",
        "dataset=[]",
    )
    found = [
        scores(start(project_root, tmp_path / folder, tiny_backbone, *kept, *more)[0])
        for folder, more in (
            ("few", [*TWO, "evaluation.splits=[dev]"]),
            ("all", TWO),
            ("again", TWO),
            ("one", ()),
        )
    ]
    assert len(found[0]) < len(found[1])
    for other in found[2:]:
        assert_close(other, found[1], atol=1e-6)
