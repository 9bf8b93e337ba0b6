"""By what this program knows what it has made, and may therefore replace or remove.

A folder that is ours alone (of a run, of checkpoints, a shelf of a cache, the portions of a mining) holds the file
MARKER. Elsewhere LIST, beside the files, names each that was written with a digest of its bytes: what somebody else has
put there, or has changed since, is not ours. Who replaces and removes is `juzhen.core.atomic_write`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from juzhen.core.errors import UserError, command
from juzhen.core.safe_open import open_regular_file, read_bytes

MARKER = ".juzhen"
MARK = "Made by juzhen, which may replace, move to previous/ or remove what it has left in this folder.\n"

UNMARKED = r"\..+\.part|\.lock"
"""What a folder of ours may hold before it has the marker."""

LIST = ".juzhen-files"
HEAD = "# Files that juzhen has written here, with digests of their bytes: it replaces no others.\n"
WHOLE = "# A folder that juzhen has written as a whole, with digests of the bytes of its files.\n"


def claim_dir(path: str | Path) -> None:
    """Makes a folder that is ours, or sees that it is: it has the marker, or holds nothing.

    Raises UserError for a link and for a folder of somebody else; OSError where none can be made.
    """
    check_claimable(Path(path))
    mark_dir(Path(path))


def mark_dir(path: Path) -> None:
    """Makes a folder ours, of which the caller has seen that it may be."""
    path.mkdir(parents=True, exist_ok=True)
    if not _is_marked(path):
        _append(path / MARKER, MARK)


def check_claimable(path: Path) -> None:
    """As `claim_dir`, and makes nothing."""
    if path.is_symlink():
        raise not_overwritable(path, "is a link, and what it leads to is not")
    if _is_marked(path) or not path.is_dir():
        return
    foreign = sorted(entry.name for entry in path.iterdir() if not re.fullmatch(UNMARKED, entry.name))
    if foreign and not _is_marked(path):  # another process may just have made it ours
        raise not_overwritable(
            path, f"holds {', '.join(foreign[:3])}{' …' if foreign[3:] else ''}, which is not"
        )


def is_own_dir(path: Path) -> bool:
    """`claim_dir` would take it as it is."""
    try:
        check_claimable(path)
    except UserError:
        return False
    return path.is_dir()


def _is_marked(path: Path) -> bool:
    marker = path / MARKER
    return marker.is_file() and not marker.is_symlink()


def check_overwritable(*paths: str | Path) -> None:
    """Raises UserError for a file or folder that would be replaced, and is none that we have written."""
    for path in map(Path, paths):
        if path.is_symlink():
            raise not_overwritable(path, "is a link, and what it leads to is not")
        root = path if path.is_dir() else path.parent
        listed = _listed(root)
        if root != path and path.exists() and WHOLE.strip("# \n") in listed:
            raise not_overwritable(
                path, "is part of a folder that was written as a whole, and alone it is not"
            )
        for file in _files(path):
            name = _listed_name(file, root)
            regular = file.is_file() and not file.is_symlink()
            if not (regular and name in listed and _digest(file) in listed[name]):
                detail = "" if file == path else f"holds {file.relative_to(root)}, which "
                raise not_overwritable(
                    path, f"{detail}was not written by juzhen, or has changed since: it is not"
                )


def is_overwritable(path: Path) -> bool:
    """Nothing is there, or what we have written."""
    try:
        check_overwritable(path)
    except UserError:
        return False
    return True


def require_outside(out: str | Path) -> None:
    """Raises UserError for a place in a folder that is ours alone: the encoder of a run gives way to no other."""
    folder = Path(out).resolve()
    if owner := next((entry for entry in folder.parents if _is_marked(entry)), None):
        raise UserError(
            f"{out}: lies in {owner}, the folder of a run or a cache; choose a place outside of it"
        )


def require_apart(out: str | Path, *sources: str | Path) -> None:
    """Raises UserError for a place to write to that is, holds, or lies within what is read."""
    folder = Path(out).resolve()
    for source in sources:
        read = Path(source).resolve()
        if folder.is_relative_to(read) or read.is_relative_to(folder):
            raise UserError(f"{out}: {source} is read, and would be written over; choose another place")


def write_list(folder: Path) -> None:
    """Lists all files below a folder as ours."""
    entries = [f"{_digest(file)} {_listed_name(file, folder)}\n" for file in _files(folder)]
    _append(folder / LIST, WHOLE + "".join(entries))


def add_to_list(path: Path, written: Path) -> None:
    """Lists `path` as ours with the bytes that `written` has, which is about to take its place."""
    listed, name, digest = _listed(path.parent), _listed_name(path, path.parent), _digest(written)
    if digest not in listed.get(name, ()):
        _append(path.parent / LIST, f"{'' if listed else HEAD}{digest} {name}\n")


def not_overwritable(path: Path, reason: str) -> UserError:
    """`reason`: a sentence without its last words."""
    return UserError(
        f"{path}: {reason} this program's to replace. Nothing was changed; choose another place, or move it away "
        f"first: {command('mv', path, f'{path}.old')}"
    )


def _files(path: Path) -> Iterator[Path]:
    """A file itself, or all below a folder but the list; of links to folders the links."""
    if not path.is_dir():
        yield from [path] if os.path.lexists(path) else []
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (
            Path(folder, name) for name in sorted([*links, *names]) if Path(folder, name) != path / LIST
        )


def _listed_name(file: Path, folder: Path) -> str:
    """In one line, whatever it is made of."""
    return ascii(file.relative_to(folder).as_posix())


def _digest(file: Path) -> str:
    with open_regular_file(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _listed(folder: Path) -> dict[str, set[str]]:
    """Name → digests of the bytes that were written under it, of one folder."""
    path, listed = folder / LIST, dict[str, set[str]]()
    if path.is_file() and not path.is_symlink():
        for line in read_bytes(path).decode(errors="replace").splitlines():
            digest, _, name = line.partition(" ")
            listed.setdefault(name, set()).add(digest)
    return listed


def _append(path: Path, text: str) -> None:
    """Adds to a file in one write, so that several processes may; a link there is an OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def refuse_links(
    folder: Path, names: Iterable[str], *, within: Iterable[str] = (), read: Iterable[str] = ()
) -> None:
    """Raises UserError for a link among the names in a folder, or at any depth below them.

    within  folders of these names may hold links
    read    nothing is written to folders of these names: they may be links, too
    """
    for name in names:
        for path in _tree(folder / name, {*within, *read}):
            if path.is_symlink() and path.name not in read:
                raise UserError(
                    f"{path}: is a link, and a run would write to where it leads; take it away, or choose "
                    "another folder"
                )


def _tree(path: Path, skipped: set[str]) -> Iterator[Path]:
    """A path and all below it, through no link, and not what is below folders of some names."""
    yield path
    if path.name not in skipped and not path.is_symlink():
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in [*folders, *names])
            folders[:] = [name for name in folders if name not in skipped]
