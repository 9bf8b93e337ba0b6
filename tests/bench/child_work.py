"""What the test of processes lets them do."""

import os
import signal


def answer(*, number: int) -> dict[str, float]:
    held = bytearray(64 * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    return {"answer": 2 * number, "held_mib": len(held) / 2**20}


def fail() -> None:
    raise ValueError("no such luck")


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
