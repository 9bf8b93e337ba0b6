"""`juzhen models`: its table says what conf/backbone says, and a recommendation follows from the table."""

import json

import pytest
from omegaconf import OmegaConf

from juzhen.cli.models import models as run
from juzhen.core.errors import UserError
from juzhen.core.places import BUILTIN
from juzhen.report.encoders import OURS, SOURCES, TABLE, Need, load_models, recommendation


def test_the_table_has_every_backbone_as_its_file_says(project_root):
    files = {path.stem: path for path in (project_root / "conf" / "backbone").glob("*.yaml")}
    files.pop("local")
    models = {one.name: one for one in load_models()}
    assert set(models) == set(files)
    for name, model in models.items():
        told = OmegaConf.load(files[name])
        assert (model.path, bool(model.source)) == (told.path, bool(model.scores)), name
        assert model.tokens >= (told.max_length or 0), name
        default = told.default_prompt_name
        marked = [prompt + "*" * (prompt == default) for prompt in told.prompts or ()]
        assert model.prompts.split() == marked, name
        assert not model.source or model.source in SOURCES
        if told.path.startswith("builtin/"):
            config = json.loads((BUILTIN.parent / told.path / "config.json").read_text(encoding="utf-8"))
            layers = config["num_hidden_layers"] if told.layers is None else told.layers
            assert (model.dim, model.layers) == (config["hidden_size"], layers), name


@pytest.fixture
def models(tmp_path):
    """The encoders on file, as if MiniLM alone had been measured, at 400 sentences per second."""
    bench = tmp_path / "encoding.json"
    row = {"model": "MiniLM", "side": OURS, "sentences_per_second": 400.0}
    bench.write_text(json.dumps({"rows": [row, row | {"side": "theirs", "sentences_per_second": 1}]}))
    return load_models(TABLE, bench)


@pytest.mark.parametrize(
    ("need", "chosen", "says"),
    [
        (Need("retrieval", "zh"), "gte_small_zh", "m3e_base: for research only"),
        (
            Need("sts", "zh", latency_ms=4),
            "bge_small_zh",
            "gte_small_zh: 4.4 ms a sentence in batches, estimated",
        ),
        (Need("retrieval", "en"), "minilm_en", "2.5 ms a sentence in batches on"),
        (Need("rerank", "zh"), "gte_small_zh", "a cross-encoder reads both texts at once"),
        (Need("classification", "zh"), "e5_small", "linear classifier over embeddings"),
        (Need("clustering", "zh"), "gte_small_zh", "published clustering 48.95"),
        (Need("clustering", "en"), "none of these", "nomic_embed_v1_5: no published figure"),
        (Need("sts", "en-zh"), "e5_small", "prompts query, passage; before every sentence stands query"),
        (Need("sts", "zh", documents=100_000), "gte_small_zh", "an index of 205 MB"),
        (Need("sts", "zh", documents=2_000_000), "gte_small_zh", "use an approximate index"),
        (Need("rerank", "en"), "none of these", "bert_en, minilm_en, qwen3_embedding_0_6b"),
    ],
)
def test_a_recommendation_gives_its_reasons(models, need, chosen, says):
    lines = list(recommendation(need, models))
    assert lines[0].startswith(chosen)
    assert any(says in line for line in lines), lines


@pytest.mark.parametrize("options", [{}, {"language": "en"}, {"use": "retrieval", "documents": 100_000}])
def test_what_is_printed_fits_a_terminal(capsys, monkeypatch, options):
    monkeypatch.setenv("COLUMNS", "80")
    run(**options)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert ("bge_small_zh" in printed) is (options != {"language": "en"})


def test_in_a_pipe_the_table_is_markdown(capsys):
    run()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == len(load_models()) + 2
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": 5}, "--use sts, retrieval, rerank, classification, clustering"),
        ({"use": "sts", "latency_ms": 0.0}, "more than 0 milliseconds"),
    ],
)
def test_limits_without_a_meaning_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        run(**options)
