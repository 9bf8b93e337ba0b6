"""Work in a process of its own, for measurements of memory: python -m tools.bench.child <module:function> <arguments>."""

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "result of the child: "
ROOT = Path(__file__).resolve().parents[1]


def in_child(function: str, **arguments: Any) -> dict[str, Any]:
    """What `function` ("bench.module:name") returns in a fresh process, with `peak_mib` of that process added.

    Arguments and return value pass as JSON. Raises MemoryError when the system killed the process, which it does
    where memory runs out, and RuntimeError with its last words when it failed otherwise.
    """
    import torch

    arguments = {"threads": torch.get_num_threads(), "function": function, "arguments": arguments}
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.child", json.dumps(arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        raise MemoryError(f"{function} was killed")
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{function} in a process of its own: {done.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix(MARK))


def main() -> None:
    import torch

    from tools.bench.device import most_mib

    order = json.loads(sys.argv[1])
    torch.set_num_threads(order["threads"])
    module, name = order["function"].split(":")
    found = getattr(importlib.import_module(module), name)(**order["arguments"])
    print(MARK + json.dumps(found | {"peak_mib": round(most_mib(), 1)}))


if __name__ == "__main__":
    main()
