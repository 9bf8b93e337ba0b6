"""Jobs that learn embeddings at several sizes: columns of results, the saved folder, tables, and what is refused."""

import json

import numpy as np
import pytest
from jobs import run_job

from juzhen import SentenceEncoder
from juzhen.cli.main import main as juzhen
from juzhen.core.result import Result
from juzhen.data.loading import load_examples
from juzhen.data.spec import configured_set
from juzhen.evaluation import evaluate
from juzhen.metrics.correlation import spearman

WORDS = ("loss=matryoshka", "loss.smallest=8", "training.duration=2 steps", "dataset=[demo_sts]")


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_backbone):
    return run_job(tmp_path_factory.mktemp("runs"), tiny_backbone, *WORDS)


@pytest.fixture(scope="module")
def rows():
    options = {"source": "builtin", "data_dir": "", "on_bad_row": "error", "required": True}
    return load_examples(configured_set("demo_sts"), "dev", **options)


@pytest.mark.slow
def test_a_result_has_a_column_for_each_size(run, rows):
    result, encoder = Result.read(run), SentenceEncoder.load(run)
    assert encoder.nested_dims == (8, 16)
    columns = {f"{split}/demo_sts@{dim}" for split in ("dev", "test") for dim in (8, 16)}
    assert columns == {key.rpartition("/")[0] for key in result.scores if "@" in key}
    assert not any("@" in key for key in result.data)
    found = evaluate(run, ["demo_sts"]).scores  # of all rows, at the sizes that the folder says
    pairs = list(zip(*(rows.texts(column) for column in rows.columns), strict=True))
    for dim in (8, 16, None):
        column = "dev/demo_sts" if dim is None else f"dev/demo_sts@{dim}"
        expected = spearman(encoder.score(pairs, truncate_dim=dim), rows.targets)
        assert found[f"{column}/spearman"].value == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_an_encoder_that_gives_cut_embeddings_is_scored_by_them(run):
    whole, cut = (
        evaluate(run, ["demo_sts"]),
        evaluate(SentenceEncoder.load(run, truncate_dim=16), ["demo_sts"]),
    )
    for split in ("dev", "test"):
        assert cut.scores[f"{split}/demo_sts/spearman"] == whole.scores[f"{split}/demo_sts@16/spearman"]
    assert {key.rpartition("/")[0] for key in cut.scores if "@" in key} == {
        "dev/demo_sts@8",
        "test/demo_sts@8",
    }


@pytest.mark.slow
def test_the_folder_says_to_which_sizes_it_may_be_cut(run, tmp_path):
    encoder = SentenceEncoder.load(run, truncate_dim=8)
    assert encoder.encode("今天天气很好").shape == (8,)
    written = json.loads((run / "encoder" / "config.json").read_text())["matryoshka_dimensions"]
    assert written == [*encoder.nested_dims, encoder.dim]
    assert (
        'SentenceTransformer("<this folder>", truncate_dim=8)' in (run / "encoder" / "README.md").read_text()
    )
    encoder.nested_dims = ()
    encoder.save(tmp_path / "plain")
    assert not SentenceEncoder.load(tmp_path / "plain").nested_dims


@pytest.mark.oracle
def test_sentence_transformers_cuts_to_the_same_vectors(run):
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(run / "encoder"), truncate_dim=8, device="cpu"
    )
    texts = ["今天天气很好", "修改手机号", "a cat"]
    ours = SentenceEncoder.load(run).encode(texts, truncate_dim=8)
    np.testing.assert_allclose(theirs.encode(texts), ours, atol=1e-5)


def test_a_table_shows_sizes_beside_whole_embeddings(run, capsys):
    assert juzhen(["table", str(run.parent)]) in (0, None)
    shown = capsys.readouterr().out
    matrix, _, sizes = shown.partition("How small may embeddings be?")
    assert "@" not in matrix
    assert "| trained on | set | 8 |" in sizes
    assert " %)" in sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["loss=matryoshka_2d", "loss.depths=[0.5]"],
        ["loss=matryoshka_info_nce", "dataset=[demo_qmc]", "loss.smallest=8"],
        ["loss=matryoshka", "loss@loss.of=lambda_loss", "dataset=[demo_qmc]"],
        ["loss=matryoshka", "hardware.micro_batch_tokens=40", "loss.dims_per_step=1"],
        [
            "loss=matryoshka",
            "loss@loss.of=distill_similarity",
            "model=distill",
            "model.teacher=builtin/mini_zh@2",
        ],
        [
            "loss=matryoshka",
            "loss@loss.of=info_nce_guided",
            "model=guided",
            "model.teacher=builtin/mini_zh@2",
            "dataset=[demo_qmc]",
        ],
    ],
)
def test_other_losses_learn_at_several_sizes(words, tmp_path, tiny_backbone):
    result = Result.read(run_job(tmp_path, tiny_backbone, "training.duration=2 steps", *words))
    assert result.training["steps"] == 2
