"""What needs a process of its own, without the seconds in which a new one loads torch."""

import os
import traceback
from collections.abc import Callable


def in_a_fork(function: Callable[..., object], *given: object) -> int:
    """Calls it in a copy of this process and waits: the exit code, or minus the signal that ended it, as subprocess."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            function(*given)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
