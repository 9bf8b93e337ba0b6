"""Messages of a verb name verbs and options, those of the library its own arguments."""

import pytest
from test_library_words import messages

from juzhen import SparseEncoder
from juzhen.cli.main import flags, in_flags, main
from juzhen.core.errors import UserError
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.families.registry import FAMILIES

GRAPH = type(FAMILIES["bi_encoder"]).export


def test_a_class_of_python_becomes_an_option_or_a_verb():
    message = "x: holds a cross-encoder. Load it with CrossEncoder.load(…)"
    for verb, part, words in (
        ("mine", "", "--cross-encoder"),
        ("index", "index search", "--rerank"),
        ("serve", "", "--rerank"),
        ("index", "index build", "juzhen score"),
        ("mteb", "", "juzhen score"),
    ):
        said = in_flags(message, flags(verb, part))
        assert words in said
        assert ".load" not in said
    assert (
        in_flags("x: none. Name a run, or load it with SentenceEncoder.load(…)", []) == "x: none. Name a run"
    )


def test_the_library_names_its_classes(project_root):
    with pytest.raises(UserError, match=r"SentenceEncoder\.load"):
        CrossEncoder.load("builtin/mini_zh")
    with pytest.raises(UserError, match=r"SentenceEncoder\.load"):
        SparseEncoder.load("builtin/mini_zh")
    odd = {
        (path.name, text)
        for path in (project_root / "juzhen").rglob("*.py")
        for _, text in messages(path.read_text("utf-8"))
        if ".load(…)" in text and "oad it with" not in text and "\n" not in text
    }
    assert {name for name, _ in odd} <= {
        "components.py",
        "peer_options.py",
    }  # pieces, and options of encode()


OF_THE_LIBRARY = ("advice/target.py", "evaluation/run.py", "data/search_tables.py", "mining/negatives.py")
"""Files whose mistakes both a function and a verb report."""


def test_functions_name_no_options(project_root):
    for name in OF_THE_LIBRARY:
        texts = [text for _, text in messages((project_root / "juzhen" / name).read_text("utf-8"))]
        assert [text for text in texts if " --" in f" {text}" and " " in text] == []


def test_a_verb_names_its_option(tmp_path, capsys):
    assert main(["advise", "demo_sts", "--sources", "nosuchset", "--out", str(tmp_path / "a")]) == 2
    assert "--sources nosuchset" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in FAMILIES if type(FAMILIES[name]).export is not GRAPH])
def test_a_family_without_a_graph_has_a_way_out(name, tmp_path):
    with pytest.raises(UserError, match=r"\. (Copy|Export|Use) "):
        FAMILIES[name].export(None, tmp_path, quantised=False)


@pytest.mark.parametrize("words", [["score", "bm25", "a", "b"], ["characters", "bm25"], ["verify", "bm25"]])
def test_a_baseline_without_weights_is_no_encoder(words, capsys):
    assert main(words) == 2
    assert "juzhen evaluate" in capsys.readouterr().err
