"""The outermost layer of a job: whatever is raised ends in one line and an exit status."""

import functools
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from juzhen.core.answer import FULL_ERROR, answer
from juzhen.core.secrets import hide_in_logs

_wanted: ContextVar[str | None] = ContextVar("wanted")
"""What the user has set HYDRA_FULL_ERROR to, while `run_cli` has set it to something else."""


def run_cli(main: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with whatever it raises told by `juzhen.core.answer`, in one line on stderr.

    It goes around the whole program, and around the task inside of @hydra.main, so that Hydra does not speak before
    the error does; of several jobs in one process the others are still run, and Hydra says which one it was. With
    HYDRA_FULL_ERROR=1 in the environment the traceback is shown instead.
    """

    @functools.wraps(main)
    def guarded(*arguments: Any, **options: Any) -> Any:
        wanted = _wanted.get(os.environ.get(FULL_ERROR))
        before = _wanted.set(wanted)
        is_inner = before.old_value is not before.MISSING
        # Otherwise Hydra prints a traceback of its own and exits with 1 before the error arrives here.
        os.environ[FULL_ERROR] = "1"
        hide_in_logs()
        try:
            return main(*arguments, **options)
        except KeyboardInterrupt as error:
            raise SystemExit(answer(error)) from None
        except Exception as error:
            if wanted == "1" or (is_inner and _is_one_of_several()):
                raise
            raise SystemExit(answer(error, Path(sys.argv[0]).name)) from None
        finally:
            _wanted.reset(before)
            if not is_inner:
                del os.environ[FULL_ERROR]
                os.environ |= {} if wanted is None else {FULL_ERROR: wanted}

    return guarded


def _is_one_of_several() -> bool:
    """This is a job of a sweep whose jobs share a process."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
