"""Where a run that belongs to a search says how it does: a journal that processes share, and a trial's number."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from schema.errors import UserError
from schema.numerals import is_position

if TYPE_CHECKING:
    from optuna.storages import JournalStorage

SEPARATOR = "#"


@dataclass(frozen=True)
class TrialAddress:
    """One trial of the study that a journal holds; the study is named after the file.

    >>> TrialAddress.parse("runs/.sweep/rates.journal#3")
    TrialAddress(journal='runs/.sweep/rates.journal', number=3)
    """

    journal: str
    number: int

    @property
    def study(self) -> str:
        return Path(self.journal).stem

    def __str__(self) -> str:
        return f"{self.journal}{SEPARATOR}{self.number}"

    @classmethod
    def parse(cls, text: str) -> "TrialAddress":
        journal, _, number = text.rpartition(SEPARATOR)
        if not journal or not is_position(number):
            raise UserError(
                f"trial={text}: expected <journal>{SEPARATOR}<number>; a search sets it, leave it out"
            )
        return cls(journal, int(number))


def require_optuna() -> None:
    """Raises UserError where the package that searches is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UserError(
            f"a search needs optuna ({error}); type: pip install -e '.[search]' -c constraints.txt"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_journal(path: str | Path) -> "JournalStorage":
    """The journal in that file, made where there is none; any number of processes may write to it.

    Its lock is the system's, which a process gives up when it dies, however that happens.
    """
    require_optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock", is_singleton=False)
    with lock:
        _drop_torn_line(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _drop_torn_line(path: Path) -> None:
    """A process was stopped while it wrote the last line; what comes after would make it unreadable for all."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
            os.fsync(file.fileno())
