"""What a stranger writes: encoders by their names from anywhere, sensible defaults, and mistakes that are told."""

import io
import os
from contextlib import redirect_stdout
from itertools import pairwise

import numpy as np
import pytest
import torch
from forks import ROOT, in_a_fork, printed
from pages import EDITIONS, blocks

from juzhen.encoders import CrossEncoder, PromptEncoder, SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.prompts import Templates

TEXTS = ["今天天气很好", "今天是个好天气", "怎么还花呗"]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh")


@pytest.fixture(scope="module")
def pair_folder(bert_folder, tmp_path_factory):
    inner = load_backbone(BackboneConfig(path=str(bert_folder), initialize="pretrained"), seed=0)
    encoder = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0)
    return save_encoder(encoder, tmp_path_factory.mktemp("run") / "encoder", card={}).parent


def run_example(name, folder):
    os.chdir(folder)
    for block, after in pairwise(blocks(name)):
        if block.language == "python":
            with redirect_stdout(io.StringIO()) as printed:
                exec(block.body, {})
            assert printed.getvalue() == after.body


@pytest.mark.parametrize("name", EDITIONS)
def test_the_example_of_the_readme_prints_in_any_folder_what_is_quoted(tmp_path, name):
    assert in_a_fork(run_example, name, tmp_path) == 0


def test_import_is_quick_and_loads_no_torch(tmp_path):
    code = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "start = time.process_time(); import juzhen; took = time.process_time() - start\n"
        "print(took < 0.3, 'juzhen.core' in sys.modules, 'torch' in sys.modules)\n"
        "print(dir(juzhen), hasattr(juzhen, 'Encoder'))"
    )
    said = printed("-c", code, cwd=tmp_path)
    names = [
        "AdapterConfig",
        "CrossEncoder",
        "GenerativeReranker",
        "MiningOptions",
        "MultiVectorEncoder",
        "PromptEncoder",
        "QueryDocumentEncoder",
        "SentenceEncoder",
        "SparseEncoder",
        "advise",
        "analyze_embeddings",
        "cluster",
        "detect_communities",
        "evaluate",
        "fit",
        "load_ranking",
        "merge",
        "mine",
        "mine_paraphrases",
        "quantize",
        "read_search",
    ]
    assert said == f"True False False\n{names} False\n"


def test_shapes_follow_what_is_given(encoder):
    vectors = encoder.encode(TEXTS)
    assert (vectors.shape, vectors.dtype, encoder.training) == ((3, encoder.dim), np.float32, False)
    # Alone or among others: on some processors products of other shapes are added up in another order.
    np.testing.assert_allclose(encoder.encode(TEXTS[0]), vectors[0], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(text for text in TEXTS), vectors)
    nothing = encoder.encode([])
    assert (nothing.shape, nothing.dtype) == ((0, encoder.dim), np.float32)
    assert encoder.similarity(TEXTS, TEXTS[:2]).shape == (3, 2)
    assert encoder.similarity(TEXTS[0], TEXTS).shape == (3,)
    assert encoder.similarity(TEXTS[0], TEXTS[1]).shape == encoder.score((TEXTS[0], TEXTS[1])).shape == ()
    assert encoder.similarity([], TEXTS).shape == (0, 3)
    assert encoder.score([]).shape == (0,)


def test_scores_are_cosines(encoder):
    unit = encoder.encode(TEXTS, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    table = encoder.similarity(TEXTS, TEXTS)
    np.testing.assert_allclose(table, unit @ unit.T, rtol=1e-5, atol=1e-6)
    scores = encoder.score([(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0])])
    np.testing.assert_allclose(scores, [table[0, 1], table[2, 0]], rtol=1e-5, atol=1e-6)


def test_a_learnt_form_is_what_scores_and_similarity_are(bert_folder):
    from juzhen.encoders.projection import BilinearScore

    encoder = SentenceEncoder.load(bert_folder)
    plain = encoder.similarity(TEXTS, TEXTS)
    encoder.score_head = BilinearScore(encoder.dim)
    torch.nn.init.normal_(encoder.score_head.form)
    table = encoder.similarity(TEXTS, TEXTS)
    assert not np.allclose(table, plain)
    np.testing.assert_allclose(encoder.score((TEXTS[2], TEXTS[1])), table[2, 1], rtol=1e-4, atol=1e-5)


def test_a_folder_says_which_encoder_it_holds(bert_folder, load, tmp_path):
    prompted = PromptEncoder.around(load(bert_folder), Templates("“[X]”，[MASK]"))
    loaded = SentenceEncoder.load(save_encoder(prompted, tmp_path / "prompted", card={}))
    assert isinstance(loaded, PromptEncoder)
    assert isinstance(loaded, SentenceEncoder)


def test_a_cross_encoder_scores_pairs(pair_folder):
    encoder = CrossEncoder.load(pair_folder)
    scores = encoder.score([(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0])])
    assert (scores.shape, scores.dtype, encoder.training) == ((2,), np.float32, False)
    assert encoder.score((TEXTS[0], TEXTS[1])) == pytest.approx(scores[0], abs=1e-5)
    assert encoder.score([]).shape == (0,)
