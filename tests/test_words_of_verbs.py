"""Messages of a verb name verbs and options, those of the library its own arguments."""

import re

import pytest
from test_library_words import messages

from juzhen.cli.main import flags, in_flags, main


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


@pytest.mark.parametrize(
    ("verb", "message", "start"),
    [
        (
            "evaluate",
            "dataset=x: unknown set. Type dataset=y",
            "--dataset x: unknown set. Type --dataset y",
        ),
        ("mine", "calibrate_on=x: of another kind", "--calibrate-on x: "),
        ("space", "maps=umap: unknown", "--maps umap: "),
        ("encode", "ranges: expected two rows", "--ranges: "),
        ("index", "per_document: idx holds no passages", "--per-document: "),
        ("merge", "density: not read by method=linear", "--density: not read by --method linear"),
        ("merge", "weights=inf: expected a number", "--weights inf: "),
        ("shrink", "layers=9: expected a number from 1 to 4", "--layers 9: "),
        ("index", "chunk_tokens=200: expected a whole number", "--chunk-tokens 200: "),
        ("encode", "prompt=<text>", "--prompt <text>"),
        (
            "memory",
            "hardware=gpu: unknown option. Type hardware=cuda",
            "hardware=gpu: unknown option. Type hardware=cuda",
        ),
        ("calibrate", "set=nope: no dev split", "--sets nope: "),
        ("export", "format=onnx: none. Type format=static", "--format onnx: none. Type --format static"),
        ("export", "x: no. Set allow_difference", "x: no. Set --allow-difference"),
        ("leaks", "train=nope: unknown set", "--train nope: "),
        ("leaks", "text='退货': the encoder gives NaN", "text='退货': the encoder gives NaN"),
        ("index", "text='退货': the encoder gives NaN", "text='退货': the encoder gives NaN"),
        (
            "index",
            "mode=bm25 reads no prompt. Use mode=dense",
            "--mode bm25 reads no prompt. Use --mode dense",
        ),
        ("push", "revision=main: x is a folder", "--revision main: "),
        ("score", "sheet=练: a.xlsx has no such sheet", "--sheet 练: "),
        ("score", "columns=a: expected field → column", "--columns a: "),
        ("leaks", "text=demo: pairs. Type train=demo", "--text demo: pairs. Type --train demo"),
        ("mine", "exclude_from=nope: unknown set", "--exclude-from nope: "),
        ("distill", "grade=logit: of pairs", "--grade logit: "),
        ("report", "split=dev: none", "--split dev: "),
        ("score", "scaling=platt: not fitted", "--scaling platt: "),
        ("index", "ids: this index has none", "--id: "),
        ("mine", "x: no. Ask for a larger range_max", "x: no. Ask for a larger --range-max"),
        ("mine", "the column range_max_2 of range_max.tsv", "the column range_max_2 of range_max.tsv"),
    ],
)
def test_a_parameter_becomes_the_option_of_the_verb(verb, message, start):
    assert in_flags(message, flags(verb)).startswith(start)


def test_a_message_about_the_value_of_an_option_names_the_option(tmp_path, capsys):
    (tmp_path / "keys").write_text("short\n", encoding="utf-8")
    for option, value in (("--api-keys", f"{tmp_path}/keys"), ("--rerank", f"{tmp_path}/none")):
        for words in ([option, value], [f"{option}={value}"]):
            assert main(["serve", "builtin/mini_zh", *words]) == 2
            assert f"error: {option} {value}: " in capsys.readouterr().err
    assert main(["score", f"{tmp_path}/none", "今天", "明天"]) == 2
    assert f"error: {tmp_path}/none: " in capsys.readouterr().err


def test_the_library_names_its_classes(project_root):
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


OF_THE_LIBRARY = (
    "advice/target.py",
    "calibration/run_scores.py",
    "core/calibration_files.py",
    "data/rows.py",
    "data/search_tables.py",
    "distillation/graded_sets.py",
    "evaluation/run.py",
    "evaluation/saved_run.py",
    "evaluation/space.py",
    "export/folder.py",
    "export/formats.py",
    "index/index.py",
    "index/writing.py",
    "mining/negatives.py",
    "mining/sets.py",
    "report/build.py",
    "report/compare.py",
    "report/matrix.py",
    "report/picture.py",
    "report/training.py",
)
"""Files whose mistakes both a function and a verb report."""


def test_functions_name_no_options(project_root):
    for name in OF_THE_LIBRARY:
        texts = [text for _, text in messages((project_root / "juzhen" / name).read_text("utf-8"))]
        texts = [re.sub(r"juzhen \w+( \w+)? --[a-z-]+", "", text) for text in texts]  # whole commands
        assert [text for text in texts if re.search(" --[a-z]", f" {text}") and " " in text] == []
