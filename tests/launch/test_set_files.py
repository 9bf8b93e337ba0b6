"""A file of a data set says whose keys it holds; sets are called what tables and folders can bear; labels are texts."""

import math
from dataclasses import replace

import pytest
from forks import ROOT

from juzhen.core.schema import ConfigError, validated
from juzhen.data.spec import DatasetConfig, read_description
from launch.check import check_command_line

HEADER, NAME = "# @package dataset.mine\n", "name: mine\n"
FILES = {
    "no header": ("mine.yaml", f"# Questions of our customers.\n{NAME}", "first line must be"),
    "a comment before it": ("mine.yaml", f"# Questions.\n{HEADER}{NAME}", "first line must be"),
    "a mark before it": ("mine.yaml", f"\ufeff{HEADER}{NAME}", "byte order mark"),
    "a document before it": ("mine.yaml", f"---\n{HEADER}{NAME}", "first line must be"),
    "a header of another set": ("mine.yaml", f"# @package dataset.other\n{NAME}", "first line must be"),
    "a tab": ("mine.yaml", f"{HEADER}layouts:\n\tcsv: 1\n", "line 3"),
    "a key twice": ("mine.yaml", f"{HEADER}name: a\nname: b\n", "name is there twice"),
    "a list": ("mine.yaml", f"{HEADER}- 1\n", "describes no data set"),
    "a key that is no text": ("mine.yaml", f"{HEADER}null: 3\n", "describes no data set"),
    "brackets": ("mine.yaml", f"{HEADER}about: {'[' * 900}{']' * 900}\n", "not valid YAML"),
    "another ending": ("mine.yml", HEADER, "Move it to"),
    "another folder": ("../mine.yaml", HEADER, "Move it to"),
    "nothing else": ("mine.yaml", f"{HEADER}kind: labelled_pair\n", r"name is not set"),
}


def described(**changes):
    plain = {"name": "x", "kind": "labelled_pair", "language": "zh", "layout": "a"}
    layouts = {"a": {"files": {"train": "y"}, "columns": {"text_a": 0}}}
    return validated(DatasetConfig, plain | {"layouts": layouts} | changes, "dataset.x")


def laid(**changes):
    return {"layouts": {"a": {"files": {"train": "y"}, "columns": {"text_a": 0}} | changes}}


@pytest.mark.parametrize("name", ["lcqmc", "my-set_2", "问答"])
def test_a_name_that_they_can_bear(name):
    assert described(name=name).name == name


@pytest.mark.parametrize("labels", [{0: 0, 1: 1}, {"0": 0, 1: 1}, {0.5: 0, "b": 1}])
def test_labels_need_no_quotes(labels):
    assert described(labels=labels).labels == {str(label): number for label, number in labels.items()}
    assert described(ignore_labels=[-1, "-"]).ignore_labels == ["-1", "-"]


def test_judgements_that_are_pairs_have_labels():
    pairs = laid(columns={"text_a": 0, "text_b": 1, "label": 2})
    labels = {"kind": "retrieval", "labels": {"a": 0, "b": 1}, "ignore_labels": ["-"]}
    assert described(**labels, **pairs).ignore_labels == ["-"]


def test_a_description_from_python_names_the_key():
    with pytest.raises(ConfigError, match=r"^labels: not read for a triplet"):
        replace(described(labels={"a": 0, "b": 1}), kind="triplet")


def test_a_set_of_ones_own_need_say_no_more_than_what_its_rows_are(tmp_path, project_root):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.yaml").write_text(
        "# @package dataset.mine\nname: mine\nkind: labelled_pair\nlanguage: zh\nlayout: csv\n"
        "layouts: {csv: {files: {train: mine.csv}, columns: {text_a: a, text_b: b, label: y}}}\n"
        'labels: {"0": 0, "1": 1}\n',
        encoding="utf-8",
    )
    (tmp_path / "mine.csv").write_text("a,b,y\n甲,乙,1\n甲,丙,0\n", encoding="utf-8")
    words = ("--config-dir", str(tmp_path), "dataset=mine", f"data_dir={tmp_path}", "benchmark=none")
    check_command_line(words, conf_dir=project_root / "conf")


