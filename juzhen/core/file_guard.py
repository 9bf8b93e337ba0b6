"""File guard: juzhen replaces and removes only files that it has written and nobody has edited since.

A folder with the file MARKER belongs to juzhen: a run, checkpoints, a cache, the shards of a mining run. In all other
folders the file LIST has the name of each file that juzhen wrote there, and a digest of its bytes. A link is never
followed. `juzhen.core.atomic_write` asks this module before it replaces or removes anything.
"""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from juzhen.core.errors import UserError, command
from juzhen.core.safe_open import open_regular_file, read_bytes

MARKER = ".juzhen"
MARK = "Made by juzhen, which may replace, move to previous/ or remove what it has left in this folder.\n"

UNMARKED = r"\..+\.part|\.lock"
"""Names of files that may be in a folder before the marker is."""

LIST = ".juzhen-files"
HEAD = "# Files that juzhen has written here, with digests of their bytes: it replaces no others.\n"
WHOLE = "# A folder that juzhen has written as a whole, with digests of the bytes of its files.\n"

LINK = "is a link to something else"


def claim_dir(path: str | Path) -> None:
    """Mark a folder as juzhen's, and make it if it is missing.

    Args:
        path: Folder, which need not exist.

    Raises:
        UserError: A link, or a folder without the marker that holds other files.
        OSError: The folder cannot be made.
    """
    check_claimable(Path(path))
    mark_dir(Path(path))


def mark_dir(path: Path) -> None:
    """Mark a folder that the caller has checked.

    Args:
        path: Folder. It is made if it is missing, with the folders around it.

    Raises:
        OSError: The folder cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True)
    if not _is_marked(path):
        _append(path / MARKER, MARK)


def check_claimable(path: Path) -> None:
    """Check that `claim_dir` would accept a folder, and change nothing.

    Args:
        path: Folder, which need not exist.

    Raises:
        UserError: A link, or a folder without the marker that holds other files.
    """
    if path.is_symlink():
        raise not_overwritable(path, LINK)
    if _is_marked(path) or not path.is_dir():
        return
    foreign = sorted(entry.name for entry in path.iterdir() if not re.fullmatch(UNMARKED, entry.name))
    if foreign and not _is_marked(path):  # another process may have marked it in between
        raise not_overwritable(
            path, f"holds {', '.join(foreign[:3])}{' …' if foreign[3:] else ''}, and juzhen did not make it"
        )


def is_own_dir(path: Path) -> bool:
    """True for a folder that is marked, or is empty.

    Args:
        path: Any path.

    Returns:
        False also for a missing folder and for a link.
    """
    try:
        check_claimable(path)
    except UserError:
        return False
    return path.is_dir()


def require_writable(folder: Path) -> None:
    """Check that a folder can be made, or written into.

    Args:
        folder: Folder, which need not exist. Of a missing one the nearest existing parent counts.

    Raises:
        UserError: Nothing can be written in it, or it cannot be made.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        place = "that" if there == folder else there
        raise UserError(f"{folder}: {place} is not a folder, so nothing can be written there. Name a folder")
    try:
        with tempfile.TemporaryFile(dir=there):  # os.access grants /proc to root
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"{folder}: nothing can be written in {there}. Choose a folder that you may write"
        ) from error


def check_overwritable(*paths: str | Path, are_folders: bool = False) -> None:
    """Check that files or folders can be replaced: nothing is there, or what juzhen wrote and nobody edited.

    Args:
        *paths: Outputs of one command.
        are_folders: True if the outputs are folders.

    Raises:
        UserError: A link, a file of somebody else, an edited file, a folder with such a file or in place of a file, a
            path that is given twice, or a place where nothing can be written.
    """
    places = [os.path.realpath(path) for path in paths]
    for path in map(Path, paths):
        if str(path) == "-":
            raise UserError("-: results go to files, not to standard output. Name a file")
        if places.count(os.path.realpath(path)) > 1:
            raise UserError(f"{path}: two outputs would be this file. Give each a name of its own")
        require_writable(path if are_folders else path.parent)
        if path.is_symlink():
            raise not_overwritable(path, LINK)
        if path.is_dir() and not are_folders:
            raise UserError(
                f"{path}: is a folder, where a file would be written. Name a file, such as {path / 'out'}"
            )
        root = path if path.is_dir() else path.parent
        if _is_marked(path):
            raise not_overwritable(path, "is the folder of a run or a cache")
        listed = _listed(root)
        if root != path and path.exists() and WHOLE.strip("# \n") in listed:
            raise not_overwritable(path, "is part of a folder that was written as a whole")
        for file in _files(path):
            name = _listed_name(file, root)
            is_regular = file.is_file() and not file.is_symlink()
            if not (is_regular and name in listed and _digest(file) in listed[name]):
                which = "" if file == path else f"holds {file.relative_to(root)}, which "
                raise not_overwritable(path, f"{which}was not written by juzhen, or has changed since")


