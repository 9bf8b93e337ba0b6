"""Jobs whose losses read one score per document: what is read from files, what both models make of it, refusals."""

import numpy as np
import pytest
import torch
from jobs import COLUMNS, logged, ranked_rows, run_job

from lightning_modules.biencoder import BiEncoder
from lightning_modules.crossencoder import CrossEncoderModule


@pytest.fixture
def ranked(tmp_path):
    """Writes rows of a query and three documents with scores; gives the overrides that train on them."""
    return lambda *given, **named: ranked_rows(tmp_path / "data", *given, **named)


@pytest.mark.parametrize("model", [BiEncoder, CrossEncoderModule])
@pytest.mark.parametrize("loss", ["margin_mse", "list_kl", "list_mle", "lambda_loss"])
@pytest.mark.sampled(9)
def test_scores_of_rows_meet_their_documents(model, loss, ranked, tmp_path, tiny_backbone, monkeypatch):
    seen, encode = [], model.encode

    def spy(self, batch):
        seen.append((batch, encode(self, batch)))
        return seen[-1][1]

    monkeypatch.setattr(model, "encode", spy)
    words = (
        f"model={model.__module__.rpartition('.')[2]}",
        f"loss={loss}",
        "backbone.dropout=0.0",
        *ranked(),
    )
    assert len(logged(run_job(tmp_path, tiny_backbone, *words), "train/simclue_rank/accuracy")) == 2
    batch, encoded = seen[0]
    numbers = batch.rows.numpy()
    expected = np.stack([numbers / 8, -numbers, np.where(numbers == 7, 0.5, 1)], axis=1)
    np.testing.assert_array_equal(encoded["teacher_scores"].numpy(), expected.astype(np.float32))
    assert encoded["document_scores"].shape == (8, 3)


def test_the_cross_encoder_scores_each_pair_as_it_would_alone(ranked, tmp_path, tiny_backbone, monkeypatch):
    seen, encode = [], CrossEncoderModule.encode

    def spy(self, batch):
        rows, found = self.trainer.datamodule.train["simclue_rank"], encode(self, batch)
        pairs = [
            [(rows.texts("anchor")[row], rows.texts(name)[row]) for name in list(COLUMNS)[1:]]
            for row in batch.rows.tolist()
        ]
        with torch.no_grad():
            alone = [self.encoder.eval().score(one) for one in pairs]
        self.encoder.train()
        seen.append((found["document_scores"].detach().numpy(), np.array(alone)))
        return found

    monkeypatch.setattr(CrossEncoderModule, "encode", spy)
    words = (
        "model=crossencoder",
        "loss=list_mle",
        "backbone.dropout=0.0",
        "model.head_dropout=0.0",
        *ranked(COLUMNS),
    )
    run_job(tmp_path, tiny_backbone, *words)
    for found, alone in seen:
        np.testing.assert_allclose(found, alone, atol=1e-5)


def test_a_bad_row_can_be_left_out(ranked, tmp_path, tiny_backbone):
    run_job(tmp_path, tiny_backbone, "loss=margin_mse", "on_bad_row=drop", *ranked(last="inf"))
