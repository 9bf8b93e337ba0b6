"""Encoders of token vectors: MaxSim by loops, the same numbers as sentence-transformers, and what is refused."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from juzhen.core.examples import Examples, Kind, Side
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation import evaluate
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import PUNCTUATION, MultiVectorSettings
from juzhen.families.late.scores import TokenVectors, all_maxsims, row_maxsims
from juzhen.families.registry import FAMILIES, PairScorer, family_of, find_family
from juzhen.losses import InfoNCE

QUERIES = [
    "怎么退货",
    "how are you？",
    "今天天气很好，我们去公园。然后再回家吃饭，最后看电影睡觉明天上班再说吧好的",
]
DOCUMENTS = ["如何申请退款", "今天天气很好，我们去公园。", "!!!", "A dog runs, fast!"]


def tiny(model_type, **options):
    """A random transformer of that architecture with the vocabulary of the built-in encoder."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    whole = SentenceEncoder.load("builtin/mini_zh")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"vocab_size": len(whole.tokenizer), "pad_token_id": whole.tokenizer.pad_token_id}
    config = AutoConfig.for_model(model_type, **sizes | options)
    backbone = AutoModel.from_config(config)
    settings = {"pooling": "mean", "normalize": False, "max_length": 60, "projections": []}
    return SentenceEncoder(backbone.eval(), whole.tokenizer, **settings)


def encoder(model_type="bert", *, dim=16, markers=True, **rules):
    made = MultiVectorSettings(**{"query_length": 16, "document_length": 40, "expand_to": 16} | rules)
    return MultiVectorEncoder.around(tiny(model_type), dim=dim, reading=made, markers=markers).eval()


def brute(query, document):
    return np.mean([max(float(a @ b) for b in document) for a in query])


