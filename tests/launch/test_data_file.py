"""`juzhen dataset` and `train.py data=FILE`: from a table to the words of a job, and to a result."""

import ast
import os
import shlex
import sys
from pathlib import Path

import pytest
from forks import in_a_fork
from hydra.types import RunMode
from jobs import SMALL, as_program

import train
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN, ROOT
from juzhen.core.result import Result
from juzhen.data.rows import as_examples, set_name
from launch.check import check_command_line
from launch.data_file import with_data_set
from launch.hydra_internals import opened
from launch.job import read_job

LINES = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:201]
PAIRS = [line.split("\t") for line in LINES]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder with two tables, where commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JUZHEN_DATA", raising=False)
    labelled = "\n".join(
        ["问题,相似问,是否相同", *(",".join(pair) for pair in PAIRS if "," not in "".join(pair))]
    )
    (tmp_path / "desk_faq.csv").write_bytes(labelled.encode("gbk"))
    positives = [f"{a}\t{b}" for a, b, label in PAIRS if label == "1"]
    (tmp_path / "桌上问答 v2.txt").write_text("\n".join(positives), encoding="utf-8")
    return tmp_path


def words(*typed):
    return with_data_set(typed, config_dir="conf")


def test_the_words_that_a_file_stands_for(desk):
    assert words("seed=1") == ["seed=1"]
    assert words("seed=1", "data=desk_faq.csv", "lr=2") == [
        "seed=1", "dataset=desk_faq", "benchmark=none", "evaluation.untrained=true", "lr=2",
    ]  # fmt: skip
    assert words("data=desk_faq.csv", "loss=cosine", "benchmark=zh_nli", "evaluation.untrained=false") == [
        "dataset=desk_faq", "loss=cosine", "benchmark=zh_nli", "evaluation.untrained=false",
    ]  # fmt: skip
    assert words("data=desk_faq.csv", "model=crossencoder")[:3] == [
        "dataset=desk_faq",
        "benchmark=none",
        "loss=bce",
    ]
    assert words("data=desk_faq.csv", "model=lexical")[:2] == [
        "dataset=[]",
        "+dataset@evaluate.desk_faq=desk_faq",
    ]
    assert words("data=桌上问答 v2.txt")[:3] == ['dataset="桌上问答_v2"', "benchmark=none", "loss=info_nce"]
    assert "loss=info_nce" not in words("data='桌上问答 v2.txt'", "experiment=x")
    assert sorted(path.name for path in desk.glob("conf/dataset/*.yaml")) == [
        "desk_faq.yaml",
        "桌上问答_v2.yaml",
    ]


NEW = ("--columns", "anchor=2,positive=1", "--dev", "0.2")


@pytest.mark.parametrize(
    ("made", "typed", "message"),
    [
        (None, ["data=desk_faq"], "expected a file. .*dataset=desk_faq"),
        (None, ["data=desk_faq.csv", "data=b/desk_faq.csv"], "one file for a job"),
        (None, ["data=desk_faq.csv", "dataset=csts"], r"type dataset=\[desk_faq,…\]"),
        (None, ["data=lcqmc.csv"], "of this name.*juzhen dataset lcqmc.csv --name my_lcqmc"),
        ((), ["data=b/desk_faq.csv"], r"juzhen dataset \S+/desk_faq.csv, .* --name desk_faq_2"),
        (
            NEW,
            ["data=desk_faq.csv"],
            rf"\S+ {' '.join(NEW)}, .* juzhen dataset desk_faq\.csv --name desk_faq_2",
        ),
    ],
)
def test_what_a_file_cannot_stand_for(desk, made, typed, message):
    (desk / "b").mkdir()
    for name in ("lcqmc.csv", "b/desk_faq.csv"):
        (desk / name).write_bytes((desk / "desk_faq.csv").read_bytes() + b"\nwhere,what,1")
    if made is not None:  # choices of a person are not undone
        assert main(["dataset", "desk_faq.csv", "--config-dir", "conf", *made]) == 0
        assert ("loss=info_nce" in words("data=desk_faq.csv")) == bool(made)
        with (desk / "desk_faq.csv").open("ab") as file:
            file.write(b"\nhow,what,1")
    before = {path: path.is_file() and path.read_bytes() for path in desk.rglob("*")}
    with pytest.raises(UserError, match=message):
        words(*typed)
    assert {path: path.is_file() and path.read_bytes() for path in desk.rglob("*")} == before


