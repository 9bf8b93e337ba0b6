"""What would write over or follow what others have made is refused by its place, and nothing changes."""

import os
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from refusals import each, rows, typed
from test_owned import run_with_a_link, some_run
from test_places import REPOSITORY, tree, write

from juzhen.cli.program import reason_of
from juzhen.core.array_cache import ArrayCache
from juzhen.core.atomic_write import atomic_write, atomic_write_dir, write_text
from juzhen.core.errors import UserError
from juzhen.core.file_guard import MARKER, claim_dir, mark_dir, require_apart
from juzhen.report.collect import export
from launch.run_folder import RunFolder, take_folder
from launch.stage_store import StageStore
from sweeps import runners
from sweeps.ledger import FOLDER, Ledger, SweepCell

OVERWRITTEN = "is read, and would be written over"
SMALL_MINE = ("bm25", "--limit", "60", "--range-max", "9", "--num-negatives", "2")


def entered(context):
    with context:
        pass


def over_others(f, place):
    """A student in the place of what others have made, or of its teacher."""
    teacher = shutil.copytree(f.encoder_folder, f.tmp_path / "run" / "encoder")
    project = write(f.tmp_path / "project", "config.json", "src/model.py", "thesis.txt")
    write(f.tmp_path, "file")
    (f.tmp_path / "link").symlink_to(project)
    out = f.encoder_folder if place == "ENCODER" else f.tmp_path / place
    words = ("shrink", teacher, out, "--layers", 1, "--tokenizer", f.encoder_folder)
    return [f.tmp_path, f.encoder_folder], lambda: typed(f, *words)


def over_itself(f):
    student = f.tmp_path / "student"
    typed(f, "shrink", f.encoder_folder, student, "--layers", 1)
    return [f.tmp_path], lambda: typed(f, "shrink", student, student, "--layers", 1)


def over_an_encoder_of_a_run(f, *words):
    run = f.tmp_path / "run"
    claim_dir(run)
    (f.tmp_path / "texts.txt").write_text("天气\n", encoding="utf-8")
    typed(f, "shrink", f.encoder_folder, f.tmp_path / "free", "--layers", 1)
    (f.tmp_path / "free").rename(run / "encoder")
    places = {"encoder": f.encoder_folder, "texts": f.tmp_path / "texts.txt", "taken": run / "encoder"}
    return [f.tmp_path], lambda: typed(f, *(word.format(**places) for word in words))


def apart(f, out):
    (f.tmp_path / "link").symlink_to(f.tmp_path / "a")
    return [f.tmp_path], lambda: require_apart(f.tmp_path / out, f.tmp_path / "a")


STUDENTS = [
    *each(
        over_others,
        [
            (place, f"FOLDER/{place}")
            for place in ("project", "file", "link", "run/encoder", "run/encoder/student", "run")
        ],
    ),
    (lambda f: over_others(f, "."), "FOLDER"),
    (lambda f: over_others(f, "ENCODER"), "ENCODER"),
    (over_itself, OVERWRITTEN),
    (
        lambda f: over_an_encoder_of_a_run(f, "shrink", "{encoder}", "{taken}", "--layers", "1"),
        "the folder of a run",
    ),
    (
        lambda f: over_an_encoder_of_a_run(
            f, "encode", "{encoder}", "{texts}", "--output", "{taken}/config.json"
        ),
        "written as a whole",
    ),
    *each(apart, [(out, OVERWRITTEN) for out in ("a", "a/b", "link", "link/b", ".")]),
]

OUTPUTS = (
    "score {encoder} --file {pairs} --output {out}.tsv",
    "score {encoder} --file {pairs}",
    "encode {encoder} {lines} --output {out}.npy",
    "encode {encoder} {lines}",
    "export {encoder} {out}.onnx",
    "space {encoder} --json {out}.json",
    "transfer {encoder} demo_topics --output {out}.json",
    "table {runs} --markdown {out}.md",
    "table {runs} --csv {out}.csv",
    "table {runs} --picture {out}.svg",
    "report {runs} --out {there}",
    "leaks --train demo_sts --evaluate demo_sts --output {there}",
    "mine demo_qmc bm25 --out {out}.tsv",
    "distill {encoder} demo_qmc --out {out}.tsv",
)
OF_OTHERS = (
    *(f"of_tests.{ending}" for ending in ("tsv", "npy", "onnx", "json", "md", "csv", "svg")),
    *("index.html", "matrix.png", "pairs.json", "pairs.md", "pairs.scored.tsv", "lines.npy"),
)


