"""Jobs of model=guided: what the guide's vectors are, and where they come from."""

import numpy as np
import pytest
from jobs import logged, run_job

from juzhen.encoders import SentenceEncoder
from lightning_modules.distill import Guided

JOB = (
    "model=guided",
    "loss=info_nce_guided",
    "model.teacher=builtin/mini_zh@2",
    "training.duration=3 steps",
    "logger.every_steps=1",
)


@pytest.mark.parametrize("dataset", ["demo_qmc", "demo_nli"], ids=["pairs", "triplets"])
@pytest.mark.slow
def test_every_text_of_a_row_has_the_guides_vector(dataset, tmp_path, tiny_backbone, monkeypatch):
    seen, encode = [], Guided.encode

    def spy(self, batch):
        tables = self.trainer.datamodule.train
        seen.append((batch, encode(self, batch), tables[dataset].sentences))
        return seen[-1][1]

    monkeypatch.setattr(Guided, "encode", spy)
    run = run_job(tmp_path, tiny_backbone, *JOB, f"dataset=[{dataset}]")
    assert len(seen) == 3
    guide = SentenceEncoder.load("builtin/mini_zh")
    for batch, encoded, sentences in seen:
        assert encoded["guide"].shape == (len(batch), len(batch.columns), 256)
        for place, ids in enumerate(encoded["text_ids"].unbind(dim=1)):
            raw = guide.encode([sentences[number] for number in ids.tolist()], show_progress=False)
            expected = raw / np.linalg.norm(raw, axis=1, keepdims=True)
            np.testing.assert_allclose(encoded["guide"][:, place].numpy(), expected, atol=2e-3)
    assert all(0 <= share <= 1 for share in logged(run, f"train/{dataset}/likely_positive_share"))

    monkeypatch.setattr(SentenceEncoder, "encode", lambda *given, **how: pytest.fail("encoded again"))
    again = run_job(tmp_path, tiny_backbone, *JOB, f"dataset=[{dataset}]")
    assert (again / "encoder/model.safetensors").read_bytes() == (
        run / "encoder/model.safetensors"
    ).read_bytes()