def test_a_set_is_made_once_and_again_when_its_file_has_changed(desk):
    words("data=desk_faq.csv")
    described, table = desk / "conf" / "dataset" / "desk_faq.yaml", desk / "data" / "desk_faq" / "train.csv"
    first, then = described.read_bytes(), table.stat().st_mtime_ns
    words("data=desk_faq.csv")
    assert (described.read_bytes(), table.stat().st_mtime_ns) == (first, then)
    table.unlink()
    words("data=desk_faq.csv")
    assert table.is_file()
    with (desk / "desk_faq.csv").open("ab") as file:
        file.write(b"\nhow,what,1")
    words("data=desk_faq.csv")
    assert "how" in "".join(path.read_text(encoding="utf-8") for path in table.parent.glob("*.csv"))


def test_the_verb_says_what_it_takes_a_file_for_and_what_comes_next(desk, capsys):
    with (desk / "desk_faq.csv").open("ab") as file:
        file.write("\n怎么退,怎么退,0\n,空的,1\n多,一,格,1".encode("gbk"))
    assert main(["dataset", "desk_faq.csv", "--config-dir", "conf"]) == 0
    text = capsys.readouterr().out
    assert "GBK, comma between columns, first line names the columns" in text
    assert "each row is a labelled_pair" in text
    assert "label      = 是否相同: 0 · 1" in text
    assert "left out, 4 cells, expected 3: 1 row (line " in text
    *_, following = text.splitlines()
    program, script, *arguments = shlex.split(following.removeprefix("next: "))
    assert (program, script) == ("python", str(train.CONFIGURATION.parent / "train.py"))
    assert arguments == [
        "--config-dir", "conf", "dataset=desk_faq", "benchmark=none", "evaluation.untrained=true",
        "run_dir=runs/desk_faq",
    ]  # fmt: skip
    assert main(["dataset", "桌上问答 v2.txt", "--config-dir", "conf"]) == 0
    assert """'dataset="桌上问答_v2"' benchmark=none loss=info_nce""" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["desk_faq.csv", "--name", "lcqmc"], "lcqmc: there is a data set of this name"),
        (["desk_faq.csv", "--dev", "0.6", "--test", "0.5"], "--dev + --test=1.1: expected a number from 0"),
        (["desk_faq.csv", "--columns", "text_a"], "--columns text_a: expected FIELD=COLUMN"),
        (["desk_faq.csv", "--kind", "pair"], "'pair' is not one of"),
        (["b/desk_faq.csv", "--config-dir", "other"], "holds the rows of another set"),
    ],
)
def test_mistakes_are_answered_and_nothing_is_written(desk, capsys, typed, message):
    if "other" in typed:
        assert main(["dataset", "desk_faq.csv", "--config-dir", "conf"]) == 0
        (desk / "b").mkdir()
        pairs = "\n".join(",".join(pair[:2]) for pair in PAIRS)
        (desk / "b" / "desk_faq.csv").write_text(pairs, encoding="utf-8")
    before = {path: path.is_file() and path.read_bytes() for path in desk.rglob("*")}
    place = [] if "--config-dir" in typed else ["--config-dir", "conf"]
    assert main(["dataset", *place, *typed]) == 2
    assert message in capsys.readouterr().err
    assert {path: path.is_file() and path.read_bytes() for path in desk.rglob("*")} == before


def test_in_a_terminal_the_guess_is_asked_about(desk, capsys, monkeypatch):
    answers, questions = [False, True], []
    monkeypatch.setattr("typer.confirm", lambda text, **_: questions.append(text) or answers.pop(0))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    typed = ["dataset", "desk_faq.csv", "--config-dir", "conf"]
    assert main(typed) == 2
    assert "--kind" in capsys.readouterr().err
    assert not (desk / "conf").exists()
    assert main(typed) == 0
    assert questions == ["Is this right?"] * 2
    assert main([*typed, "-y"]) == 0
    assert not answers


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "xlsx", "jsonl"])
def test_names_of_sets(suffix):
    names = {"我的 faq.v2": "我的_faq_v2", "2024": "set_2024", "faq.final": "faq_final", "…": "pairs"}
    assert {stem: set_name(Path(f"{stem}.{suffix}")) for stem in names} == names