def over_a_file(f, words):
    """The output of a verb in the place of a file of the user."""
    there = write(f.tmp_path / "there", *OF_OTHERS)
    (there / "pairs.tsv").write_text("sentence1\tsentence2\n今天\t明天\n", encoding="utf-8")
    (there / "lines.txt").write_text("今天\n", encoding="utf-8")
    runs = some_run(f.tmp_path / "runs")
    facts = {"encoder": f.encoder_folder, "out": there / "of_tests", "runs": runs, "there": there}
    facts |= {"pairs": there / "pairs.tsv", "lines": there / "lines.txt"}
    return [f.tmp_path], lambda: typed(f, *(word.format(**facts) for word in words.split()))


def beside_a_table(f, place):
    write(f.tmp_path, place)
    words = ("mine", "demo_qmc", "bm25", "--out", f.tmp_path / "of_tests_hard.tsv", "--limit", 50)
    return [f.tmp_path], lambda: typed(f, *words)


def into_linked_shards(f):
    precious = write(f.tmp_path / "precious", "mining.json", "000000.parquet")
    (f.tmp_path / "of_tests_hard.shards").symlink_to(precious)
    words = ("mine", "demo_qmc", *SMALL_MINE, "--out", f.tmp_path / "of_tests_hard.tsv")
    return [precious], lambda: typed(f, *words)


def over_what_is_read(f):
    table = f.tmp_path / "of_tests_hard.tsv"
    typed(f, "mine", "demo_qmc", *SMALL_MINE, "--out", table)
    assert table.is_file()
    words = ("distill", "builtin/mini_zh", "of_tests_hard", "--config-dir", f.tmp_path / "conf", "--out")
    return [f.tmp_path], lambda: typed(f, *words, table)


def copied_over_runs(f):
    runs, others = some_run(f.tmp_path / "runs"), some_run(f.tmp_path / "others")
    write(others / "a", ".hydra/config.yaml", "train.log")
    return [others], lambda: export(runs, others, report=print)


TABLES = [
    *each(
        beside_a_table,
        [
            (place, "Nothing was changed")
            for place in (
                "of_tests_hard.parquet",
                "conf/dataset/of_tests_hard.yaml",
                "of_tests_hard.shards/mine.parquet",
                "of_tests_hard.shards/000000.parquet",
            )
        ],
    ),
    (into_linked_shards, "is a link"),
    (over_what_is_read, OVERWRITTEN),
    (copied_over_runs, "not an archive"),
]


def run_below(f, names, resume):
    folder = write(f.tmp_path / "mine", *names)
    return [f.tmp_path], lambda: entered(RunFolder(folder, resume=resume))


def a_link_where_a_run_writes(f, name):
    precious = write(f.tmp_path / "precious", "file")
    folder = write(f.tmp_path / "run", "result.json")
    (folder / MARKER).write_text("")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(precious / "file" if name != "checkpoints" else precious)
    return [f.tmp_path], lambda: entered(RunFolder(folder, resume="never"))


def a_link_in_the_run_of_a_stranger(f, place, *, fills):
    run, other = run_with_a_link(f.tmp_path, place)
    return [other], lambda: entered(RunFolder(run, resume="auto", fills=fills))


