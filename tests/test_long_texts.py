"""An evaluation reads long texts cut or in chunks, and says what each gives."""

import json

import numpy as np
import pytest
from jobs import tiny_encoder

from juzhen.cli.main import main
from juzhen.core.examples import Examples, Kind
from juzhen.encoders import save_encoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.settings import EvaluationSettings


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone, max_length=12)
    encoder.prompts = {"query": "问：", "document": "答："}
    return encoder.eval()


CHUNKS = EvaluationSettings(long_texts="chunk", chunk_overlap=2)


def test_scores_are_those_of_vectors_that_encode_gives(encoder, tmp_path):
    texts = {
        "text_a": ["今天天气很好" * 4, "怎么退货", "苹果好吃" * 5],
        "text_b": ["今天天气好" * 5, "怎么发货", "梨"],
    }
    pairs = Examples.from_texts(
        "set", "test", kind=Kind.SCORED_PAIR, texts=texts, targets=np.array([1.0, 0.5, 0.0], dtype=np.float32)
    )
    expected = encoder.score(texts["text_a"], texts["text_b"], long_texts="chunk", overlap=2)
    assert not np.allclose(expected, encoder.score(texts["text_a"], texts["text_b"]), atol=1e-4)
    for cache in (None, tmp_path, tmp_path):  # the second pass of a cache encodes nothing
        settings = EvaluationSettings(long_texts="chunk", chunk_overlap=2)
        settings.evaluation.cache_embeddings = cache is not None
        found, described = EvaluationRun(encoder, settings, None if cache is None else str(cache))(
            [pairs], seen={}
        )
        assert np.allclose(found.rows["test/set"]["score"], expected, atol=1e-6)
        assert "cut" not in described["test/set"]


@pytest.mark.slow
def test_queries_and_documents_keep_their_prompts(encoder):
    found = evaluate(encoder, ["demo_retrieval"], settings=CHUNKS).scores
    cut = evaluate(encoder, ["demo_retrieval"]).scores
    assert found.keys() == cut.keys()
    assert any(found[key] != cut[key] for key in found)
    encoder.max_length = 64  # the longest text fits
    try:
        whole = evaluate(encoder, ["demo_retrieval"]).scores
        again = evaluate(encoder, ["demo_retrieval"], settings=CHUNKS).scores
    finally:
        encoder.max_length = 12
    assert whole == again


@pytest.mark.slow
def test_the_command_line_compares_both(encoder, tmp_path, capsys):
    folder = save_encoder(encoder, tmp_path / "encoder", card={})
    start = ["evaluate", str(folder), "--dataset", "demo_retrieval"]
    assert main([*start, "--long-texts", "chunk", "--out", str(tmp_path / "out")]) == 0
    table = capsys.readouterr().out
    assert "| set | measure | cut | chunk | longer texts |" in table
    (path,) = (tmp_path / "out").glob("long_texts-*.json")
    numbers = json.loads(path.read_text())
    assert numbers["cut"].keys() == numbers["chunk"].keys()
