"""Learning curves: what is read from the tables of a run, what is drawn, and what is refused."""

import csv
import json
import re
from pathlib import Path

import pytest

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.report.curves import choose_quantities, distinct_labels, read_curves

COLUMNS = ["dev/csts/spearman", "dev/selection/spearman", "epoch", "step", "train/loss"]


def write(folder: Path, rows: list[list[object]], attempt: str = "0", columns: list[str] = COLUMNS) -> Path:
    path = folder / "metrics" / attempt / "metrics.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return folder


@pytest.fixture
def run(tmp_path):
    rows = [
        ["", "", 0, 9, 2.5],
        [0.5, 0.5, 0, 19, ""],
        ["", "", 0, 19, 2.0],
        [0.6, 0.6, 0, 39, ""],
        [0.9, "", "", 40, ""],
    ]
    folder = write(tmp_path / "runs" / "one", rows)
    (folder / "result.json").write_text(json.dumps({"name": "csts", "seed": 3}))
    return folder


def test_curves_are_what_was_logged_while_training(run):
    curves = read_curves(run)
    assert curves.name == "csts, seed 3"
    # 0.9 is of the best weights, at the end.
    assert curves.values["dev/csts/spearman"] == [(20, 0.5), (40, 0.6)]
    assert curves.values["train/loss"] == [(10, 2.5), (20, 2.0)]


def test_of_a_step_that_was_done_again_the_later_attempt_counts(run):
    write(run, [[0.7, 0.7, 0, 39, ""], [0.8, 0.8, 0, 59, ""]], attempt="10")
    write(run, [[0.1, 0.1, 0, 39, ""]], attempt="2")
    assert read_curves(run).values["dev/csts/spearman"] == [(20, 0.5), (40, 0.7), (60, 0.8)]


def test_a_run_that_has_not_finished_is_called_by_its_folder(run):
    (run / "result.json").unlink()
    assert read_curves(run).name == "one"


def test_a_table_alone_will_do(run, tmp_path):
    (run / "metrics" / "0" / "metrics.csv").rename(tmp_path / "metrics.csv")
    assert read_curves(tmp_path).values["train/loss"] == [(10, 2.5), (20, 2.0)]


def test_scores_and_loss_are_drawn_unless_others_are_asked_for(run):
    curves = [read_curves(run)]
    assert choose_quantities(curves, None) == ["dev/csts/spearman", "train/loss"]
    assert choose_quantities(curves, ["train/loss"]) == ["train/loss"]
    with pytest.raises(UserError, match="did you mean dev/csts/spearman"):
        choose_quantities(curves, ["dev/cst/spearman"])


def test_two_runs_of_one_name_are_told_apart_by_their_folders(run, tmp_path):
    other = write(tmp_path / "runs" / "two", [["", "", 0, 9, 1.5]])
    (other / "result.json").write_text(json.dumps({"name": "csts", "seed": 3}))
    curves = distinct_labels([read_curves(run), read_curves(other)], [run, other])
    assert [one.name for one in curves] == ["one", "two"]


def test_the_command_writes_a_picture_and_a_table(run, tmp_path):
    other = write(tmp_path / "runs" / "two", [["", "", 0, 9, 1.5]])
    out = tmp_path / "out"
    assert main(["curves", str(run), str(other), "--output", str(out), "--line", "TF-IDF=0.731"]) == 0
    with (out / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert rows[0] == {"run": "csts, seed 3", "quantity": "dev/csts/spearman", "step": "20", "value": "0.5"}
    picture = (out / "curves.svg").read_text()
    assert all(f"<!-- {word} -->" in picture for word in ("dev/csts/spearman", "train/loss", "TF-IDF", "two"))


def test_a_mixture_is_drawn_set_by_set(tmp_path):
    columns = ["epoch", "step", "train/a/loss", "train/b/loss", "train/loss"]
    mixed = write(tmp_path / "mixed", [[0, 9, 2.5, "", 2.5], [0, 19, "", 0.5, 0.5]], columns=columns)
    sets = {"a": {"batches": 15, "rows": 120}, "b": {"batches": 5, "rows": 40}}
    told = {"name": "a+b", "seed": 1, "training": {"sets": sets}}
    (mixed / "result.json").write_text(json.dumps(told))
    alone = write(tmp_path / "alone", [[0, 9, 2.0, "", 2.0]], columns=columns)
    assert read_curves(mixed).batches == {"a": 15, "b": 5}
    weighed = write(
        tmp_path / "weighed", [[0, 9, 1.5, 2.0]], columns=["epoch", "step", "train/a/weight", "train/loss"]
    )
    assert choose_quantities([read_curves(weighed)], None) == ["train/loss", "train/a/weight"]
    assert choose_quantities([read_curves(alone)], None) == ["train/loss"]
    assert main(["curves", str(mixed), str(alone), "--output", str(tmp_path)]) == 0
    with (tmp_path / "curves.csv").open() as file:
        rows = [tuple(row) for row in csv.reader(file)]
    assert ("a+b, seed 1", "train/b/loss", "20", "0.5") in rows
    assert ("a+b, seed 1", "train/a/batches", "", "15") in rows
    picture = (tmp_path / "curves.svg").read_text()
    assert all(
        f"<!-- {word} -->" in picture for word in ("train/a/loss", "batches of each set", "75 %", "25 %")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: no metrics/*/metrics.csv; expected the folder of a run that has trained"),
        (["RUN", "--line", "0,7"], "expected a name and a number"),
        (["RUN", "--names", "a", "b"], "2 names for 1 runs"),
        (["RUN", "--output", "RUN/result.json"], "File exists"),
    ],
)
def test_mistakes_are_named(run, capsys, words, said):
    assert main(["curves", *(word.replace("RUN", str(run)) for word in words)]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_has_just_begun_has_nothing_to_show(tmp_path, capsys):
    assert main(["curves", str(write(tmp_path / "new", [])), "--output", str(tmp_path)]) == 2
    assert "new: nothing was logged while training yet" in capsys.readouterr().err


def test_a_broken_table_is_named_with_its_line(run):
    write(run, [[0.5, 0.5, 0, 19, ""], ["much", 0.5, 0, 39, ""]])
    with pytest.raises(UserError, match=re.escape("metrics.csv, line 3: expected numbers")):
        read_curves(run)