FOLDERS_OF_OTHERS = [
    REPOSITORY,
    ("thesis.txt",),
    (".hydra/config.yaml", "thesis.txt"),
    (".hydra/config.yaml", "checkpoints/epoch=3.ckpt", "thesis.txt"),
    (".hydra/config.yaml", "result.json", "thesis.txt"),
    (".hydra/config.yaml", "checkpoints/resume.ckpt"),
    ("checkpoints/resume.ckpt", "thesis.txt"),
    ("runs/a/.hydra/config.yaml", "runs/a/result.json"),
]
NEVER_LINKS = [
    *("checkpoints", "checkpoints/resume.ckpt", "stages", "stages/0-a", "stages/0-a/checkpoints"),
    *("stages/0-a/health.jsonl", "result.json", "metrics/0", ".hydra/config.yaml", ".lock"),
]
RUNS = [
    *(
        (
            lambda f, names=names, resume=resume: run_below(f, names, resume),
            r"mine: .*no run of juzhen.*run_dir=",
        )
        for names in FOLDERS_OF_OTHERS
        for resume in ("never", "auto")
    ),
    *each(
        a_link_where_a_run_writes,
        [
            (name, f"{re.escape(name)}: is a link")
            for name in (".lock", ".hydra", "train.log", "health.jsonl", "checkpoints", MARKER, "previous")
        ],
    ),
    *(
        (
            lambda f, place=place, fills=fills: a_link_in_the_run_of_a_stranger(f, place, fills=fills),
            f"{re.escape(place)}: is a link",
        )
        for fills, places in ((True, NEVER_LINKS), (False, [*NEVER_LINKS, "encoder", "stages/0-a/encoder"]))
        for place in places
    ),
]


def an_entry(f, digest, **options):
    return StageStore(f.tmp_path / "store").entry(
        digest * 64, f.tmp_path / "stage", name="a", is_helper=False
    )


def a_link_in_a_store(f, place):
    other = write(f.tmp_path / "other", "resume.ckpt", "stage.json", "found.npz", "checkpoints/resume.ckpt")
    path = f.tmp_path / "store" / ("0" * 16) / place
    path.parent.mkdir(parents=True)
    if place:
        mark_dir(f.tmp_path / "store" / ("0" * 16))
    path.symlink_to(other if "." not in place else other / "resume.ckpt")
    return [other], lambda: entered(an_entry(f, "0"))


def an_entry_of_others(f):
    other = write(f.tmp_path / "store" / ("0" * 16), "thesis.txt")
    return [other], lambda: entered(an_entry(f, "0"))


def a_link_in_a_ledger(f, place):
    other = write(f.tmp_path / "other", "events.jsonl", "a.log")
    path = f.tmp_path / "runs" / place
    path.parent.mkdir(parents=True)
    path.symlink_to(other / "events.jsonl" if path.suffix == ".jsonl" else other)
    cell = SweepCell(str(f.tmp_path / "runs" / "a"), ("seed=1",))
    return [other], lambda: Ledger(f.tmp_path / "runs").plan([cell])


def a_planted_link(f):
    precious = write(f.tmp_path, "precious") / "precious"
    (f.tmp_path / "a").symlink_to(precious)
    return [f.tmp_path], lambda: write_text(f.tmp_path / "a", "new")


def over_a_folder(f, given):
    write, path = given
    f.monkeypatch.chdir(f.tmp_path)
    (f.tmp_path / "b").mkdir()

    def begin():
        with write(path):
            pytest.fail("began")

    return [f.tmp_path], begin


def a_folder_of_jobs(f, *, linked):
    """The folder that nodes read pickles from: a link, or of another user."""
    folder = f.tmp_path / "jobs" / "a"
    runners.make_private(folder)
    if linked:
        (folder.parent / "b").symlink_to(folder)
        return [f.tmp_path], lambda: runners.make_private(folder.parent / "b")
    f.monkeypatch.setattr(runners.os, "getuid", lambda: 54321)
    return [f.tmp_path], lambda: runners.make_private(folder)


STORES = [
    *each(
        a_link_in_a_store,
        [
            (place, "is a link")
            for place in ("", "checkpoints", "checkpoints/resume.ckpt", "owner", "encoder", "mining")
        ],
    ),
    (an_entry_of_others, r"holds thesis\.txt"),
    *each(
        a_link_in_a_ledger,
        [(f"{FOLDER}{place}", "is a link") for place in ("", "/events.jsonl", "/claims", "/logs")],
    ),
    (a_planted_link, r"a: is a link"),
    *each(
        over_a_folder,
        [
            (given, r"^[.b]: is ")
            for given in ((atomic_write_dir, "."), (atomic_write, "."), (atomic_write, "b"))
        ],
    ),
    (lambda f: a_folder_of_jobs(f, linked=True), "a link"),
    (lambda f: a_folder_of_jobs(f, linked=False), "another user"),
]


def written_to_a_device(f, path):
    os.mkfifo(f.tmp_path / "pipe")
    (f.tmp_path / "link").symlink_to("/dev/null")
    return [f.tmp_path], lambda: write_text(f.tmp_path / path, "text")