def test_maxsim_is_that_of_loops_at_any_size_of_a_block():
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randn(n, 5, 4, generator=generator, dtype=torch.float64) for n in (3, 4)]
    queries, documents = (nn.functional.normalize(text, dim=-1) for text in texts)
    documents = torch.nn.functional.pad(documents, (0, 0, 0, 2))
    queries[0, 3:], documents[1, 2:] = 0, 0
    expected = [[brute(q[q.any(-1)], d[d.any(-1)]) for d in documents.numpy()] for q in queries.numpy()]
    for at_once in (1, 2**20):
        np.testing.assert_allclose(all_maxsims(queries, documents, at_once=at_once), expected, atol=1e-12)
    np.testing.assert_allclose(row_maxsims(queries, documents[:3]), np.diag(expected), atol=1e-12)
    vectors = TokenVectors(7)
    both = [*(q[q.any(-1)] for q in queries.numpy()), *(d[d.any(-1)] for d in documents.numpy())]
    vectors.take(np.arange(7), np.concatenate(both), np.array([*map(len, both)]))
    found = vectors.matrix(vectors, np.arange(3), np.array([3, 4, 5, 6, 3]))
    np.testing.assert_allclose(found, np.array(expected)[:, [0, 1, 2, 3, 0]], atol=1e-6)
    pairs = np.array([2, 0, 2]), np.array([4, 6, 3])
    np.testing.assert_allclose(
        vectors.pairs(vectors, *pairs), [expected[2][1], expected[0][3], expected[2][0]]
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model_type", ["bert", "roberta", "electra", "distilbert"])
@pytest.mark.parametrize("attends", [True, False])
def test_vectors_of_a_text_do_not_depend_on_the_batch(model_type, attends):
    model = encoder(model_type, attends=attends)
    together = model.encode_query(QUERIES) + model.encode_document(DOCUMENTS)
    alone = [model.encode_query(text) for text in QUERIES] + [model.encode_document(t) for t in DOCUMENTS]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert [len(vectors) for vectors in together[:3]] == [16] * 3  # filled up, or cut
    tokens = model.tokenizer.tokenize("[D] !!!")
    assert len(together[5]) == 2 + len([token for token in tokens if token not in PUNCTUATION])
    mixed = model.collate(model.tokenize(DOCUMENTS))
    padded = model(mixed).detach()
    assert padded.shape == (4, mixed.longest, 16)
    np.testing.assert_allclose(padded.norm(dim=-1).sum(dim=1), [len(v) for v in together[3:]], rtol=1e-5)


def test_expansions_look_at_the_others_and_are_not_looked_at():
    model = encoder(attends=False)
    plain = encoder(expand_to=0)
    plain.load_state_dict(model.state_dict())
    with_masks, without = model.encode_query("怎么退货"), plain.encode_query("怎么退货")
    np.testing.assert_allclose(with_masks[: len(without)], without, atol=1e-6)
    attended = encoder(attends=True)
    attended.load_state_dict(model.state_dict())
    assert np.abs(attended.encode_query("怎么退货")[: len(without)] - without).max() > 1e-4


@pytest.mark.parametrize("model_type", ["bert", "qwen3"])
def test_expansions_look_as_in_transformers(model_type):
    """A token that is hidden sees the others before it, and not itself, also where tokens look to the left alone."""
    options = {"num_key_value_heads": 1, "head_dim": 16} if model_type == "qwen3" else {}
    rules = MultiVectorSettings(query_length=16, document_length=40, expand_to=16)
    model = MultiVectorEncoder.around(tiny(model_type, **options), dim=8, reading=rules).eval()
    ids = torch.from_numpy(model.reading(Side.QUERY).tokenize(QUERIES[:1])[0].astype(np.int64))[None]
    is_text = (ids != model.tokenizer.mask_token_id).long()
    assert 2 < is_text.sum() < 16
    with torch.no_grad():
        states = model.backbone(input_ids=ids, attention_mask=is_text).last_hidden_state
        expected = nn.functional.normalize(model.projections[0](states), dim=-1)[0]
    np.testing.assert_allclose(model.encode_query(QUERIES[0]), expected, atol=1e-5)


RULES = [
    {"expand_to": 16},
    {"expand_to": 16, "attends": True},
    {"expand_to": 0, "skipped": ()},
    {"expand_to": 12, "query_length": 30},  # longer queries are not cut: not as PyLate does
]


@pytest.mark.oracle
@pytest.mark.parametrize("model_type", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("rules", RULES)
def test_sentence_transformers_opens_the_folder_and_gives_the_same(tmp_path, rules, model_type):
    from sentence_transformers import MultiVectorEncoder as Theirs

    ours, folder = encoder(model_type, **rules), tmp_path / "encoder"
    ours.save(folder, card={"name": "tiny"})
    again, theirs = MultiVectorEncoder.load(folder), Theirs(str(folder), device="cpu")
    for each in (ours, again):
        vectors = each.encode_query(QUERIES) + each.encode_document(DOCUMENTS)
        for one, other in zip(
            vectors, theirs.encode_query(QUERIES) + theirs.encode_document(DOCUMENTS), strict=True
        ):
            np.testing.assert_allclose(one, other.numpy(), atol=1e-5)
        scores = theirs.similarity(theirs.encode_query(QUERIES), theirs.encode_document(DOCUMENTS))
        np.testing.assert_allclose(each.similarity(QUERIES, DOCUMENTS), scores.numpy(), atol=1e-5)
    assert json.loads((folder / "modules.json").read_text())[1]["type"].startswith(
        "pylate" if rules.get("query_length") is None else "sentence_transformers"
    )


@pytest.mark.oracle
def test_a_folder_of_sentence_transformers_is_read(tmp_path):
    from sentence_transformers import MultiVectorEncoder as Theirs
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    tiny("bert").save(tmp_path / "start")
    expansion = {"strategy": "fixed", "length": 12, "attend": False}
    transformer = Transformer(str(tmp_path / "start"), document_length=30, query_expansion=expansion)
    layers = [
        Dense(32, 24, bias=False, activation_function=nn.GELU(), module_input_name="token_embeddings"),
        Dense(24, 8, activation_function=nn.Identity(), module_input_name="token_embeddings"),
    ]
    ends = [MultiVectorMask(skiplist_words=["，", "!"]), Normalize(module_input_name="token_embeddings")]
    prompts = {"query": "问：", "document": "文："}
    theirs = Theirs(modules=[transformer, *layers, *ends], prompts=prompts, device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    ours = MultiVectorEncoder.load(tmp_path / "theirs")
    expected = theirs.encode_query(QUERIES) + theirs.encode_document(DOCUMENTS)
    for one, other in zip(
        ours.encode_query(QUERIES) + ours.encode_document(DOCUMENTS), expected, strict=True
    ):
        np.testing.assert_allclose(one, other.numpy(), atol=1e-5)


@pytest.mark.slow
def test_a_set_is_scored_by_the_first_text_as_a_query(tmp_path):
    model = encoder()
    texts = {"text_a": QUERIES, "text_b": DOCUMENTS[:3]}
    rows = Examples.from_texts(
        "rows", "test", kind=Kind.SCORED_PAIR, texts=texts, targets=np.array([0.0, 0.5, 1.0])
    )
    anchored = {"anchor": QUERIES, "positive": DOCUMENTS[:3], "negative": DOCUMENTS[1:]}
    triplets = Examples.from_texts("triplets", "test", kind=Kind.TRIPLET, texts=anchored)
    found = evaluate(model, [rows, triplets, "demo_retrieval"])
    expected = model.similarity(QUERIES, DOCUMENTS)
    np.testing.assert_allclose(found.per_row["test/rows"], np.diag(expected), atol=1e-6)
    np.testing.assert_allclose(found.per_row["test/triplets"][:, 0], np.diag(expected), atol=1e-6)
    np.testing.assert_allclose(found.per_row["test/triplets"][:, 1], np.diag(expected, 1), atol=1e-6)
    assert 0 <= found.scores["test/demo_retrieval/ndcg_at_10"].value <= 1
    np.testing.assert_allclose(model.score(QUERIES, DOCUMENTS[:3]), np.diag(expected), atol=1e-6)
    hits = model.search(QUERIES[0], DOCUMENTS, 2)
    assert [hit.corpus_id for hit in hits] == np.argsort(-expected[0])[:2].tolist()
    folder = family_of(model).save(model, tmp_path / "encoder", card={})
    assert find_family(folder) is FAMILIES["multi_vector"]
    again = PairScorer(folder)(QUERIES, DOCUMENTS[:3], batch_tokens=64, show_progress=False)
    np.testing.assert_allclose(again, np.diag(expected), atol=1e-6)


def test_info_nce_of_token_vectors_is_that_of_their_maxsim():
    model = encoder()
    queries = model.reading(Side.QUERY)
    anchors = queries(queries.collate(queries.tokenize(QUERIES[:2])))
    documents = model(model.collate(model.tokenize(DOCUMENTS)))
    loss = InfoNCE(temperature=0.1)(anchors, documents[:2], documents[2:, None])
    scores = torch.from_numpy(model.similarity(QUERIES[:2], DOCUMENTS)) / 0.1
    expected = nn.functional.cross_entropy(scores, torch.arange(2))
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.projections.parameters())


def test_a_prompt_that_joins_the_next_word_is_not_saved_as_a_marker(tmp_path):
    inner = SentenceEncoder.load("builtin/mini_zh")
    inner.prompts = {"query": "问", "document": "文"}
    assert {"问", "文"} < {*inner.tokenizer.get_vocab()}
    encoder = MultiVectorEncoder.around(inner, dim=8, reading=MultiVectorSettings()).eval()
    again = MultiVectorEncoder.load(encoder.save(tmp_path / "saved"))
    for name in ("encode_query", "encode_document"):
        before, after = (getattr(each, name)(["怎么退货", "题"]) for each in (encoder, again))
        assert [vectors.tolist() for vectors in before] == [vectors.tolist() for vectors in after]
