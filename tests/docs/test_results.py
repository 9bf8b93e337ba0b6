"""results/ is small, and an archive gives back the runs and the page that is made from them."""

import io
import json
import lzma
import tarfile
from contextlib import suppress

import pytest
from forks import ROOT

from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE
from tools import archives as packed
from tools.archives import ARCHIVE, archives, pack, unpacked
from tools.results import unpack

MOST_BYTES = 2_000_000
PAGES = ("cot", "cross_encoder", "decide", "distill", "encoders", "losses", "retrieval", "transfer")


def files(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def test_results_are_small_and_their_runs_are_packed():
    found = files(ROOT / "results")
    loose = [name for name in found if name.endswith(f"/{RESULT_FILE}")]
    assert not loose, "python -m tools.results unpack PAGE, move them to build/results/PAGE, and pack PAGE"
    assert sum(path.stat().st_size for path in found.values()) <= MOST_BYTES
    pictures = [name.partition("/")[0] for name in found if name.endswith((".svg", ".png"))]
    assert len(pictures) == len(set(pictures)), "one picture a page"
    assert not [name for name in found if name.endswith(".html")]


@pytest.mark.slow
def test_every_archive_has_the_same_bytes_wherever_it_is_packed(tmp_path, monkeypatch):
    committed, folder = archives(), unpacked()
    assert tuple(committed) == PAGES
    monkeypatch.setattr(packed, "RESULTS", tmp_path)
    monkeypatch.setattr(lzma, "compress", lambda content, **_: content)  # takes seconds
    for page, path in committed.items():
        with tarfile.open(path) as archive:
            members = archive.getmembers()
        assert [member.name for member in members] == sorted(member.name for member in members)
        assert {(one.mtime, one.uid, one.gid, one.uname, one.mode) for one in members} == {
            (0, 0, 0, "", 0o644)
        }
        pack(page, folder / page)
        assert (tmp_path / page / ARCHIVE).read_bytes() == lzma.decompress(path.read_bytes())


def test_what_is_unpacked_is_replaced_only_while_nobody_has_changed_it(tmp_path):
    for _ in range(2):
        unpack("cot", tmp_path / "cot")
    found = files(tmp_path / "cot")
    path = next(path for name, path in found.items() if name.startswith("runs/"))
    assert found.keys() - {".juzhen-files"} == files(unpacked() / "cot").keys()
    path.write_text("mine", encoding="utf-8")
    with suppress(UserError):
        unpack("cot", tmp_path / "cot")
    assert path.read_text(encoding="utf-8") == "mine"


def test_only_runs_are_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "RESULTS", tmp_path)
    folder = tmp_path / "new"
    folder.mkdir()
    for name in (
        "runs/a/result.json",
        "runs/a/stages/0/rows.csv",
        "runs/b/result.json",
        "matrix.csv",
        "runs/x.md",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    pack("new", folder)
    kept = ["runs/a/result.json", "runs/a/stages/0/rows.csv", "runs/b/result.json"]
    with tarfile.open(folder / ARCHIVE) as archive:
        assert archive.getnames() == kept


def test_an_archive_has_the_metrics_that_its_page_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "RESULTS", tmp_path)
    scores = {f"dev/csts/{metric}": {"value": 0.1} for metric in ("spearman", "ks", "triplet_accuracy")}
    whole = {"name": "句", "scores": scores, "thresholds": {"dev/csts": {"value": 0.5}}, "seed": 42}
    path = tmp_path / "new" / "runs" / "a" / RESULT_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(whole, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in ("decide", "transfer"):
        pack(page, tmp_path / "new")
        packed.extract(page, tmp_path / "to" / page)
    kept = {
        each.parts[-4]: json.loads(each.read_text("utf-8")) for each in (tmp_path / "to").rglob(RESULT_FILE)
    }
    assert kept["transfer"] == whole
    del scores["dev/csts/ks"]
    assert kept["decide"] == whole | {"scores": scores, "thresholds": {}}


@pytest.mark.parametrize("name", ["../outside", "/outside", "link"])
def test_an_archive_writes_nothing_outside(tmp_path, monkeypatch, name):
    monkeypatch.setattr(packed, "RESULTS", tmp_path / "results")
    (tmp_path / "results" / "bad").mkdir(parents=True)
    member = tarfile.TarInfo(name)
    if name == "link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "results" / "bad" / ARCHIVE, "w:xz") as archive:
        archive.addfile(member, io.BytesIO())
    if name == "/outside":
        unpack("bad", tmp_path / "to")  # without the slash
        assert (tmp_path / "to" / "outside").is_file()
        return
    with pytest.raises(tarfile.FilterError):
        unpack("bad", tmp_path / "to")
    assert not (tmp_path / "to").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.slow
def test_a_page_is_rebuilt_from_its_archive(tmp_path):
    unpack("losses", tmp_path / "losses", rebuilt=True)
    for name in ("scores.svg", "old_defaults.md", "variants.md"):
        assert (tmp_path / "losses" / name).read_bytes() == (ROOT / "results" / "losses" / name).read_bytes()


def changed(folder):
    """What is unpacked again after somebody has changed a run."""
    unpack("cot", folder / "cot")
    next((folder / "cot" / "runs").rglob(RESULT_FILE)).write_text("mine", encoding="utf-8")
    unpack("cot", folder / "cot")


def lost(folder):
    """What is packed again after a run has gone."""
    for name in ("a", "b"):
        (folder / "new" / "runs" / name).mkdir(parents=True)
        (folder / "new" / "runs" / name / RESULT_FILE).write_text(name, encoding="utf-8")
    pack("new", folder / "new")
    (folder / "new" / "runs" / "b" / RESULT_FILE).unlink()
    pack("new", folder / "new")


def empty(folder):
    (folder / "new").mkdir()
    pack("new", folder / "new")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (changed, RESULT_FILE),
        (empty, f"{RESULT_FILE}.*juzhen archive"),
        (lost, r"runs/b/result\.json.*unpack new"),
    ],
)
def test_what_would_lose_a_run_is_refused(call, told, tmp_path, monkeypatch):
    if call is not changed:
        monkeypatch.setattr(packed, "RESULTS", tmp_path)
    with pytest.raises(UserError, match=told):
        call(tmp_path)