def made_where_nothing_can_be(f, make, place):
    """Told is the way out, as a program tells it."""
    write(f.tmp_path, "file")

    def act():
        try:
            make(f.tmp_path / place)
        except OSError as error:
            raise OSError(f"{error} {reason_of(error)}") from error

    return [f.tmp_path], act


OF_THE_SYSTEM = {
    "a device": each(
        written_to_a_device,
        [(path, "device or a pipe") for path in ("pipe", "link", "/dev/juzhen-test")],
    ),
    "no place": [
        (lambda f, make=make, place=place: made_where_nothing_can_be(f, make, place), f"{told}'.*Choose")
        for place, told in (
            ("file/run", "FOLDER/file/run"),
            ("/proc/run", "'/proc/run"),
            ("file", "FOLDER/file"),
        )
        for make in (take_folder, partial(Path.mkdir, parents=True, exist_ok=True))
    ],
}
REFUSED = {
    "a student": STUDENTS,
    "an output": each(
        over_a_file,
        [
            (words, "FOLDER/there.*not " + ("a folder" if "export" in words else "written by juzhen"))
            for words in OUTPUTS
        ],
    ),
    "a table": TABLES,
    "a run": RUNS,
    "a store": STORES,
}
KINDS = dict.fromkeys(REFUSED, UserError) | dict.fromkeys(OF_THE_SYSTEM, OSError)
PLACES = {
    subject: [(*row, KINDS[subject]) for row in cases] for subject, cases in (REFUSED | OF_THE_SYSTEM).items()
}


@pytest.mark.parametrize(("prepare", "told", "kind"), rows(PLACES, sampled={"an output": 2}))
def test_what_others_have_made_is_named_and_stays_as_it_is(f, prepare, told, kind):
    watched, act = prepare(f)
    before = [tree(Path(folder)) for folder in watched]
    for word, place in (("FOLDER", f.tmp_path), ("ENCODER", f.encoder_folder)):
        told = told.replace(word, re.escape(str(place)))
    with pytest.raises(kind, match=told):
        act()
    assert [tree(Path(folder)) for folder in watched] == before


def a_linked_cache(f, linked):
    name = f"{'0' * 32}.safetensors"
    precious = write(f.tmp_path / "precious", name, "mine.npy", "digest/mine.npy", f"digest/{name}")
    folder = f.tmp_path / "cache"
    if linked == "subfolder":
        claim_dir(folder)
        (folder / "digest").symlink_to(precious)
    else:
        folder.symlink_to(precious)
    cache = ArrayCache(folder, holds="numbers", max_bytes=0)
    assert cache.keys("digest") == []
    return [f.tmp_path], lambda: cache.write(f"digest/{'1' * 32}", {"a": np.arange(2)})


def a_pipe_in_a_cache(f):
    cache = ArrayCache(f.tmp_path, holds="numbers", max_bytes=0)
    os.mkfifo(cache.path("0" * 32))
    return [f.tmp_path], lambda: cache.read("0" * 32)


def an_entry_of_somebody(f, *, owned):
    """In a folder of ours it is removed."""
    folder = write(f.tmp_path / "cache", f"{'0' * 32}.safetensors")
    if owned:
        mark_dir(folder)
    cache = ArrayCache(folder, holds="numbers", max_bytes=0)
    return [] if owned else [folder], lambda: cache.read("0" * 32)


CACHES = {
    "a link": each(a_linked_cache, [(linked, "cannot be kept here") for linked in ("subfolder", "cache")]),
    "a pipe": [(a_pipe_in_a_cache, "named pipe")],
    "an entry": [
        (lambda f: an_entry_of_somebody(f, owned=True), "cannot be used"),
        (lambda f: an_entry_of_somebody(f, owned=False), "cannot be used"),
    ],
}


@pytest.mark.parametrize(("prepare", "told"), rows(CACHES))
@pytest.mark.usefixtures("at_once")
def test_a_cache_that_cannot_be_used_is_work_without_it(f, prepare, told):
    watched, act = prepare(f)
    before = [tree(folder) for folder in watched]
    with pytest.warns(UserWarning, match=told):
        assert act() is None
    assert [tree(folder) for folder in watched] == before