def chosen(folder, name, content, word="dataset=mine"):
    """Chooses a set by a command line whose folder of configuration has this file."""
    path = folder / "dataset" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    check_command_line(("--config-dir", str(folder), word), conf_dir=ROOT / "conf")


def read(folder, content):
    (folder / "x.yaml").write_text(content, encoding="utf-8")
    read_description(folder / "x.yaml")


CHANGES = [
    *(
        ({"name": name}, "letters, digits, _ and -")
        for name in ("a/b", "a b", "a+b", "a>b", "<script>", "a|b")
    ),
    *(({"name": name}, "letters, digits, _ and -") for name in ("", "a,b", "a\nb")),
    ({"labels": {"0": 0, 0: 1}}, "key is there twice, as a number and as a text"),
    ({"labels": {True: 1, False: 0}}, "in quotes: YAML reads yes, no"),
    ({"labels": {None: 0}}, "dataset.x.labels"),
    ({"labels": {"a": 0, "b": 0}}, "dataset.x.labels: all labels are one class"),
    ({"kind": "triplet", "labels": {"a": 0, "b": 1}}, "dataset.x.labels: not read for a triplet"),
    *(
        ({"kind": kind, "ignore_labels": ["a"]}, f"dataset.x.ignore_labels: not read for a {kind}")
        for kind in ("triplet", "positive_pair", "sentence", "retrieval", "reranking")
    ),
    *(
        ({"kind": kind, "labels": {"a": 0, "b": 1}}, f"dataset.x.labels: not read for a {kind}")
        for kind in ("retrieval", "reranking")
    ),
    ({"ignore_labels": [False]}, r"dataset.x.ignore_labels\[0\]=false: .*string. In a file"),
    ({"columns": {}}, "dataset.x.columns: unknown key"),
    ({"rows": {None: 2}}, "dataset.x.rows"),
    ({"rows": {"validation": 5}}, "dataset.x.rows.validation: unknown split"),
    ({"kind": "scored_pair", "score_range": [5, 0]}, r"dataset.x.score_range=\[5.0, 0.0\]: .*the lowest"),
    (
        {"kind": "scored_pair", "score_range": [0, math.inf]},
        r"dataset.x.score_range=\[0.0, inf\]: .*the lowest",
    ),
    ({"layout": "aa"}, "layout=aa: .*Did you mean a"),
    (laid(files={"validation": "y"}), "dataset.x.layouts.a.files.validation: unknown split"),
    *(
        (laid(files={"train": path}), "dataset.x.layouts.a.files.train")
        for path in ("", 5, [], ["y", 5], {"a": "y"}, "/")
    ),
    *((laid(columns={"text_a": one}), "dataset.x.layouts.a.columns.text_a") for one in (1.5, ["a"], True)),
    (laid(held_out_percent=3.0), "held_out_percent, held_out_rows: .*Add `window`"),
    (laid(held_out_rows=3), "held_out_percent, held_out_rows: .*Add `window`"),
    (laid(columns={"text_a": "a", "text_b": "a"}), "text_b=a: text_a is read from the same column"),
]
REFUSED = {
    **{
        case: (
            lambda folder, name=name, content=content: chosen(folder, name, content),
            f"(?=.*{name.removeprefix('../')}).*{message}",
        )
        for case, (name, content, message) in FILES.items()
    },
    "one of ours": (
        lambda folder: chosen(folder, "demo_qmc.yaml", "# @package dataset.demo_qmc\n", "dataset=demo_qmc"),
        "two data sets with one name",
    ),
    "no folder": (
        lambda folder: check_command_line(
            ("--config-dir", str(folder / "no"), "dataset=demo_qmc"), conf_dir=ROOT / "conf"
        ),
        "--config-dir=.*no such folder",
    ),
    **{
        str(changes): (lambda folder, changes=changes: described(**changes), message)
        for changes, message in CHANGES
    },
    **{
        f"content {content!r}": (lambda folder, content=content: read(folder, content), r"/x\.yaml")
        for content in ("", "[]", "7", "a: [", "\x00", "name: {a: b}", "labels: {yes: 1}", "x: 1", "- 1")
    },
}
"""What describes no set → how it is read; what is named."""
