"""What goes wrong at a user's desk: each mistake ends in plain words with the place and the way out, exit status 2."""

import errno
import gzip
import shutil
from collections import namedtuple

import pytest
import torch
import zstandard
from forks import python
from jobs import SMALL, as_program, compose_job

import train
from callbacks import resume
from juzhen.core import machine
from juzhen.core.result import Result
from juzhen.losses.pairwise_ranking import CoSENT
from launch import run_folder
from launch.check import check_command_line
from launch.job import register_resolvers
from launch.run_folder import RunFolder

GOOD = "sentence1\tsentence2\tlabel\n今天天气好\t天气不错\t4.0\n我想退货\t怎么改密码\t1.0\n他在跑步\t他正在跑\t5.0\n"
OWN = ("dataset.demo_sts.source=local", "dataset.demo_sts.rows={train:null,dev:null,test:null}")


class Desk:
    """A place to make mistakes at: an output folder, a data folder, the program."""

    def __init__(self, root, backbone, capsys):
        self.root, self.backbone, self.capsys = root, backbone, capsys
        self.data_dir = root / "data"
        for split in ("train", "dev"):
            self.write(f"{split}.tsv", GOOD.encode())

    def write(self, name, content):
        path = self.data_dir / "demo_sts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def words(self, *given):
        """The command line: what is given goes before what makes the job small."""
        keys = {word.partition("=")[0].lstrip("+~") for word in given}
        places = (
            f"output_dir={self.root / 'runs'}",
            f"backbone.path={self.backbone}",
            f"data_dir={self.data_dir}",
            "training.duration=2 steps",
        )
        unread = ("backbone",) * ("init_from" in keys) + ("training", "optimizer") * ("dataset=[]" in given)
        small = [word for word in (*SMALL, *places) if not word.startswith(unread or ("-",))]
        return [word for word in small if word.partition("=")[0] not in keys] + list(given)

    def run(self, *given):
        """The job as `python train.py …` runs it; the last run folder."""
        words = self.words(*given)

        def main():
            register_resolvers()
            check_command_line(words, conf_dir=train.CONFIGURATION)
            config = compose_job(*words)
            train.run_job(config)
            return config.run_dir

        return as_program(main)

    def refuses(self, *given):
        """What is said on stderr when the job is refused."""
        with pytest.raises(SystemExit) as ended:
            self.run(*given)
        told = self.capsys.readouterr().err
        assert ended.value.code == 2
        assert told.startswith("error: ")
        assert "Traceback" not in told
        assert told.count("\n") == 1, told
        return told


@pytest.fixture
def desk(tmp_path, tiny_backbone, capsys):
    return Desk(tmp_path, tiny_backbone, capsys)


def says(told, *parts):
    for part in parts:
        assert part in told, f"{part!r} is not in: {told}"


def test_the_desk_is_in_order(desk):
    assert Result.read(desk.run(*OWN)).data["train/demo_sts"]["rows"] == 3


BROKEN_FILES = {
    "missing column": (
        GOOD.replace("sentence2", "sentence_2"),
        ["no column sentence2", "Did you mean sentence_2?", "dataset.demo_sts.layout"],
    ),
    "unknown score": (GOOD.replace("1.0", "viel"), [".tsv:3:", "'viel', not a number", "on_bad_row=drop"]),
    "score nan": (GOOD.replace("1.0", "nan"), [".tsv:3:", "nan", "[0, 5]"]),
    "score too high": (GOOD.replace("5.0", "5.5"), [".tsv:4:", "5.5", "[0, 5]"]),
    "no score": (GOOD.replace("1.0", ""), [".tsv:3:", "score is missing"]),
    "empty text": (GOOD.replace("怎么改密码", " "), [".tsv:3:", "text_b is empty", "on_bad_row=drop"]),
    "too few fields": (GOOD.replace("\t1.0", ""), [".tsv:3:", "2 fields, expected 3"]),
    "too many fields": (GOOD.replace("1.0", "1.0\t"), [".tsv:3:", "4 fields, expected 3"]),
    "two faults": (GOOD.replace("1.0", "x").replace("5.0", "y"), [".tsv:3:", "1 more row is faulty"]),
    "empty file": ("", ["train.tsv", "the file is empty"]),
    "only a header": (GOOD.splitlines(keepends=True)[0], ["train.tsv", "no rows"]),
    "another case": (GOOD.replace("sentence1", "Sentence1"), [".tsv: ", "Did you mean Sentence1?"]),
    "commas": (GOOD.replace("\t", ","), [".tsv: ", "divided by ','"]),
    "semicolons": (GOOD.replace("\t", ";"), [".tsv: ", "divided by ';'"]),
    "quoted": (GOOD.replace("sentence1", '"sentence1"'), [".tsv: ", "quoted: true"]),
}


@pytest.mark.parametrize("name", BROKEN_FILES)
@pytest.mark.sampled(4)
def test_a_broken_file(desk, name):
    content, parts = BROKEN_FILES[name]
    path = desk.write("train.tsv", content if isinstance(content, bytes) else content.encode())
    says(desk.refuses(*OWN), str(path), *parts)