def test_without_a_clone_the_next_step_is_python(desk, capsys, monkeypatch):
    monkeypatch.setattr("juzhen.cli.dataset.IS_CLONE", False)
    assert main(["dataset", "desk_faq.csv"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    call = ast.parse(line.strip()).body[0].value
    assert [ast.literal_eval(word) for word in call.args] == ["builtin/mini_zh", "data/desk_faq/train.csv"]
    values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    assert values == {"dev": "data/desk_faq/dev.csv", "loss": "cosent"}
    assert as_examples(desk / "data" / "desk_faq" / "train.csv").kind == "labelled_pair"
    assert (desk / "conf" / "dataset" / "desk_faq.yaml").is_file()


def test_a_table_is_learnt_from_and_scored_in_one_go_and_found_again(desk, tiny_backbone, capfd):
    typed = [
        *(word for word in SMALL if not word.startswith(("dataset", "benchmark", "training.duration"))),
        f"backbone.path={tiny_backbone}",
        "training.duration=2 steps",
        "data=desk_faq.csv",
        "resume=auto",
    ]

    def job():
        sys.argv = ["train.py", "--config-dir", "conf", *typed]
        os.chdir(desk)
        train.main()

    assert in_a_fork(job) == 0, capfd.readouterr().err
    (folder,) = (desk / "runs").iterdir()
    assert folder.name.startswith("desk_faq-biencoder-cosent-s42-")
    assert {"dev/desk_faq/spearman", "test/desk_faq/spearman"} <= Result.read(folder).scores.keys()
    capfd.readouterr()
    assert in_a_fork(job) == 0
    assert "already finished" in capfd.readouterr().out
    assert len(list((desk / "runs").iterdir())) == 1


@pytest.mark.parametrize(
    "flags", [["--help"], ["--info", "all"], ["--hydra-help"], ["--cfg", "job"], ["--shell-completion"]]
)
def test_who_asks_what_there_is_makes_no_set(desk, flags):
    before = sorted(desk.rglob("*"))
    check_command_line([*flags, "data=desk_faq.csv"], conf_dir=ROOT / "conf")
    assert sorted(desk.rglob("*")) == before


def test_a_set_is_shown_as_it_will_be_written(desk):
    def dataset(*flags):
        typed = ["data=desk_faq.csv", "--config-dir", "conf", *flags]
        command = check_command_line(typed, conf_dir=ROOT / "conf")
        if not flags:
            return command.job.dataset
        with opened(ROOT / "conf", "conf") as hydra:
            return read_job(hydra.compose_config("train", list(command.words), RunMode.RUN)).dataset

    (desk / "conf").mkdir()
    shown = dataset("--cfg", "job")
    assert not any(desk.glob("conf/**/*.yaml"))
    assert shown == dataset()
    with (desk / "desk_faq.csv").open("ab") as file:
        file.write(("\nhow,what,0.5" * 200).encode())
    written = (desk / "conf" / "dataset" / "desk_faq.yaml").read_bytes()
    assert dataset("--cfg", "job")["desk_faq"].kind == "scored_pair"
    assert (desk / "conf" / "dataset" / "desk_faq.yaml").read_bytes() == written


@pytest.mark.parametrize(
    "typed",
    [
        ["experiment=four_tasks"],
        ["dataset.nope.kind=x"],
        ["-m", "loss=cosent,nope"],
        ["training.duration=soon"],
        ["model=crossencoder", "loss=triplet"],
        ["backbone.path=empty"],
        ["init_from=empty"],
    ],
)
def test_a_refused_job_makes_no_set(desk, monkeypatch, typed):
    for folder in ("conf", "empty"):
        (desk / folder).mkdir()
    before = sorted(desk.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["train.py", "--config-dir", "conf", "data=desk_faq.csv", *typed])
    with pytest.raises(UserError):
        train.main()
    assert sorted(desk.rglob("*")) == before


@pytest.mark.parametrize("place", ["runs/new/once", "mine"])
def test_a_job_that_its_rows_refuse_leaves_the_folder_as_it_was(desk, tiny_backbone, capfd, place):
    once = [f"第{number}个问题怎么办,第{number}个答案,{number % 2}" for number in range(60)]
    (desk / "once.csv").write_text("\n".join(["text_a,text_b,label", *once]), encoding="utf-8")
    for folder in ("mine", "conf/dataset"):
        (desk / folder).mkdir(parents=True)
    before = sorted(desk.rglob("*"))

    def job():
        typed = [word for word in SMALL if not word.startswith(("dataset", "benchmark"))]
        words = ["data=once.csv", "loss=triplet", f"run_dir={place}", f"backbone.path={tiny_backbone}"]
        sys.argv = ["train.py", "--config-dir", "conf", *typed, *words]
        os.chdir(desk)
        as_program(train.main)

    assert in_a_fork(job) == 2
    assert "cannot be read as a triplet" in capfd.readouterr().err
    assert sorted(desk.rglob("*")) == before


def test_a_job_of_a_table_reads_it_once(desk, monkeypatch, capsys):
    (desk / "conf").mkdir()
    monkeypatch.setattr(sys, "argv", ["train.py", "--config-dir", "conf", "data=desk_faq.csv"])
    monkeypatch.setattr(
        "launch.check.Command.run", lambda command, task: print(command.unwritten, *command.words)
    )
    train.main()
    printed = capsys.readouterr()
    assert printed.out.startswith("[] dataset=desk_faq benchmark=none")
    assert printed.err.count("first line names the columns") == 1
    assert (desk / "conf" / "dataset" / "desk_faq.yaml").is_file()
