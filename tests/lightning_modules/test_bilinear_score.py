"""model.score=bilinear: the form starts as the cosine, is learnt, saved, and used wherever pairs are scored."""

import csv

import numpy as np
import pytest
import torch
from jobs import logged, run_job, typed_job
from torch import nn

from juzhen.backends import require_packages
from juzhen.backends.graph_backends import PaddedEncoder
from juzhen.backends.names import BackendName
from juzhen.calibration.run_scores import ScoredRun
from juzhen.cli.distill import shrink
from juzhen.cli.encode import encode
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.result import Result, weights_digest
from juzhen.encoders import load_encoder, save_encoder
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.pooling import sides
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.resolve_path import SCORE_FILE
from juzhen.encoders.sentence_encoder import with_layers
from launch.job import run_key
from lightning_modules.biencoder import BiEncoder

QUICK = ("training.duration=2 epochs", "evaluation.splits=[dev]", "logger.every_steps=1")
BILINEAR = ("model.score=bilinear", "loss=cosent")
KEY = "dev/demo_sts/spearman"


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    words = (*QUICK, *BILINEAR, "evaluation.untrained=true")
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *words)


def test_the_form_by_a_loop_and_its_gradient():
    generator = torch.Generator().manual_seed(3)
    first, second, form = (torch.randn(size, generator=generator) for size in ((4, 5), (4, 5), (5, 5)))
    head = BilinearScore(5)
    torch.testing.assert_close(head(first, second), torch.cosine_similarity(first, second))
    head.form.data.copy_(form)
    found = head(first.requires_grad_(), second)
    for row in range(4):
        u, v = first[row].double(), second[row].double()
        expected = sum(u[i] * form[i, j] * v[j] for i in range(5) for j in range(5)) / (u.norm() * v.norm())
        assert found[row].item() == pytest.approx(expected.item(), abs=1e-6)
    found.sum().backward()
    units = [nn.functional.normalize(one.detach(), dim=1) for one in (first, second)]
    torch.testing.assert_close(head.form.grad, units[0].T @ units[1])
    assert first.grad.abs().max() > 0
    left, right = sides(np.concatenate([first.detach(), second]), head)
    np.testing.assert_allclose((left[:4] * right[4:]).sum(1), found.detach(), atol=1e-6)


