"""State machine of files: writes, kills, edits and links in any order. Nobody's work is lost, and nothing is torn."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from forks import in_a_fork
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from juzhen.core import atomic_write as module
from juzhen.core.atomic_write import (
    LEFT_BEHIND,
    atomic_write_dir,
    clear_leftovers,
    remove_file,
    remove_folder,
    write_text,
)
from juzhen.core.errors import UserError
from juzhen.core.file_guard import LIST, MARKER, claim_dir

TEXTS = st.sampled_from(["一", "二\r\n", "", "x" * 5000])
FILE, FOLDER = "表.csv", "encoder"
NAMES = st.sampled_from([FILE, FOLDER])
MOMENTS = ("fsync", "replace", "rename", "second rename")


def write(path: Path, text: str) -> None:
    """As verbs write: a file, or a folder of two files."""
    if path.name != FOLDER:
        write_text(path, text)
        return
    with atomic_write_dir(path) as part:
        (part / "1_Pooling").mkdir()
        for name in ("weights", "1_Pooling/config.json"):
            (part / name).write_text(text, newline="")


def read(path: Path) -> str | dict[str, str] | None:
    """Content of a file, of each file below a folder, or None. Lists of written files are left out."""
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.is_file() and file.name != LIST]
        return {file.relative_to(path).as_posix(): file.read_bytes().decode() for file in files}
    return path.read_bytes().decode() if path.exists() else None


def written(path: Path, text: str) -> str | dict[str, str]:
    return text if path.name != FOLDER else dict.fromkeys(("weights", "1_Pooling/config.json"), text)


def die_at(moment: str, path: Path, text: str) -> None:
    """Writes, and is killed just after a call of the system."""
    name, wanted = moment.split()[-1], 2 if " " in moment else 1
    call, calls = getattr(os, name), []

    def last(*arguments: object) -> None:
        call(*arguments)
        calls.append(arguments)
        if len(calls) == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(module.os, name, last)
    write(path, text)


class Files(RuleBasedStateMachine):
    """The folder of a user, in which juzhen writes, and a marked folder of juzhen's own."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.fsync, os.fsync = os.fsync, lambda descriptor: None  # the tests start no new system
        self.user, self.own = self.root / "user", self.root / "own"
        self.user.mkdir()
        claim_dir(self.own)
        (self.root / "precious").mkdir()
        (self.root / "precious" / "thesis").write_text("mine")
        self.content: dict[Path, object] = {}
        """What each path must hold; the last one of a folder that was moved aside, too."""
        self.ours: dict[Path, list[object]] = {}
        """What juzhen wrote there and may replace."""
        self.is_clear = True

    def teardown(self) -> None:
        os.fsync = self.fsync
        shutil.rmtree(self.root)

    def may_replace(self, path: Path) -> bool:
        if path.is_symlink():
            return False
        return self.content.get(path) is None or self.content[path] in self.ours.get(path, [])

    def note(self, path: Path, content: object) -> None:
        self.content[path] = content
        # The list of a folder is replaced with it; that of a user's folder grows.
        self.ours[path] = [content] if path.name == FOLDER else [*self.ours.get(path, []), content]

    @rule(name=NAMES, text=TEXTS)
    def write(self, name: str, text: str) -> None:
        path = self.user / name
        if self.may_replace(path):
            write(path, text)
            self.note(path, written(path, text))
        else:
            with pytest.raises(UserError, match=rf"{name}: .*Nothing was changed.*mv "):
                write(path, text)

    @rule(name=NAMES, text=TEXTS)
    def fail(self, name: str, text: str) -> None:
        """An error inside the block changes nothing."""
        path = self.user / name
        if self.may_replace(path):
            write_to = atomic_write_dir if name == FOLDER else module.atomic_write
            with pytest.raises(ZeroDivisionError), write_to(path):
                raise ZeroDivisionError

    @rule(name=NAMES, text=TEXTS, moment=st.sampled_from(MOMENTS))
    def kill(self, name: str, text: str, moment: str) -> None:
        path = self.user / name
        if not self.may_replace(path):
            return
        if name == FOLDER and self.content.get(path) is None:
            self.write(name, "old")
        if in_a_fork(die_at, moment, path, text) == -signal.SIGKILL:
            self.is_clear = False
        clear_leftovers(self.user)  # gives a folder that was moved aside its name back
        old, new = self.content.get(path), written(path, text)
        assert read(path) in (old, new)
        self.note(path, new) if read(path) == new else None
        if name != FOLDER:  # its digest may be listed before the rename
            self.ours[path] = [*self.ours.get(path, []), new]

    @precondition(lambda self: not self.is_clear)
    @rule()
    def clear(self) -> None:
        clear_leftovers(self.user)
        self.is_clear = True

    @rule(text=TEXTS)
    def edit(self, text: str) -> None:
        path = self.user / FILE
        path.unlink(missing_ok=True)
        path.write_text(f"edited {text}", newline="")
        self.content[path] = f"edited {text}"

    @precondition(lambda self: (self.user / FOLDER).is_dir() and not (self.user / FOLDER).is_symlink())
    @rule(name=st.sampled_from(["weights", "notes.txt", LIST]))
    def edit_in_folder(self, name: str) -> None:
        path = self.user / FOLDER
        if name == LIST:
            (path / LIST).unlink(missing_ok=True)
        else:
            (path / name).write_text("edited")
        self.content[path], self.ours[path] = read(path), []

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        path = self.user / name
        path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path, ignore_errors=True)
        self.content[path] = None

    @rule(name=NAMES)
    def link(self, name: str) -> None:
        self.delete(name)
        goal = self.root / "precious" / ("thesis" if name != FOLDER else "")
        (self.user / name).symlink_to(goal)
        self.content[self.user / name] = read(goal)
        self.ours[self.user / name] = []

    @rule()
    def remove(self) -> None:
        """Of a user's folder only what juzhen wrote goes."""
        path = self.user / FILE
        if goes := self.may_replace(path):
            self.content[path] = None
        remove_file(path)
        assert path.exists() != goes or self.content.get(path) is not None

    @rule(text=TEXTS, is_link=st.booleans())
    def write_in_own_folder(self, text: str, is_link: bool) -> None:
        """In a marked folder everything is replaced; a link itself, and not its target."""
        path = self.own / FILE
        if is_link:
            path.unlink(missing_ok=True)
            path.symlink_to(self.root / "precious" / "thesis")
        write_text(path, text, in_own_folder=True)
        assert not path.is_symlink()
        self.content[path] = text

    @rule(has_notes=st.booleans())
    def remove_own_folder(self, has_notes: bool) -> None:
        """Of a marked folder the named files go, and with them the folder unless something else is in it."""
        (self.own / "link").symlink_to(self.root / "precious")
        if has_notes:
            (self.own / "notes").write_text("mine")
        remove_folder(self.own, r".*\.csv")
        assert sorted(one.name for one in self.own.iterdir()) == sorted(
            [MARKER, "link", *(["notes"] if has_notes else [])]
        )
        (self.own / "link").unlink()
        (self.own / "notes").unlink(missing_ok=True)
        remove_folder(self.own, r".*\.csv")
        assert not self.own.exists()
        claim_dir(self.own)
        self.content[self.own / FILE] = None

    @invariant()
    def nothing_is_lost_or_torn(self) -> None:
        assert {path: read(path) for path in self.content} == self.content
        assert read(self.root / "precious") == {"thesis": "mine"}
        assert self.is_clear is False or not [
            one for one in self.root.rglob("*") if LEFT_BEHIND.fullmatch(one.name)
        ]


def machine(examples: int) -> type:
    """A test of so many sequences of 20 steps."""
    options = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    limits = settings(max_examples=examples, stateful_step_count=20, **options)
    return type("Case", (Files.TestCase,), {"settings": limits})


TestFiles = machine(8)
TestManyFiles = pytest.mark.slow(machine(100))
