"""Sparse encoders: pooling and FLOPS by loops, the same numbers as sentence-transformers, and what is refused."""

import json

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.nn import functional

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.data.rankings import RankingSet
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation import evaluate
from juzhen.families.late.scores import all_maxsims, row_maxsims
from juzhen.families.registry import FAMILIES, PairScorer, family_of, find_family
from juzhen.families.sparse.encoder import NEW_HEAD, SparseEncoder
from juzhen.families.sparse.vectors import SparseVectors, pooled_texts
from juzhen.losses import InfoNCE
from juzhen.losses.regularizers import flops

TEXTS = [
    "怎么退货",
    "how are you？",
    "今天天气很好，我们去公园。然后再回家吃饭，最后看电影睡觉明天上班再说吧好的",
    "!",
]


def tokenizer():
    return SentenceEncoder.load("builtin/mini_zh").tokenizer


def masked_lm(folder, model_type="bert", **options):
    """A random masked language model of that architecture with the vocabulary of the built-in encoder, in a folder."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    torch.manual_seed(0)
    words = tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"vocab_size": len(words), "pad_token_id": words.pad_token_id, "initializer_range": 0.3}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0, "cls_token_id": 0, "sep_token_id": 0}
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(model_type, **sizes | options))
    model.save_pretrained(folder)
    words.model_max_length = 40
    words.save_pretrained(folder)
    return folder


def encoder(folder, model_type="bert", **options):
    return SparseEncoder.around(SentenceEncoder.load(masked_lm(folder, model_type)), **options).eval()


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
@pytest.mark.sampled(4)
@pytest.mark.slow
def test_pooling_is_that_of_loops_at_any_size_of_a_block(tmp_path, pooling, activation):
    model = encoder(tmp_path / "bert", strategy=pooling, activation=activation)
    tokens = model.collate(model.tokenize([*TEXTS, *TEXTS]))
    states = model.token_states(tokens).detach().requires_grad_()
    texts = states.split(tokens.lengths.tolist())
    expected = []
    for text in texts:
        weights = model.head(text).relu().log1p()
        weights = weights.log1p() if activation == "log1p_relu" else weights
        expected.append(weights.amax(dim=0) if pooling == "max" else weights.sum(dim=0))
    expected = torch.stack(expected)
    (wanted,) = torch.autograd.grad(expected.square().sum(), states)
    for at_once in (1, 100_000, 2**25):
        options = {"vocabulary": model.dim, "pooling": pooling, "activation": activation}
        found = torch.cat(list(pooled_texts(model.head, states, tokens, at_once=at_once, **options)))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        (gradient,) = torch.autograd.grad(found.square().sum(), states)
        torch.testing.assert_close(gradient, wanted, atol=1e-4, rtol=1e-4)


def test_flops_and_dot_products_are_those_of_loops():
    rng = np.random.default_rng(0)
    dense = (rng.random((5, 7)) * (rng.random((5, 7)) > 0.6)).astype(np.float32)
    dense[1] = 0
    by_loops = sum(np.mean([abs(dense[row, column]) for row in range(5)]) ** 2 for column in range(7))
    assert flops(torch.from_numpy(dense)).item() == pytest.approx(by_loops, rel=1e-6)
    products = dense @ dense.T
    texts = torch.from_numpy(dense).unsqueeze(1)
    for at_once in (1, 2**20):
        np.testing.assert_allclose(all_maxsims(texts, texts, at_once=at_once), products, atol=1e-6)
    np.testing.assert_allclose(row_maxsims(texts, texts), np.diag(products), atol=1e-6)
    zero = torch.zeros(2, 1, 7, requires_grad=True)
    (all_maxsims(zero, texts).sum() + row_maxsims(texts[:2], zero).sum()).backward()
    assert zero.grad.isfinite().all()
    vectors = SparseVectors(5, 7)
    vectors.take(np.array([4, 3, 2, 1, 0]), sparse.csr_array(dense[::-1]))
    order = np.array([4, 1, 4, 0])
    np.testing.assert_allclose(
        vectors.matrix(vectors, order, order), products[np.ix_(order, order)], atol=1e-6
    )
    np.testing.assert_allclose(vectors.matrix(vectors, order, np.arange(5)), products[order], atol=1e-6)
    np.testing.assert_allclose(
        vectors.pairs(vectors, order, order[::-1]), products[order, order[::-1]], atol=1e-6
    )


ARCHITECTURES = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "electra": {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "albert": {"embedding_size": 16},
    "modernbert": {},
    "mpnet": {},
}


@pytest.mark.oracle
@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_sentence_transformers_and_we_read_what_the_other_saves(tmp_path, model_type):
    from sentence_transformers import SparseEncoder as Theirs
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    start = masked_lm(tmp_path / "start", model_type, **ARCHITECTURES[model_type])
    is_sum = model_type == "bert"
    pooling = SpladePooling("sum" if is_sum else "max", "log1p_relu" if is_sum else "relu")
    transformer = Transformer(str(start), transformer_task="fill-mask")
    theirs = Theirs(modules=[transformer, pooling], prompts={"query": "问："}, device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    ours = SparseEncoder.load(tmp_path / "theirs")
    ours.save(tmp_path / "ours", card={"name": "tiny"})
    again, back = SparseEncoder.load(tmp_path / "ours"), Theirs(str(tmp_path / "ours"), device="cpu")
    for how in ("encode_query", "encode_document"):
        expected = getattr(theirs, how)(TEXTS).to_dense().numpy()
        assert 0 < (expected > 0).mean() < 1
        for each in (ours, again):
            np.testing.assert_allclose(getattr(each, how)(TEXTS).toarray(), expected, atol=1e-5, rtol=1e-5)
            alone = [getattr(each, how)(text).toarray()[0] for text in TEXTS]
            np.testing.assert_allclose(alone, expected, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(getattr(back, how)(TEXTS).to_dense(), expected, atol=1e-5, rtol=1e-5)
    scores = theirs.similarity(theirs.encode_query(TEXTS), theirs.encode_document(TEXTS)).numpy()
    np.testing.assert_allclose(ours.similarity(TEXTS, TEXTS), scores, rtol=1e-4)
    words = theirs.decode(theirs.encode_document(TEXTS[0]), top_k=5)
    found = ours.decode(ours.encode_document(TEXTS[0]), top=5)
    assert [word for word, _ in found] == [word for word, _ in words]


def test_a_set_is_scored_by_dot_products(tmp_path):
    model = encoder(tmp_path / "bert")
    rows = Examples.from_texts(
        "rows",
        "test",
        kind=Kind.SCORED_PAIR,
        texts={"text_a": TEXTS, "text_b": TEXTS[::-1]},
        targets=np.arange(4.0) / 3,
    )
    ranking = RankingSet("ranking", "test", TEXTS[:2], TEXTS, [{0: 1.0}, {1: 1.0}])
    found = evaluate(model, [rows, ranking])
    expected = model.similarity(TEXTS, TEXTS)
    dense = model.encode(TEXTS).toarray()
    np.testing.assert_allclose(expected, dense @ dense.T, rtol=1e-5)
    np.testing.assert_allclose(found.per_row["test/rows"], np.diag(expected[:, ::-1]), rtol=1e-5)
    assert 0 <= found.scores["test/ranking/ndcg_at_10"].value <= 1
    hits = model.search(TEXTS[0], TEXTS, 2)
    assert [hit.corpus_id for hit in hits] == np.argsort(-expected[0])[:2].tolist()
    folder = family_of(model).save(model, tmp_path / "encoder", card={})
    assert find_family(folder) is FAMILIES["sparse"]
    again = PairScorer(folder)(TEXTS[:2], TEXTS[1:3], batch_tokens=64, show_progress=False)
    np.testing.assert_allclose(again, np.diag(expected, 1)[:2], rtol=1e-5)


def test_info_nce_is_that_of_dot_products(tmp_path):
    model = encoder(tmp_path / "bert")
    vectors = model(model.collate(model.tokenize(TEXTS))).unsqueeze(1)
    loss = InfoNCE(temperature=1)(vectors[:2], vectors[2:], vectors[:2, None].flip(0))
    texts = vectors.squeeze(1)
    scores = torch.cat([texts[:2] @ texts[2:].T, texts[:2] @ texts[:2].flip(0).T], dim=1)
    expected = functional.cross_entropy(scores, torch.arange(2))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert all(
        p.grad is not None and p.grad.any() for n, p in model.head.named_parameters() if "bias" not in n
    )


@pytest.mark.slow
def test_a_new_head_names_the_tokens_that_are_there():
    model = SparseEncoder.around(SentenceEncoder.load("builtin/mini_zh"), seed=1)
    assert NEW_HEAD in model.load_warnings
    vector = model.encode("怎么申请退款")
    assert vector.nnz < model.dim / 10
    said = {word for word, _ in model.decode(vector, top=10)}
    assert {*model.tokenizer.tokenize("怎么申请退款")} - {"▁"} <= said


def routed(folder, query, document):
    """A folder of a sparse encoder behind a Router, whose modules are named so."""
    listed = json.loads((folder / "modules.json").read_text())
    types = {module["path"] or ".": module["type"] for module in listed}
    router = {"types": types, "structure": {"query": query, "document": document}, "parameters": {}}
    (folder / "router_config.json").write_text(json.dumps(router))
    top = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}]
    (folder / "modules.json").write_text(json.dumps(top))


def test_a_router_is_read_where_queries_and_documents_are_read_alike(tmp_path):
    folder = encoder(tmp_path / "bert").save(tmp_path / "encoder")
    expected = SparseEncoder.load(folder).encode(["怎么退货"]).toarray()
    modules = (folder / "modules.json").read_text()
    routed(folder, [".", "1_SpladePooling"], [".", "1_SpladePooling"])
    assert np.array_equal(SparseEncoder.load(folder).encode(["怎么退货"]).toarray(), expected)
    (folder / "modules.json").write_text(modules)
    routed(folder, ["1_SpladePooling"], [".", "1_SpladePooling"])
    with pytest.raises(UserError, match=r"modules\.json: Router.*documents.*sub_modules"):
        SparseEncoder.load(folder)
    with pytest.raises(UserError, match=r"SparseEncoder\.load"):
        SentenceEncoder.load(folder)
