"""A file of a data set says whose keys it holds; sets are called what tables and folders can bear; labels are texts."""

import pytest
from jobs import typed_job
from omegaconf import OmegaConf

from juzhen.core.errors import UserError
from juzhen.core.schema import validated
from juzhen.data.spec import DatasetConfig, read_description
from launch.check import check_command_line, check_set_files

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


def composed(**sets):
    return OmegaConf.create({"dataset": sets})


def test_files_with_headers_of_their_own_are_right(tree):
    folder, add = tree
    add("mine", "# Questions of our customers.\n# @package dataset.mine\n")
    check_set_files(composed(mine={"name": "mine"}, inline={"name": "inline"}), [folder])


def test_a_file_without_a_header_is_named(tree):
    folder, add = tree
    add("mine", "# Questions of our customers.\n")
    with pytest.raises(UserError, match=r"dataset/mine.yaml: .* must be '# @package dataset.mine'"):
        check_set_files(composed(name="mine", kind="labelled_pair", labels={"0": 0}), [folder])


def test_two_files_with_one_key_are_not_merged(tree):
    folder, add = tree
    add("copy", "# @package dataset.other\n")
    with pytest.raises(
        UserError, match=r"copy.yaml and .*other.yaml both have .*Write .*dataset.copy.* into .*copy.yaml"
    ):
        check_set_files(composed(other={"name": "other"}), [folder])
    check_set_files(composed(third={"name": "third"}), [folder])  # a job that has nothing to do with them


def test_two_trees_are_looked_at(tree, tmp_path_factory):
    folder, _ = tree
    more = tmp_path_factory.mktemp("more")
    (more / "dataset").mkdir()
    (more / "dataset" / "again.yaml").write_text("# @package dataset.other\n", encoding="utf-8")
    with pytest.raises(UserError, match="would be merged"):
        check_set_files(composed(other={}), [folder, more])
    (more / "dataset" / "again.yaml").rename(more / "dataset" / "other.yaml")
    check_set_files(composed(other={}), [more, folder])  # the first one stands in the other's place


def described(**changes):
    plain = {"name": "x", "kind": "labelled_pair", "language": "zh", "layout": "a"}
    layouts = {"a": {"files": {"train": "y"}, "columns": {"text_a": 0}}}
    return validated(DatasetConfig, plain | {"layouts": layouts} | changes, "dataset.x")


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
