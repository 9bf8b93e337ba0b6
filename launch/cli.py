"""The outermost layer of a program: mistakes of the user end in plain words and exit status 2."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from schema.errors import INTERRUPTED, INTERRUPTED_STATUS, UserError, print_error
from schema.secrets import hide_in_logs

FULL_ERROR = "HYDRA_FULL_ERROR"


def run_cli(main: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with every UserError printed as `error: …` on stderr and exit status 2.

    It goes around the whole program, outside of @hydra.main: an error of a job, also one of a sweep or
    in another process, then arrives here as Hydra hands it on. With HYDRA_FULL_ERROR=1 in the environment the
    traceback is shown instead.
    """

    @functools.wraps(main)
    def guarded(*arguments: Any, **options: Any) -> Any:
        wanted = os.environ.get(FULL_ERROR)
        # Otherwise Hydra prints a traceback of its own and exits with 1 before the error arrives here.
        os.environ[FULL_ERROR] = "1"
        hide_in_logs()
        try:
            return main(*arguments, **options)
        except UserError as error:
            if wanted == "1":
                raise
            print_error(error)
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            print(INTERRUPTED, file=sys.stderr)
            raise SystemExit(INTERRUPTED_STATUS) from None
        finally:
            if wanted is None:
                del os.environ[FULL_ERROR]
            else:
                os.environ[FULL_ERROR] = wanted

    return guarded