def test_a_dev_file_is_looked_at_before_training(desk):
    desk.write("dev.tsv", GOOD.replace("1.0", "x").encode())
    says(desk.refuses(*OWN), "dev.tsv:3:", "'x', not a number")


def test_bad_rows_may_be_dropped_and_are_counted(desk):
    desk.write("train.tsv", GOOD.replace("1.0", "x").encode())
    read = Result.read(desk.run(*OWN, "on_bad_row=drop")).data["train/demo_sts"]
    assert (read["rows"], read["dropped"]) == (2, 1)


def test_not_utf8(desk):
    desk.write("train.tsv", GOOD.encode("gb18030"))
    says(desk.refuses(*OWN), "train.tsv:2:", "not UTF-8", "iconv -f gb18030")


@pytest.mark.slow
def test_a_rate_that_no_precision_can_hold(desk):
    words = ("optimizer.lr=1e30", "optimizer.weight_decay=0")
    says(desk.refuses(*words), "not finite", "Lower optimizer.lr")
    told = desk.refuses(*words, "callbacks.space_health=null", "seed=7")
    says(told, "dev/demo_sts: the scores are not finite", "Lower the learning rate")


def test_unbalanced_quotes(desk):
    desk.write("train.csv", 'sentence1,sentence2,label\n"好,好的,4\n不,行,1\n'.encode())
    layout = "dataset.demo_sts.layouts.tsv"
    told = desk.refuses(*OWN, f"{layout}.files.train=demo_sts/train.csv", f"{layout}.quoted=true")
    says(told, "train.csv:2:", "unbalanced", "quoted: false")


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".zst", lambda raw: zstandard.compress(raw)), (".gz", lambda raw: gzip.compress(raw))],
)
def test_a_compressed_file_cut_short(desk, suffix, pack):
    (desk.data_dir / "demo_sts" / "train.tsv").unlink()
    desk.write(f"train.tsv{suffix}", pack(GOOD.encode())[:-9])
    says(desk.refuses(*OWN), f"train.tsv{suffix}", "cut short", "Fetch the file again")


def test_another_number_of_rows_than_promised(desk):
    told = desk.refuses(OWN[0], "dataset.demo_sts.rows={train:3,dev:5,test:null}")
    says(told, "dev.tsv", "3 rows", "rows.dev promises 5", "dataset.demo_sts.rows.dev=null")


def test_an_unknown_label(desk):
    rows = "sentence1\tsentence2\tlabel\n今天\t明天\tentailment\n昨天\t前天\tentailmnt\n"
    (desk.data_dir / "demo_nli").mkdir()
    (desk.data_dir / "demo_nli" / "train.tsv").write_text(rows, encoding="utf-8")
    told = desk.refuses(
        "dataset=[demo_nli]", "dataset.demo_nli.source=local", "dataset.demo_nli.rows.train=null"
    )
    says(told, "demo_nli/train.tsv:3:", "'entailmnt'", "Did you mean entailment?")


def test_no_file(desk):
    (desk.data_dir / "demo_sts" / "train.tsv").unlink()
    says(
        desk.refuses(*OWN),
        "demo_sts/train",
        "not found",
        "data_dir=<folder that holds demo_sts/train.tsv>",
    )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["loss=cosnet"], ["loss=cosnet", "cosent"]),
        (["bakcbone=random_small"], ["backbone"]),
        (["training.batchsize=4"], ["training.batchsize", "batch_size"]),
        (["training.batch_size=viele"], ["training.batch_size", "a valid integer"]),
        (["training.duration=3 epoch5"], ["training.duration", "epochs"]),
        (["loss.temprature=1"], ["loss.temprature", "temperature"]),
        (["loss.temperature=0"], ["temperature", "0"]),
        (["dataset=[demo_sts,demo_sts]"], ["demo_sts is repeated"]),
        (["dataset=[demo_stsb]"], ["demo_stsb", "demo_sts"]),
        (["loss=softmax"], ["loss=softmax needs", "demo_sts has scored pairs", "angle, bce"]),
        (["hardware.precision=8-bit"], ["hardware.precision", "32-true"]),
    ],
    ids=lambda value: value[0].partition("=")[0] + "…" if "=" in value[0] else "",
)
@pytest.mark.sampled(3)
def test_a_slip_on_the_command_line(desk, words, parts):
    says(desk.refuses(*words), *parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([*OWN, "data_dir=ROOT/nowhere"], ["nowhere: no such folder", "data_dir=<folder"]),
        (["dataset=[]", "benchmark=none"], ["nothing to evaluate", "demo_sts"]),
        (["schedule.store=ROOT/file"], ["ROOT/file", "Expected a folder, not a file"]),
        (["backbone.initialize=pretrained"], ["BACKBONE", "weights", "initialize=random"]),
        (["backbone.path=ROOT/empty"], ["config.json is missing"]),
        (["init_from=nonsense/of/mine"], ["nonsense/of/mine", "no such folder"]),
        (["init_from=ROOT/empty"], ["ROOT/empty", "neither a run nor an encoder"]),
    ],
    ids=lambda value: value[-1] if "=" in value[-1] else "",
)
@pytest.mark.sampled(2)
def test_a_place_where_there_is_nothing(desk, words, parts):
    (desk.root / "empty").mkdir()
    (desk.root / "file").touch()

    def here(some):
        return [one.replace("ROOT", str(desk.root)).replace("BACKBONE", str(desk.backbone)) for one in some]

    says(desk.refuses(*here(words)), *here(parts))


