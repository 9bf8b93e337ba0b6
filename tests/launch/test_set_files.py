"""A file of a data set says whose keys it holds; sets are called what tables and folders can bear; labels are texts."""

import math

import pytest
from jobs import typed_job

from juzhen.core.errors import UserError
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig, read_description
from launch.check import check_command_line

PLAIN = "name: {name}\nkind: labelled_pair\nlabels: {{0: 0, 1: 1}}\n"


@pytest.fixture
def tree(tmp_path):
    """A folder of configuration, and a function that adds a file of a data set to it."""

    def add(stem, header):
        path = tmp_path / "dataset" / f"{stem}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(header + PLAIN.format(name=stem), encoding="utf-8")

    add("other", "# @package dataset.other\n")
    return tmp_path, add


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


@pytest.mark.parametrize(("name", "content", "message"), FILES.values(), ids=FILES)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tree, project_root, name, content, message):
    folder, _ = tree
    (folder / "dataset" / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{message}") as caught:
        check_command_line(("--config-dir", str(folder), "dataset=mine"), conf_dir=project_root / "conf")
    assert name.removeprefix("../") in str(caught.value)


def test_a_set_of_ones_own_does_not_hide_behind_one_of_ours(tree, project_root):
    folder, add = tree
    add("demo_qmc", "# @package dataset.demo_qmc\n")
    with pytest.raises(UserError, match="two data sets with one name"):
        check_command_line(("--config-dir", str(folder), "dataset=demo_qmc"), conf_dir=project_root / "conf")
    with pytest.raises(UserError, match=r"--config-dir=.*no such folder"):
        check_command_line(
            ("--config-dir", str(folder / "no"), "dataset=demo_qmc"), conf_dir=project_root / "conf"
        )


def described(**changes):
    plain = {"name": "x", "kind": "labelled_pair", "language": "zh", "layout": "a"}
    layouts = {"a": {"files": {"train": "y"}, "columns": {"text_a": 0}}}
    return validated(DatasetConfig, plain | {"layouts": layouts} | changes, "dataset.x")


def laid(**changes):
    return {"layouts": {"a": {"files": {"train": "y"}, "columns": {"text_a": 0}} | changes}}


@pytest.mark.parametrize("name", ["a/b", "a b", "a+b", "a>b", "<script>", "a|b", "", "a,b", "a\nb"])
def test_a_name_that_tables_and_folders_cannot_bear(name):
    with pytest.raises(UserError, match="letters, digits, _ and -"):
        described(name=name)


@pytest.mark.parametrize("name", ["lcqmc", "my-set_2", "问答"])
def test_a_name_that_they_can_bear(name):
    assert described(name=name).name == name


def test_a_set_goes_by_the_name_of_its_key():
    with pytest.raises(UserError, match=r"dataset\.demo_sts\.name=lcqmc: expected demo_sts"):
        typed_job("benchmark=none", "dataset.demo_sts.name=lcqmc")


def test_a_label_there_twice_is_refused():
    with pytest.raises(UserError, match="a key is there twice, as a number and as a text"):
        described(labels={"0": 0, 0: 1})


@pytest.mark.parametrize("labels", [{0: 0, 1: 1}, {"0": 0, 1: 1}, {0.5: 0, "b": 1}])
def test_labels_need_no_quotes(labels):
    assert described(labels=labels).labels == {str(label): number for label, number in labels.items()}
    assert described(ignore_labels=[-1, "-"]).ignore_labels == ["-1", "-"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": {True: 1, False: 0}}, "in quotes: YAML reads yes, no"),
        ({"labels": {None: 0}}, "dataset.x.labels"),
        ({"ignore_labels": [False]}, "dataset.x.ignore_labels[0]=false: expected a valid string. In a file"),
        ({"columns": {}}, "dataset.x.columns: unknown key"),
        ({"rows": {None: 2}}, "dataset.x.rows"),
        ({"score_range": [5, 0]}, "dataset.x.score_range=[5.0, 0.0]: expected the lowest"),
        ({"score_range": [0, math.inf]}, "dataset.x.score_range=[0.0, inf]: expected the lowest"),
        ({"labels": {"a": 0, "b": 0}}, "dataset.x.labels: all labels are one class"),
        ({"kind": "triplet", "labels": {"a": 0, "b": 1}}, "dataset.x.labels: a triplet has none"),
        ({"rows": {"validation": 5}}, "dataset.x.rows.validation: unknown split"),
        (laid(files={"validation": "y"}), "dataset.x.layouts.a.files.validation: unknown split"),
        *(
            (laid(files={"train": path}), "dataset.x.layouts.a.files.train")
            for path in ("", 5, [], ["y", 5], {"a": "y"}, "/")
        ),
        *(
            (laid(columns={"text_a": column}), "dataset.x.layouts.a.columns.text_a")
            for column in (1.5, ["a"], True)
        ),
        (laid(columns={"text_a": "a", "text_b": "a"}), "text_b=a: text_a is read from the same column"),
    ],
)
def test_keys_that_do_not_fit_end_in_a_line(changes, message):
    with pytest.raises(UserError) as caught:
        described(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "[]", "7", "a: [", "\x00", "name: {a: b}", "labels: {yes: 1}", "x: 1", "- 1"]
)
def test_a_file_that_describes_no_set_ends_in_a_line(tmp_path, content):
    path = tmp_path / "x.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_description(path)
    assert str(path) in str(caught.value)


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