def is_overwritable(path: Path) -> bool:
    """True if `check_overwritable` raises nothing.

    Args:
        path: File to write.

    Returns:
        True also for a missing file in a folder that can be written.
    """
    try:
        check_overwritable(path)
    except UserError:
        return False
    return True


def require_outside(out: str | Path) -> None:
    """Check that an output is not inside a marked folder, such as the encoder of a run.

    Args:
        out: Output path, which need not exist.

    Raises:
        UserError: A folder above it is marked.
    """
    if owner := next((entry for entry in Path(out).resolve().parents if _is_marked(entry)), None):
        raise UserError(
            f"{out}: this is inside {owner}, the folder of a run or a cache. Choose another place."
        )


def require_apart(out: str | Path, *sources: str | Path) -> None:
    """Check that an output path is apart from input paths. Links are followed.

    Args:
        out: Output path, which need not exist.
        *sources: Files or folders that are read.

    Raises:
        UserError: The output equals, contains, or is inside an input.
    """
    folder = Path(out).resolve()
    for source in sources:
        read = Path(source).resolve()
        if folder.is_relative_to(read) or read.is_relative_to(folder):
            raise UserError(f"{out}: {source} is read, and would be written over. Choose another place.")


def write_list(folder: Path) -> None:
    """List all files below a new folder.

    Args:
        folder: Folder that juzhen filled. The list is a file in it.
    """
    entries = [f"{_digest(file)} {_listed_name(file, folder)}\n" for file in _files(folder)]
    _append(folder / LIST, WHOLE + "".join(entries))


def add_to_list(path: Path, written: Path) -> None:
    """List `path` with the bytes of `written`, which is about to replace it.

    Args:
        path: File that will have these bytes. Its folder keeps the list.
        written: File with the bytes.
    """
    listed, name, digest = _listed(path.parent), _listed_name(path, path.parent), _digest(written)
    if digest not in listed.get(name, ()):
        _append(path.parent / LIST, f"{'' if listed else HEAD}{digest} {name}\n")


def not_overwritable(path: Path, reason: str) -> UserError:
    """Return the error about a path that is not replaced.

    Args:
        path: File or folder that stays.
        reason: Rest of a sentence whose subject is the path.

    Returns:
        An error to raise, with a command that moves the path away.
    """
    if Path.cwd().is_relative_to(path.resolve()):
        remedy = f"Choose a new folder in it, such as {path / 'out'}"
    else:
        olds = (f"{path}.old{number}" for number in ("", *range(2, 100)))
        free = next((old for old in olds if not os.path.lexists(old)), "<new name>")
        remedy = f"Choose another place, or move it away first: {command('mv', path, free)}"
    return UserError(f"{path}: {reason}. Nothing was changed. {remedy}")


def refuse_links(
    folder: Path, names: Iterable[str], *, within: Iterable[str] = (), read: Iterable[str] = ()
) -> None:
    """Check that no link would lead a run to write outside its folder.

    Args:
        folder: The folder.
        names: Names in it. They are checked with all paths below them.
        within: Names of folders that may hold links.
        read: Names of folders that are only read. They may be links, too.

    Raises:
        UserError: A link.
    """
    for name in names:
        for path in _tree(folder / name, {*within, *read}):
            if path.is_symlink() and path.name not in read:
                raise UserError(
                    f"{path}: is a link, and a run would write to its target. Remove the link, or choose another "
                    "folder."
                )


def _is_marked(path: Path) -> bool:
    marker = path / MARKER
    return marker.is_file() and not marker.is_symlink()


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or all files and links below a folder, without its list."""
    if not path.is_dir():
        yield from [path] if os.path.lexists(path) else []
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (
            Path(folder, name) for name in sorted([*links, *names]) if Path(folder, name) != path / LIST
        )


def _tree(path: Path, skipped: set[str]) -> Iterator[Path]:
    """The path and all below it. Links, and folders with a skipped name, are not entered."""
    yield path
    if path.name not in skipped and not path.is_symlink():
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in [*folders, *names])
            folders[:] = [name for name in folders if name not in skipped]


def _listed_name(file: Path, folder: Path) -> str:
    return ascii(file.relative_to(folder).as_posix())  # one line, whatever characters a name has


def _digest(file: Path) -> str:
    with open_regular_file(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _listed(folder: Path) -> dict[str, set[str]]:
    """Name → digests of all bytes that were written under this name."""
    path, listed = folder / LIST, dict[str, set[str]]()
    if path.is_file() and not path.is_symlink():
        for line in read_bytes(path).decode(errors="replace").splitlines():
            digest, _, name = line.partition(" ")
            listed.setdefault(name, set()).add(digest)
    return listed


def _append(path: Path, text: str) -> None:
    # One write call: several processes may append at once. A link is an OSError.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
