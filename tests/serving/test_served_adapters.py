"""One server over one base: the model that a request names chooses the adapter."""

import numpy as np
import pytest

from juzhen.encoders import SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client", "peft"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

TEXTS = ["今天天气很好", "怎么退货"]


@pytest.fixture(scope="module")
def adapters(encoder_folder, tmp_path_factory):
    """Two folders, whose adapters give other vectors."""
    folders = []
    for seed, name in ((1, "faq"), (2, "legal")):
        config = BackboneConfig(path=str(encoder_folder), adapter=AdapterConfig(rank=2))
        encoder = load_backbone(config, seed=seed)
        for values in encoder.parameters():
            if values.requires_grad:
                values.data += 0.1 * seed
        folders.append(save_encoder(encoder, tmp_path_factory.mktemp("adapters") / name, card={}))
    return folders


@pytest.mark.slow
def test_the_model_of_a_request_chooses_the_adapter(adapters):
    faq, legal = (SentenceEncoder.load(folder).encode(TEXTS, normalize=True) for folder in adapters)
    assert np.abs(faq - legal).max() > 1e-2
    with serving(adapters[0], adapters=adapters[1:]) as address, httpx.Client(base_url=address) as client:
        assert [card["id"] for card in client.get("/v1/models").json()["data"]] == ["faq", "legal"]
        for name, expected in ((None, faq), ("legal", legal), ("faq", faq)):
            reply = client.post("/v1/embeddings", json={"input": TEXTS, "model": name}).json()
            assert reply["model"] == (name or "faq")
            found = np.array([row["embedding"] for row in reply["data"]], dtype=np.float32)
            np.testing.assert_allclose(found, expected, atol=1e-5)
        pairs = {"pairs": [TEXTS], "model": "legal"}
        score = client.post("/score", json=pairs).json()["scores"][0]
        assert score == pytest.approx(SentenceEncoder.load(adapters[1]).score([tuple(TEXTS)])[0], abs=1e-5)
        refused = client.post("/v1/embeddings", json={"input": TEXTS, "model": "leagl"})
        assert refused.status_code == 404
        assert "Did you mean legal" in refused.json()["error"]["message"]
