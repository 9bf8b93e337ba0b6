"""Programs of users of sentence-transformers give here what they give there, and the page shows them."""

from typing import Any

import numpy as np
import pytest
from neighbour_programs import OURS, PROGRAMS, TEXTS, THEIRS, table
from pages import page

from juzhen.encoders import CrossEncoder, load_backbone
from juzhen.encoders.backbone_config import BackboneConfig

MARKS = "<!-- programs -->\n", "\n<!-- /programs -->"


@pytest.fixture(scope="module")
def paths(tmp_path_factory, tiny_backbone, bert_folder):
    from jobs import tiny_encoder

    folder = tmp_path_factory.mktemp("encoders")
    inner = load_backbone(BackboneConfig(path=str(bert_folder), initialize="pretrained"), seed=0)
    reader = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0)
    return {
        "path": str(tiny_encoder(tiny_backbone).save(folder / "texts")),
        "pair_path": str(reader.eval().save(folder / "pairs")),
    }


def value_of(program: str, head: str, names: dict[str, Any]) -> Any:
    """What the last line is worth."""
    known = dict(names)
    exec(TEXTS + head, known)
    *statements, last = program.split("\n")
    exec("\n".join(statements), known)
    return eval(last, known)


def plain(value: Any) -> Any:
    """Numbers in arrays and lists, whoever made them; a hit is its document and its score."""
    if isinstance(value, dict):
        value = [value["corpus_id"], value["score"]]
    if type(value).__name__ == "Paraphrase":
        value = [value.score, value.first, value.second]
    if hasattr(value, "detach"):
        return value.detach().float().numpy()
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def assert_alike(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, atol=2e-5)


each_program = pytest.mark.parametrize(
    "program",
    [
        pytest.param(one, id=one.ours.split("\n")[-1], marks=[pytest.mark.slow] * one.is_slow)
        for one in PROGRAMS
    ],
)


@each_program
@pytest.mark.sampled(3)
def test_a_program_runs_here(program, paths, tmp_path):
    assert value_of(program.ours, OURS, paths | {"folder": str(tmp_path / "ours")}) is not None


@pytest.mark.oracle
@each_program
def test_sentence_transformers_says_the_same(program, paths, tmp_path):
    pytest.importorskip("sentence_transformers")
    found = plain(value_of(program.ours, OURS, paths | {"folder": str(tmp_path / "ours")}))
    assert_alike(found, plain(value_of(program.theirs, THEIRS, paths | {"folder": str(tmp_path / "theirs")})))


@pytest.mark.parametrize("edition", ["md", "zh.md"])
def test_the_page_shows_the_programs(edition):
    text = page(f"docs/from/sentence_transformers.{edition}")
    shown = text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])]
    assert shown.split("\n", 2)[2] == table()
