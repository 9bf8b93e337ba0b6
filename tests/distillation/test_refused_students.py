"""What cannot be graded, cut down or grown is refused in one line, and nothing is written."""

import numpy as np
import pytest
from refusals import rows
from test_graded_sets import examples
from test_student import TEXTS, unigram

from juzhen import SentenceEncoder
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.paths import BUILTIN
from juzhen.distillation.graded_sets import Triplets, graded, pairs_to_grade
from juzhen.distillation.student import complete_tokenizer, student_of
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig


@pytest.fixture(scope="module")
def teacher():
    """Six random layers of 256 on the built-in tokenizer."""
    config = BackboneConfig(path=str(BUILTIN / "encoder"), initialize="random", layers=6, max_length=64)
    return load_backbone(config, seed=1)


@pytest.fixture(scope="module")
def tokenizer():
    return SentenceEncoder.load("builtin/mini_zh").tokenizer


PAIRS = {"anchor": ["a"], "positive": ["c"]}
REFUSED = {
    "a student": [
        (lambda f, asked=asked: student_of(f.teacher, seed=0, **asked), words)
        for asked, words in (
            ({"layers": 7}, "layers=7: .*1 to 6"),
            ({"layers": 2, "dim": 512}, "dim=512: .*1 to 256"),
            ({"layers": 2, "dim": 65}, "dim=65: .*multiple of 64"),
            ({"layers": 2, "vocabulary": 40}, "needs texts"),
            ({"layers": 2, "vocabulary": 5, "texts": TEXTS}, "special tokens alone"),
            ({"layers": 2, "tokenizer": unigram()}, "another tokenizer: .* leave the tokenizer out"),
        )
    ],
    "a vocabulary": [
        (lambda f: complete_tokenizer(f.tokenizer, ["怎么退货"], 5_000), "vocabulary=5,000.*at least")
    ],
    "scores": [
        (lambda f: graded(np.array([30.0, 40.0, 50.0]), "probability"), "all 3 .* 1.000000.*grade=logit"),
        (
            lambda f: pairs_to_grade(examples(Kind.SENTENCE, {"text": ["a"]}), limit=None, seed=0),
            "some holds sentences, .*scores pairs",
        ),
        (
            lambda f: Triplets.of(examples(Kind.POSITIVE_PAIR, PAIRS), limit=None, seed=0),
            "some holds positive pairs, .*triplets",
        ),
    ],
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_what_cannot_be_taught_is_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("shrink builtin/mini_zh out --grow builtin/mini_zh --layers 2", "--layers"),
        ("shrink builtin/mini_zh out --grow builtin/mini_zh", "--vocabulary"),
        ("shrink builtin/mini_zh out", "--layers"),
        ("shrink builtin/mini_zh out --layers 1 --prompt 问：", "--dim below 256, or leave --prompt out"),
        ("shrink builtin/mini_zh out --layers 1 on_bad_row=drop", "Type --on-bad-row drop"),
        ("distill nothing lcqm --out of_tests_x.tsv", "lcqm: unknown set. Did you mean lcqmc"),
        (
            "distill nothing lcqmc --out of_tests_x.tsv",
            "lcqmc/train: no file of it below nowhere. Type --data-dir",
        ),
        ("distill nothing demo_qmc --out x.csv", "--out x.csv: expected a .tsv"),
        ("distill nothing demo_qmc --out lcqmc.tsv", "lcqmc already. Choose lcqmc_graded.tsv"),
        ("distill nothing demo_qmc --out of_tests_x.tsv --limit 1", "'--limit'"),
        ("distill nothing demo_qmc --out of_tests_x.tsv", "nothing: no such folder"),
        (
            "distill builtin/mini_zh demo_nli --triplets --limit 20 --out of_tests_x.tsv --grade probability",
            "Leave it out, or take a cross-encoder",
        ),
    ],
)
def test_a_verb_refuses_and_writes_nothing(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUZHEN_DATA", "nowhere")
    assert main(words.split()) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
