"""`init_from=` of a run whose encoder another model has made: which go on, and what the others are told."""

import json
import shutil

import pytest
from jobs import typed_job

from conf.own_classes import own_class
from juzhen.core.errors import UserError
from juzhen.encoders.resolve_path import HEAD_FILE
from lightning_modules.starts import HEADED

MODULES = {
    "colbert": ["sentence_transformers.models.Transformer"],
    "splade": ["sentence_transformers.models.Transformer"],
    "reranker": ["sentence_transformers.base.modules.Transformer", "sentence_transformers.x.LogitScore"],
}
MODELS = (
    "biencoder",
    "cot",
    "guided",
    "distill",
    "mlm",
    "colbert",
    "splade",
    "crossencoder",
    "reranker",
)


@pytest.fixture(scope="module")
def made_by(encoder_folder, tmp_path_factory):
    """Model → a run of it, as far as files tell."""
    runs = {}
    for model in HEADED:
        runs[model] = tmp_path_factory.mktemp("runs") / model
        folder = runs[model] / "encoder"
        shutil.copytree(encoder_folder, folder)
        (folder / "juzhen.json").unlink(missing_ok=True)
        if model == "crossencoder":
            (folder / HEAD_FILE).write_bytes(b"")
            continue
        modules = [
            {"idx": n, "name": str(n), "path": "", "type": kind} for n, kind in enumerate(MODULES[model])
        ]
        (folder / "modules.json").write_text(json.dumps(modules))
        kind = {"colbert": "ColBERT", "splade": "SparseEncoder"}.get(model, "CrossEncoder")
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": kind}))
    return runs


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sampled(2)
def test_an_encoder_of_another_model_is_refused_with_the_way_out(made_by, model):
    teacher = ["model.teacher=builtin/mini_zh@2"] if model in ("guided", "distill") else []
    job = typed_job("benchmark=none", f"model={model}", *teacher)
    module = own_class(job.model["_target_"])
    for held, run in made_by.items():
        job.init_from = str(run)
        if held == model:
            continue
        with pytest.raises(
            UserError, match=rf"init_from=\S+: holds a .*\. Type model={held} to go on"
        ) as refused:
            module.check_start(job)
        is_alone = f"backbone=local backbone.path={run}/encoder in place of init_from" in str(refused.value)
        assert is_alone == (held == "crossencoder" and model != "reranker")