@pytest.mark.slow
def test_a_loss_that_is_no_number(desk, monkeypatch):
    with_logs = CoSENT.with_logs
    steps = iter(range(9))

    def spoilt(self, scores, targets):
        loss, logs = with_logs(self, scores, targets)
        return (loss * float("nan") if next(steps) == 4 else loss), logs

    words = ("training.duration=8 steps", "training.checkpoint_every=1 steps")
    with monkeypatch.context() as patch:
        patch.setattr(CoSENT, "with_logs", spoilt)
        told = desk.refuses(*words)
    says(
        told,
        "loss is nan at step 4 on demo_sts",
        "of its training file",
        "checkpoint is intact",
        "optimizer.lr",
    )
    (folder,) = (desk.root / "runs").iterdir()
    kept = torch.load(folder / "checkpoints" / "resume.ckpt", weights_only=True)
    assert kept["global_step"] == 4
    assert all(torch.isfinite(one).all() for one in kept["state_dict"].values())
    assert not (folder / "result.json").exists()
    assert Result.read(desk.run(*words, "resume=auto")).training["steps"] == 8


def test_a_disk_with_too_little_room(desk, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda path: usage(100, 99, 1))
    says(desk.refuses(), "0 MiB free", "need about", "output_dir=")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("PytorchStreamWriter failed writing file"),
    ],
    ids=["OSError", "RuntimeError"],
)
@pytest.mark.sampled(2)
def test_a_disk_that_fills_up_while_training(desk, monkeypatch, error):
    # One validation, at the end: the first saves are then all resume points, none a best checkpoint.
    words = (
        "training.duration=6 steps",
        "training.checkpoint_every=1 steps",
        "training.validate_every=6 steps",
    )
    saved = []

    def full(checkpoint, file, save=torch.save):
        saved.append(checkpoint["global_step"])
        if len(saved) == 4:
            file.write(b"half")
            raise error
        save(checkpoint, file)

    with monkeypatch.context() as patch:
        patch.setattr(resume.torch, "save", full)
        told = desk.refuses(*words)
    says(told, "resume.ckpt", str(error), "before it is untouched", "resume=auto")
    (folder,) = (desk.root / "runs").iterdir()
    assert [path.name for path in (folder / "checkpoints").glob("*resume*")] == ["resume.ckpt"]
    kept = torch.load(folder / "checkpoints" / "resume.ckpt", weights_only=True)
    assert kept["global_step"] == saved[-2] < saved[-1]
    assert Result.read(desk.run(*words, "resume=auto")).training["steps"] == 6


def test_an_output_folder_that_cannot_be_written(desk):
    (desk.root / "runs").write_text("a file where a folder should be")
    says(desk.refuses(), "runs", "Expected a folder, not a file")


@pytest.mark.slow
def test_a_run_that_is_under_way(desk):
    config = compose_job(*desk.words())
    with RunFolder(config.run_dir, resume="never"):
        says(desk.refuses(), config.run_dir, "another process", "seed=")
    assert Result.read(desk.run()).name


def test_online_without_a_key(desk, monkeypatch, tmp_path):
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setattr(machine, "answers", lambda url, **more: pytest.fail("asked without a key"))
    says(desk.refuses("logger.wandb=online"), "logger.wandb=online", "WANDB_API_KEY", "logger.wandb=offline")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["loss=cosnet"], "cosnet"),
        (["training.batch_size=[1"], "training.batch_size"),
        (["source=cloud"], "cloud"),
        (OWN, "train.tsv:3: "),
    ],
)
@pytest.mark.slow
def test_the_program_refuses_at_once(desk, project_root, words, part):
    desk.write("train.tsv", GOOD.replace("1.0", "x").encode())
    told = python(project_root / "train.py", *desk.words(*words), cwd=desk.root, timeout=120)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    (line,) = (line for line in told.stderr.splitlines() if line.startswith("error: "))
    assert part in line
    if words is not OWN:  # whose rows are read after torch has been loaded, with a line about it
        assert told.stdout == ""
        assert told.stderr.startswith("error: ")
        assert len(told.stderr.splitlines()) <= 2


@pytest.mark.slow
def test_a_result_that_is_damaged(desk):
    folder = desk.run()
    path = f"{folder}/result.json"
    with open(path, "r+") as file:
        file.truncate(200)
    says(desk.refuses("resume=auto"), path, "not a result")


@pytest.mark.slow
def test_an_encoder_that_lost_its_weights(desk):
    folder = desk.run()
    shutil.rmtree(f"{folder}/encoder")
    says(desk.refuses(f"init_from={folder}"), folder, "encoder")
