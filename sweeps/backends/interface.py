"""What the planner asks of a place where cells run."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from juzhen.core.errors import UserError
from sweeps.ledger import Cell, Event, History


def require_least(resources: object, least: Mapping[str, int]) -> None:
    """Raises UserError for a key of the launcher that is neither null nor a whole number of at least so much."""
    for key, limit in least.items():
        value = getattr(resources, key)
        if value is not None and (not isinstance(value, int) or value < limit):
            raise UserError(f"hydra.launcher.{key}={value}: expected a whole number of at least {limit}")


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: exit status (negative: by that signal), and words for a failure that the log has not."""

    status: int
    error: str = ""

    @classmethod
    def read(cls, ending: Path) -> "Ended | None":
        """What `remote.tell` left in that file; None where there is nothing, or nothing of the kind."""
        try:
            status = json.loads(ending.read_text(encoding="utf-8"))["status"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return cls(status) if isinstance(status, int) else None


class Work(Protocol):
    """One cell at work. `facts` are what the ledger is told when it begins."""

    facts: Mapping[str, Any]

    def poll(self) -> Ended | None:
        """None while it goes on."""


class Backend(Protocol):
    """A place where cells run.

    begins        event of a start: STARTED, or SUBMITTED where the start is up to somebody else
    poll_seconds  between two looks at what is going on
    """

    begins: Event
    poll_seconds: float

    def capacity(self) -> int:
        """Cells at a time, at this moment."""

    def describe(self) -> str:
        """For the first line of a sweep, as in `2 at a time, 4 threads each`."""

    def start(self, cell: Cell, log: Path) -> Work:
        """Begins an attempt, whose output is added to `log`. Raises UserError when it is refused."""

    def adopt(self, cell: Cell) -> Work | None:
        """What an earlier sweep began and left, when it is still going on; nothing where work ends with its sweep."""
        return None

    def is_busy(self, cell: Cell, history: History | None) -> bool:
        """Something of an earlier sweep, that cannot be adopted, is still ending."""
        return False

    def stop(self, works: Sequence[Work], report: Callable[[str], None]) -> bool:
        """The sweep ends early. True: the work has been saved and ended; False: it goes on without the sweep."""

    def close(self) -> None:
        """Gives back what the place holds for this sweep."""
