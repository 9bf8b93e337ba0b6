"""Options and names of sentence-transformers: taken where they mean the same, else answered with ours."""

import inspect

import numpy as np
import pytest
import torch

from juzhen import CrossEncoder, MultiVectorEncoder, SentenceEncoder, SparseEncoder, fit
from juzhen.encoders.peer_options import HARMLESS, NAMES, RENAMED, WAYS_OUT
from juzhen.families.late.folder import MultiVectorSettings

TEXTS = ["今天天气很好", "天气不错"]
ROWS = [("怎么退货", "东西想退掉", 1), ("怎么退货", "何时发货", 0)]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh", trust_remote_code=False)


@pytest.mark.slow
def test_options_that_mean_the_same_give_the_same(encoder):
    theirs = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_numpy": True}
    theirs |= {"output_value": "sentence_embedding", "precision": "float32", "device": "cpu"}
    expected = encoder.encode(TEXTS, normalize=True)
    np.testing.assert_array_equal(encoder.encode(sentences=TEXTS, **theirs), expected)
    np.testing.assert_array_equal(encoder.encode_query(sentences=TEXTS, **theirs), expected)
    np.testing.assert_array_equal(encoder.encode_document(TEXTS, **theirs), expected)
    plain = encoder.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS, normalize_embeddings=False), plain)
    tensor = encoder.encode(TEXTS, convert_to_tensor=True, convert_to_numpy=False)
    assert torch.equal(tensor, torch.from_numpy(plain))
    assert encoder.score(*TEXTS, show_progress_bar=False) == encoder.score(*TEXTS)
    for name in ("pairs", "sentences", "sentence_pairs"):
        assert encoder.score(**{name: [TEXTS]}) == encoder.score([TEXTS])
    assert encoder.score(TEXTS[:1], second=TEXTS[1:]) == encoder.score([TEXTS])
    with pytest.raises(TypeError, match="pairs is missing"):
        encoder.score(second=TEXTS)
    assert encoder.search("天气", TEXTS, k=1) == encoder.search(query="天气", documents=TEXTS, limit=1)
    trained = fit(
        model="builtin/mini_zh", train_dataset=ROWS, num_train_epochs=1, lr=1e-4, train_batch_size=1
    )
    expected = fit("builtin/mini_zh", ROWS, epochs=1, learning_rate=1e-4, batch_size=1)
    np.testing.assert_array_equal(trained.encode(TEXTS), expected.encode(TEXTS))
    assert encoder.search("天气", TEXTS, show_progress_bar=False) == encoder.search("天气", TEXTS)


@pytest.mark.slow
def test_other_families_take_them_too():
    tiny = SentenceEncoder.load("builtin/mini_zh")
    reading = MultiVectorSettings(query_length=16, document_length=40, expand_to=16)
    late = MultiVectorEncoder.around(tiny, dim=8, reading=reading).eval()
    assert len(late.encode(TEXTS, show_progress_bar=False, convert_to_numpy=True)) == 2
    assert late.similarity(TEXTS, TEXTS, show_progress_bar=False).shape == (2, 2)
    sparse = SparseEncoder.around(SentenceEncoder.load("builtin/mini_zh"), seed=1)
    weights = sparse.encode(TEXTS, show_progress_bar=False)
    tensor = torch.from_numpy(weights.toarray())
    for given in (tensor, tensor.to_sparse(), tensor.to_sparse_csr()):
        assert sparse.decode(given) == sparse.decode(weights)
    pairs = CrossEncoder(tiny, outputs=1, segments=False, symmetric=False, seed=0).eval()
    both = pairs.score([(TEXTS[0], TEXTS[1])], show_progress_bar=False, convert_to_numpy=True)
    np.testing.assert_array_equal(both, pairs.score([(TEXTS[0], TEXTS[1])]))
    assert pairs.rank("天气", TEXTS, return_documents=False) == pairs.rank("天气", TEXTS)


def test_names_are_answered_with_ours_and_are_not_there(encoder):
    for name, ours in NAMES.items():
        assert not hasattr(encoder, name)
        with pytest.raises(AttributeError, match="it is called") as told:
            getattr(encoder, name)
        assert ours in str(told.value)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        encoder.nothing_of_the_kind  # noqa: B018
    with pytest.raises(TypeError, match="no_option_of_anybody"):
        encoder.encode(TEXTS, no_option_of_anybody=1)


def test_the_table_has_an_answer_for_each_option_of_the_installed_library():
    library = pytest.importorskip("sentence_transformers")
    known = {*RENAMED, *WAYS_OUT, "self", "kwargs"}
    assert {*HARMLESS} <= {*WAYS_OUT}
    of_texts, of_pairs = library.SentenceTransformer, library.CrossEncoder
    for theirs, ours in (
        (of_texts.encode, SentenceEncoder.encode),
        (of_texts.__init__, SentenceEncoder.load),
        (of_texts.push_to_hub, SentenceEncoder.push_to_hub),
        (of_pairs.predict, CrossEncoder.score),
        (of_pairs.rank, CrossEncoder.rank),
        (of_pairs.__init__, CrossEncoder.load),
    ):
        named = {*inspect.signature(theirs).parameters}
        assert named - known - {*inspect.signature(ours).parameters} == set()


def test_names_of_transformers_are_aliases(tmp_path):
    encoder = SentenceEncoder.from_pretrained("builtin/mini_zh")
    saved = SentenceEncoder.load(encoder.save_pretrained(tmp_path / "saved"))
    np.testing.assert_array_equal(saved.encode(TEXTS), encoder.encode(TEXTS))
    reader = CrossEncoder(encoder, outputs=1, segments=False, symmetric=False, seed=0)
    np.testing.assert_array_equal(reader.predict([TEXTS], batch_tokens=64), reader.score([TEXTS]))
