"""Every model with every loss: it trains, or it says why not before anything is loaded; docs/losses.md tells which."""

import re

import pytest
import torch
from jobs import run_job, typed_job

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.result import Result
from lightning_modules.loss_factory import declared_loss, match_losses
from tools import loss_table

SETS = {
    Kind.SCORED_PAIR: "demo_sts",
    Kind.LABELLED_PAIR: "demo_qmc",
    Kind.NLI_PAIR: "demo_nli",
    Kind.POSITIVE_PAIR: "tatoeba_en_zh",
    Kind.TRIPLET: "simclue_rank",
    Kind.SENTENCE: "text_lctt",
    Kind.LABELLED_TEXT: "tnews",
}
PAIRS_ALONE = ("cot_single", "cot_without_negative", "simcse", "views")
FROM_TEXT = [
    (model, loss)
    for model in sorted(loss_table.options("model"))
    if model
    not in (
        "biencoder",
        "colbert",
        "crossencoder",
        "distill",
        "distill_translations",
        "guided",
        "lexical",
        "bm25",
        "mlm",
        "reranker",
        "splade",
    )
    for loss, one in loss_table.options("loss").items()
    if loss != "info_nce_guided"  # for model=guided alone
    and {Kind.POSITIVE_PAIR} | ({Kind.TRIPLET} if model not in PAIRS_ALONE else set())
    <= {*(declared_loss(one).input_kinds if "_target_" in one else Kind)}
]
"""Models that make pairs of sentences, and losses that take pairs. Those of rows are tried in tests/test_jobs.py,
test_crossencoder.py, test_reranker.py, test_distill.py and test_guided.py. All but PAIRS_ALONE make triplets, too."""


@pytest.fixture(scope="module")
def outcomes():
    return loss_table.outcomes()


@pytest.mark.slow  # tests/docs/test_generated.py sees when it must be written again
def test_the_page_is_what_the_code_says(project_root, outcomes, monkeypatch):
    monkeypatch.setattr(loss_table, "outcomes", lambda: outcomes)
    assert (project_root / "docs" / "losses.md").read_text(encoding="utf-8") == loss_table.page(), (
        f"write it again: {loss_table.COMMAND}"
    )
    assert loss_table.STUB.read_text(encoding="utf-8") == loss_table.stub()


def test_the_page_says_when_to_choose_a_loss_and_how_to_call_it(project_root):
    page = (project_root / "docs" / "losses.md").read_text(encoding="utf-8")
    rows = {
        line.split("`")[1]: line
        for line in page.partition("## Numbers")[0].splitlines()
        if line.startswith("| `")
    }
    assert "first to try on graded" in rows["cosent"]
    assert "`CoSENT()(scores, targets)`" in rows["cosent"]
    assert "`SoftmaxClassifier(dim=…, num_classes=…)(first, second, classes)`" in rows["softmax"]
    assert "https://arxiv.org/abs/1807.03748" in rows["info_nce"]
    assert all(row.split(" | ")[2] for name, row in rows.items() if name != "by_kind")


def test_the_code_of_the_page_runs(project_root):
    (code,) = re.findall(
        r"```python\n(.*?)```", (project_root / "docs" / "losses.md").read_text("utf-8"), re.S
    )
    vectors = torch.nn.functional.normalize(torch.randn(2, 4, 8), dim=-1)
    known = {
        "scores": torch.rand(4),
        "targets": torch.arange(4.0),
        "anchors": vectors[0],
        "positives": vectors[1],
    }
    for line in code.splitlines():
        exec(line, known)
        assert "loss" not in known or (known["loss"].shape == () and known["loss"].isfinite())
    assert "loss" in known


@pytest.mark.slow
def test_the_table_has_every_model_and_loss(project_root, outcomes):
    for group, names in (("model", set(outcomes)), ("loss", set(outcomes["biencoder"]))):
        assert names == {path.stem for path in (project_root / "conf" / group).glob("*.yaml")}
    assert all(bool(one.kinds) != bool(one.reason) for row in outcomes.values() for one in row.values())
    assert set(FROM_TEXT) == {
        (model, loss)
        for model in {model for model, _ in FROM_TEXT}
        for loss, one in outcomes[model].items()
        if one.kinds
    }


@pytest.mark.slow
@pytest.mark.parametrize("model", ["biencoder", "crossencoder", "cot", "cot_single", "views"])
def test_the_table_tells_what_becomes_of_a_real_job(model, outcomes):
    words = [f"model={model}", f"dataset=[{','.join(SETS.values())}]", "benchmark=none"]
    words += ["model.language=zh"] if "cot" in model else []  # the sets are in several languages
    job = typed_job(*words)
    sets, losses = job.dataset, loss_table.losses_for(job.model)
    sets[SETS[Kind.TRIPLET]].layouts["tsv"].columns |= {"score_positive": "read by some losses"}
    for kind, name in SETS.items():
        assert Kind(sets[name].kind) is kind
        sets[name].convert_to = None
        job.dataset = {name: sets[name]}
        for loss, one in outcomes[model].items():
            job.loss = losses[loss]
            if kind in one.kinds:
                assert match_losses(job)[name].kind is one.kinds[kind], (loss, kind)
                continue
            with pytest.raises(UserError, match=r"loss=|by_kind"):
                match_losses(job)


def takes_a_step(model, loss, folder, backbone):
    words = (f"model={model}", f"loss={loss}", "training.duration=1 steps", "debug_rows=24")
    words += ("model.untrained_mask=true",) if "cot" in model else ()
    run = run_job(folder, backbone, *words, "evaluation.splits=[dev]")
    assert Result.read(run).training["steps"] == 1


@pytest.mark.parametrize(("model", "loss"), [("views", "info_nce"), ("cot", "info_nce_extended")])
@pytest.mark.slow
def test_a_model_of_text_takes_a_step(model, loss, tmp_path, tiny_backbone):
    takes_a_step(model, loss, tmp_path, tiny_backbone)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "loss"), FROM_TEXT)
def test_every_model_of_text_takes_a_step_with_every_loss_of_pairs(model, loss, tmp_path, tiny_backbone):
    takes_a_step(model, loss, tmp_path, tiny_backbone)
