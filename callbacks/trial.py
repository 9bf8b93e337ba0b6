"""Reports of a run in a search: a journal that processes share, and a trial's number."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from juzhen.core.errors import UserError, require_packages
from juzhen.core.safe_open import open_regular_file
from juzhen.core.text import short

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import JournalStorage

FIRST_BYTES = b'{"op_code":'
"""What a journal begins with."""

PRUNER = "pruner"
"""Attribute of the study: how its pruner is made."""

PRUNED_AT = "pruned_at"
"""Attribute of the trial: the validation after which its run ended itself."""


@dataclass(frozen=True)
class TrialAddress:
    """One trial of the study that a journal holds. The study is named after the file.

    Args:
        journal: Path of the journal.
        number: Number of the trial.

    >>> TrialAddress.parse("runs/.sweep/rates.journal#3")
    TrialAddress(journal='runs/.sweep/rates.journal', number=3)
    """

    journal: str
    number: int

    @property
    def study(self) -> str:
        return Path(self.journal).stem

    def __str__(self) -> str:
        return f"{self.journal}#{self.number}"

    @classmethod
    def parse(cls, text: str) -> "TrialAddress":
        """Read the address of a trial as a job has it in `trial`.

        Args:
            text: `<journal>#<number>`.

        Returns:
            The address. The journal is not opened.
        """
        journal, _, number = text.rpartition("#")
        return cls(journal, int(number))

    def check(self) -> None:
        """Check that the journal of a search exists. It changes nothing and needs no Optuna.

        Raises:
            UserError: The journal is missing.
        """
        if not _is_journal(Path(self.journal)):
            problem = f"{self.journal} is no journal of a search"
            raise UserError(f"trial={self}: {problem}. A search sets trial, leave it out")

    def open(self) -> "JournalStorage":
        """Open the journal that contains the trial.

        Returns:
            Storage of Optuna.

        Raises:
            UserError: The journal is missing.
        """
        self.check()
        return open_journal(self.journal)


def require_optuna() -> None:
    """Check that the packages of a search are installed.

    Raises:
        UserError: One is missing.
    """
    require_packages("a search", "optuna", extra="search")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_journal(path: str | Path) -> "JournalStorage":
    """Open the journal in a file, or create it. Any number of processes may write to it.

    The lock belongs to the system. A process releases it when it dies for any reason.

    Args:
        path: Journal of a search. A last line that a kill has torn is removed. Missing folders are created.

    Returns:
        Optuna's storage on the file.

    Raises:
        UserError: The file is of another program or damaged, or Optuna is not installed.
    """
    require_optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = Path(path)
    if path.exists() and path.stat().st_size and not _is_journal(path):
        raise UserError(
            f"{path}: not a journal of a search, so it is not changed. Choose another name for the study"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock", is_singleton=False)
    with lock:
        _drop_torn_line(path)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except Exception as error:  # Optuna asks lines for keys, and numbers for studies that they name
        raise UserError(
            f"{path}: a damaged journal of a search ({type(error).__name__}: {short(str(error))}). Move it away, and "
            "begin another: hydra.sweeper.study=<name>"
        ) from error


def _drop_torn_line(path: Path) -> None:
    """Remove a last line that a killed process left incomplete. It would make all later lines unreadable."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        end_of_lines = content.rfind(b"\n") + 1
        if end_of_lines < len(content):
            file.truncate(end_of_lines)
            os.fsync(file.fileno())


def _is_journal(path: Path) -> bool:
    """True if its first line is one of Optuna's operations, possibly torn by a kill."""
    try:
        with open_regular_file(path) as file:
            return file.read(len(FIRST_BYTES)) == FIRST_BYTES
    except OSError:
        return False


def make_pruner(described: Any, *, journal: str) -> "BasePruner":
    """Create the pruner of a journal. A journal may come from anyone, so nothing else is created.

    Args:
        described: `_target_`, a class of optuna.pruners, and its parameters. They are numbers.
        journal: File for the message.

    Returns:
        The pruner.

    Raises:
        UserError: Anything else is described.
    """
    import optuna

    named = described.get("_target_") if isinstance(described, Mapping) else None
    module, _, name = str(named).rpartition(".")
    pruner = getattr(optuna.pruners, name, None) if module == "optuna.pruners" else None
    numbers = {key: value for key, value in described.items() if key != "_target_"} if pruner else {}
    is_pruner = isinstance(pruner, type) and issubclass(pruner, optuna.pruners.BasePruner)
    if not is_pruner or not all(isinstance(value, int | float) for value in numbers.values()):
        raise UserError(
            f"{journal}: {described} is not a pruner of a search. The journal is damaged, or another program wrote it"
        )
    return pruner(**numbers)