def test_half_precision_does_not_round_it():
    head = BilinearScore(8)
    first, second = torch.randn(2, 6, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = head(first, second)
    assert torch.equal(found, head(first, second))


def test_it_can_tell_an_order_that_no_cosine_can():
    """Pairs (u, v) are to score higher than (v, u), whose cosine is the same."""
    from juzhen.losses.pairwise_ranking import cosent

    u, v = torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(0))
    head, targets = BilinearScore(6), torch.cat([torch.ones(12), torch.zeros(12)])
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(60):
        scores = head(torch.cat([u, v]), torch.cat([v, u]))
        loss = cosent(scores, targets, temperature=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert scores[:12].min() > scores[12:].max()


@pytest.mark.slow
def test_a_run_begins_with_the_cosine_and_learns_the_form(run, tmp_path, tiny_backbone):
    cosine = run_job(tmp_path, tiny_backbone, *QUICK, "loss=cosent", "evaluation.untrained=true")
    mine, theirs = Result.read(run), Result.read(cosine)
    assert mine.untrained[KEY].value == pytest.approx(theirs.untrained[KEY].value, abs=1e-6)
    assert logged(run)[0] == pytest.approx(logged(cosine)[0], rel=1e-6)
    assert logged(run)[-1] != pytest.approx(logged(cosine)[-1], rel=1e-3)
    head = load_encoder(run).score_head
    assert (head.form - torch.eye(32)).abs().max() > 1e-3
    assert load_encoder(cosine).score_head is None
    assert not (cosine / "encoder" / SCORE_FILE).exists()


@pytest.mark.slow
def test_it_is_what_evaluation_predict_and_analysis_score_by(run, tmp_path):
    dev = ScoredRun(run, data_dir=None, batch_tokens=512).scored("demo_sts", "dev")
    encoder = load_encoder(run).eval()
    texts = [dev.examples.texts(column) for column in ("text_a", "text_b")]
    both = [encoder.encode(list(side), batch_tokens=512, show_progress=False) for side in texts]
    u, v = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in both)
    expected = np.einsum("ri,ij,rj->r", u, encoder.score_head.form.detach().numpy(), v)
    np.testing.assert_allclose(dev.scores, expected, atol=1e-5)
    assert np.abs(expected - (u * v).sum(1)).max() > 1e-3

    path = tmp_path / "pairs.tsv"
    lines = ["sentence1\tsentence2", *("\t".join(pair) for pair in zip(*texts, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["score", str(run), "--file", str(path)]) == 0
    with (tmp_path / "pairs.scored.tsv").open(encoding="utf-8") as file:
        written = [
            float(row["score"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    np.testing.assert_allclose(written[: len(expected)], expected, atol=1e-5)


@pytest.mark.slow
def test_verbs_say_what_they_leave_out(run, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("今天天气\n我\n", encoding="utf-8")
    encode(run, tmp_path / "texts.txt")
    assert "scored by uᵀWv and not by the cosine" in capsys.readouterr().err
    shrink(run, tmp_path / "student", layers=1)
    assert "form uᵀWv is left out" in capsys.readouterr().out


@pytest.mark.slow
def test_the_padded_form_gives_what_makes_the_score(run):
    encoder, pair = load_encoder(run).eval(), ("今天天气很好", "我 你")
    ids = [torch.tensor([encoder.tokenizer(text)["input_ids"]]) for text in pair]
    padded = PaddedEncoder(load_encoder(run).eval())
    with torch.no_grad():
        (_, first), (second, _) = (padded(one, torch.ones_like(one)) for one in ids)
    found = (first * nn.functional.normalize(second, dim=-1)).sum()
    assert found.item() == pytest.approx(float(encoder.score(pair)), abs=1e-5)


@pytest.mark.slow
def test_a_graph_has_what_makes_the_score(run, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    assert main(["export", str(run), str(tmp_path / "form"), "--limit", "50"]) == 0
    assert "multiply the second output, `firsts`" in (tmp_path / "form" / "README.md").read_text()
    encoder, pair = load_encoder(run).eval(), ("今天天气很好", "我 你")
    graph, outputs = ort.InferenceSession(tmp_path / "form" / "model.onnx"), []
    for text in pair:
        ids = np.asarray([encoder.tokenizer(text)["input_ids"]])
        outputs.append(graph.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)}))
    (_, first), (second, _) = outputs
    found = float(first[0] @ second[0] / np.linalg.norm(second[0]))
    assert found == pytest.approx(float(encoder.score(pair)), abs=1e-5)


@pytest.mark.slow
def test_a_run_that_starts_from_it_scores_by_it_or_leaves_it_out(run, tmp_path, tiny_backbone):
    words = ("dataset=[]", "benchmark=demo", "evaluation.splits=[dev]", f"init_from={run}")
    again = run_job(tmp_path / "again", tiny_backbone, *words)
    assert Result.read(again).scores[KEY].value == pytest.approx(Result.read(run).scores[KEY].value, abs=1e-6)
    assert (again / "encoder" / SCORE_FILE).read_bytes() == (run / "encoder" / SCORE_FILE).read_bytes()
    without = run_job(tmp_path / "without", tiny_backbone, *words, "model.score=cosine")
    assert Result.read(without).scores[KEY].value != pytest.approx(
        Result.read(run).scores[KEY].value, abs=1e-4
    )
    assert not (without / "encoder" / SCORE_FILE).exists()
    # Learning goes on with the form, whether it is named again or not.
    for more in ((), ("model.score=bilinear",)):
        encoder = BiEncoder.load_encoder(typed_job("benchmark=none", f"init_from={run}", *more))
        assert torch.equal(encoder.score_head.form, load_encoder(run).score_head.form)


def test_a_finished_run_is_filled_in_by_its_form(run):
    before = Result.read(run).scores[KEY]
    assert main(["evaluate", str(run), "--again", "--dataset", "demo_sts"]) == 0
    assert Result.read(run).scores[KEY].value == pytest.approx(before.value, abs=1e-9)


@pytest.mark.slow
def test_stages_carry_it_on(tmp_path, tiny_backbone):
    words = ("schedule=serial", "dataset=[demo_qmc,demo_sts]", "debug_rows=24", "training.duration=1 epochs")
    run = run_job(tmp_path, tiny_backbone, *words, *BILINEAR, "evaluation.splits=[dev]")
    first = load_encoder(run / "stages" / "0-demo_qmc").score_head.form
    last = load_encoder(run).score_head.form
    assert not torch.equal(first, torch.eye(32))
    assert 0 < (first - last).abs().max() < 0.1


def test_a_text_model_takes_the_encoder_without_it(run, tmp_path, tiny_backbone):
    words = (
        "model=views",
        "loss=info_nce",
        "+model.score=cosine",
        f"init_from={run}",
        "training.duration=1 steps",
    )
    left = run_job(tmp_path, tiny_backbone, *words, "evaluation.splits=[dev]")
    assert load_encoder(left).score_head is None


def test_two_forms_over_one_encoder_are_two_runs_to_start_from(run, tmp_path):
    encoder = load_encoder(run)
    folder = save_encoder(encoder, tmp_path / "one", card={})
    key, digest = run_key({"init_from": str(folder)}), weights_digest(folder)
    assert run_key({"init_from": str(folder)}) == key
    encoder.score_head.form.data[0, 0] += 1
    other = save_encoder(encoder, tmp_path / "two", card={})
    assert run_key({"init_from": str(other)}) != key
    assert weights_digest(other) != digest


def test_what_is_built_from_such_an_encoder(run):
    encoder = load_encoder(run)
    card = (run / "encoder" / "README.md").read_text(encoding="utf-8")
    assert "W is in score.safetensors,\nwhich `juzhen score` reads" in card
    assert torch.equal(with_layers(encoder, 3, seed=0).score_head.form, encoder.score_head.form)
    joint = CrossEncoder(encoder, outputs=1, segments=True, symmetric=False, seed=0)
    assert joint.inner.score_head is None


@pytest.mark.slow
def test_it_stands_on_top_of_a_back_end(run, tmp_path, tiny_backbone):
    try:
        require_packages(BackendName.ONNX)
    except UserError as error:
        pytest.skip(str(error))
    words = (
        "dataset=[]",
        "benchmark=demo",
        "evaluation.splits=[dev]",
        f"init_from={run}",
        "evaluation.backend=onnx",
    )
    again = run_job(tmp_path, tiny_backbone, *words)
    assert Result.read(again).scores[KEY].value == pytest.approx(Result.read(run).scores[KEY].value, abs=1e-3)
