"""This machine and this process: processor, memory, threads, devices, versions of packages; caches, network, garbage.

Needs no torch: functions about its devices and threads load it.

A server that does not answer is detected in two or three seconds. The libraries themselves retry for half a
minute.

Loaded modules are 400,000 objects that stay. The collector would scan all of them seven to nine times during a start, a
tenth of its time. Later each scan would pause a server or a training step for 0.3 s (measured in docs/log/serving.md).
"""

import atexit
import ctypes
import gc
import importlib.util
import os
import platform
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from juzhen.core.errors import UserError
from juzhen.core.paths import CONFIGURATION, IS_CLONE, ROOT

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Instruction sets with bfloat16 products: the first two of x86, the last of ARM."""


def num_cores() -> int:
    """Return the number of cores that this process may use, within its CPU quota: at least 1.

    Returns:
        Whole number.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota() -> float | None:
    """Return the CPU limit of control groups (version 1 or 2), such as 1.5 in a container, or None.

    Returns:
        Cores, or None without a limit.
    """
    limits: list[float] = []
    for group, is_v2 in _control_groups("cpu"):
        with suppress(OSError, ValueError):
            limits += _limit(group, is_v2=is_v2)
    return min(limits, default=None)


def _control_groups(controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of this process's control groups and of those around them, and True for version 2."""
    with suppress(OSError, ValueError):
        for line in CGROUP.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            is_v2 = not controllers
            if not is_v2 and controller not in controllers.split(","):
                continue
            roots = (CGROUPS, CGROUPS / "unified") if is_v2 else (CGROUPS / controllers, CGROUPS / controller)
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for root in roots:
                # In a container its own group is the root, whatever `path` is.
                for depth in range(len(parts) + 1):
                    yield root.joinpath(*parts[:depth]), is_v2


def _limit(group: Path, *, is_v2: bool) -> Iterator[float]:
    if is_v2:
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    if quota not in ("max", "-1") and int(period) > 0:
        yield int(quota) / int(period)


def processor_name() -> str | None:
    """Return the processor's model name, or None if the system does not have it.

    Returns:
        Name such as `AMD EPYC 9V74`, or None.
    """
    return next(iter(_values("model name")), None)


def lacks_bf16() -> bool:
    """True if the processor is known to lack bfloat16 products. False also if nothing is known.

    Returns:
        True if /proc/cpuinfo lists the instructions, and none of them computes in bfloat16.
    """
    lists = _values("flags") or _values("Features")
    return bool(lists) and BF16_INSTRUCTIONS.isdisjoint(lists[0].split())


def slow_bf16_warning(choice: str, instead: str) -> str:
    """Return the warning for bf16 on a processor without instructions for it.

    Args:
        choice: Setting as typed.
        instead: Setting to type.

    Returns:
        Two sentences and the advice, without full stop.
    """
    return (
        f"{choice}: this processor has no instructions for bfloat16 ({', '.join(sorted(BF16_INSTRUCTIONS))}). "
        f"Its products are slower than those of float32, 10 to 150 times without AVX-512. Type {instead}"
    )


def _values(key: str) -> list[str]:
    try:
        rows = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in rows)
    return [value.strip() for name, _, value in pairs if name.strip() == key]


def resident_mib() -> float:
    """Return the memory of this process in MiB, or its peak if the system does not report it (macOS).

    Returns:
        MiB.
    """
    return _proc_mib("self/status", "VmRSS") or peak_mib()


def peak_mib() -> float:
    """Return the largest memory of this process in MiB since `forget_peak`.

    On Linux it is VmHWM: ru_maxrss also counts the memory of the parent at the start of this process.

    Returns:
        MiB.
    """
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return _proc_mib("self/status", "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def free_mib() -> float | None:
    """Return the memory in MiB that this process can still take from the system or its control group.

    None if the system does not report it (macOS).

    Returns:
        MiB, or None.
    """
    of_system = _proc_mib("meminfo", "MemAvailable")
    limits = [*_free_of_groups(), *([] if of_system is None else [of_system])]
    return min(limits, default=None)


def _free_of_groups() -> Iterator[float]:
    """Free MiB of control groups. Cached files count as free."""
    for group, is_v2 in _control_groups("memory"):
        names = (
            ("memory.max", "memory.current") if is_v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        with suppress(OSError, ValueError):
            limit, used = ((group / name).read_text().strip() for name in names)
            if limit != "max" and int(limit) < 2**60:
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
                yield (int(limit) - int(used) + cached) / 2**20


def forget_peak() -> None:
    """Restart `peak_mib` from the current memory, if the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _proc_mib(file: str, key: str) -> float | None:
    """A number of kilobytes in a file of the system, in MiB. None without it."""
    with suppress(OSError):
        for line in Path("/proc", file).read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) / 2**10
    return None


_forked = False


def limit_threads(threads: int | None = None) -> None:
    """Set torch's threads, within the CPU quota.

    More threads than the quota are slower, because the system pauses all of them until the next period. OMP_NUM_THREADS
    is respected. A forked process keeps one thread.

    Args:
        threads: Number of threads. None: torch's choice, or fewer if the quota is smaller, with one line on stderr.
    """
    import torch

    if threads is not None and not _forked:
        torch.set_num_threads(threads)
    elif threads is None:
        _limit_once()


@cache
def _limit_once() -> None:
    import torch

    quota = cpu_quota()
    if quota is None or os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads() <= num_cores():
        return
    print(
        f"threads: {num_cores()} in the place of {torch.get_num_threads()}: the CPU quota of this process's control "
        f"group is {quota:g}; OMP_NUM_THREADS sets another number",
        file=sys.stderr,
    )
    torch.set_num_threads(num_cores())


def _after_fork() -> None:
    """One thread from now on: OpenMP would wait for the parent's threads, which a fork does not copy."""
    global _forked
    if (torch := sys.modules.get("torch")) is None:
        return
    _forked = torch.get_num_threads() > 1 or _forked
    torch.set_num_threads(1)
    faiss: Any = sys.modules.get("faiss")
    if hasattr(faiss, "omp_set_num_threads"):
        faiss.omp_set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def warn_forked() -> None:
    """Print once on stderr that a forked process has one thread."""
    if _forked:
        _tell_once()


@cache
def _tell_once() -> None:
    print(
        "threads: 1, since this process was forked, and threads do not live on in the copy; for more start it by "
        'multiprocessing.get_context("spawn")',
        file=sys.stderr,
    )


def present_devices() -> dict[str, bool]:
    """Return device type → True if this machine and this build of torch have one.

    Returns:
        `cpu`, `cuda` and `mps` → True or False.
    """
    import torch

    return {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


def open_device(device: "str | torch.device") -> "torch.device":
    """Return a device by its name.

    Args:
        device: Such as `cpu`, `cuda:1` or `mps`.

    Returns:
        The device of torch, without an index if none is given.

    Raises:
        UserError: The name is unknown, or the device is missing.
    """
    import torch

    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UserError(f"device={device}: no such device. Type cpu, cuda, cuda:1 or mps") from error
    present = [name for name, is_there in present_devices().items() if is_there]
    too_many = chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()
    if chosen.type not in present or too_many:
        raise UserError(
            f"device={device}: this machine, or this build of torch, has none. There is: {', '.join(present)}"
        )
    return chosen


HARDWARE = CONFIGURATION / "hardware"
DRIVERS = {"Linux": "libcuda.so.1", "Windows": "nvcuda.dll"}
"""System → file name of NVIDIA's driver library."""

FIRST_MAC_WITH_METAL = (12, 3)
"""First macOS on which torch uses Apple's GPUs."""


def cuda_devices() -> int:
    """Return the number of CUDA devices for this process, from NVIDIA's driver. CUDA_VISIBLE_DEVICES counts.

    Returns:
        Number of devices. 0 without a driver.
    """
    name = DRIVERS.get(platform.system())
    if name is None:
        return 0
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return 0
    count = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def torch_has(platform_name: str) -> bool:
    """True if the installed torch was built for a platform. A file of torch is read, and none of its code runs.

    Args:
        platform_name: "cuda" or "hip".

    Returns:
        False also if torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        version = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(rf"^{platform_name}\b[^=]*=\s*['\"]", version, flags=re.MULTILINE) is not None


def has_metal() -> bool:
    """True for a Mac with a GPU that torch can use.

    Returns:
        False for other systems, Intel processors and macOS versions that are too old.
    """
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return False
    version = tuple(int(part) for part in platform.mac_ver()[0].split(".")[:2] if part.isdigit())
    return version >= FIRST_MAC_WITH_METAL


def require_accelerator(hardware: Any) -> None:
    """Check that this machine can have the requested accelerator, from drivers and files alone.

    `juzhen.evaluation.settings` may still refuse it after torch is loaded.

    Args:
        hardware: Settings with `accelerator` (cpu, cuda or mps) and `precision` (such as 16-mixed).

    Raises:
        UserError: The accelerator is missing, or the precision does not fit it.
    """
    present = ", ".join(["cpu", *(["cuda"] if cuda_devices() else []), *(["mps"] if has_metal() else [])])
    setting = f"accelerator={hardware.accelerator}"
    if hardware.accelerator == "cuda" and not torch_has("hip"):
        if not torch_has("cuda"):
            raise UserError(
                f"{setting}: the installed torch was built without CUDA. Choose accelerator=cpu, or "
                "install a torch with CUDA"
            )
        if not cuda_devices():
            raise UserError(
                f"{setting}: the driver of NVIDIA is missing, or shows no device. Available: {present}. Choose "
                "accelerator=cpu"
            )
    if hardware.accelerator == "mps" and platform.system() != "Darwin":
        raise UserError(
            f"{setting}: Metal is Apple's, and this is {platform.system()}. Available: {present}. Choose "
            "accelerator=cpu"
        )
    if hardware.accelerator != "cuda" and hardware.precision == "16-mixed":
        # Lightning would silently use bfloat16 on a CPU.
        raise UserError(
            f"precision=16-mixed needs CUDA, and the accelerator is {hardware.accelerator}. "
            f"Choose bf16-mixed or 32-true"
        )


@cache
def found_hardware() -> tuple[str, str]:
    """Return the option of conf/hardware for this machine, and the reason in words.

    Returns:
        `cuda`, `mps_m4` or `cpu`, and the reason.
    """
    devices = cuda_devices()
    if devices and torch_has("cuda"):
        return "cuda", f"NVIDIA's driver has {devices} device{'s' if devices > 1 else ''}, one is used"
    if has_metal():
        return "mps_m4", "a Mac with Metal"
    if devices:
        return "cpu", "there is a CUDA device, but this build of torch has no CUDA"
    return "cpu", "no CUDA device and no Metal"


PACKAGES = (
    "torch",
    "pytorch-lightning",
    "transformers",
    "tokenizers",
    "datasets",
    "torchmetrics",
    "hydra-core",
    "numpy",
    "scipy",
    "scikit-learn",
    "wandb",
)


def describe_environment() -> dict[str, Any]:
    """Return commit, versions and machine as plain values, without host name, user name or path.

    Returns:
        Name of a fact → value. Commit and processor are None if unknown.
    """
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_cores": num_cores(),
        "processor": processor_name(),
        "lacks_bf16": lacks_bf16(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


@cache  # 2 to 8 ms each: it looks through all installed packages
def package_version(package: str) -> str | None:
    """Return the version of an installed package, or None.

    Args:
        package: Name of the distribution, as pip installs it.

    Returns:
        Such as "2.5.1". None if the package is not installed.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache  # the running code is the code at the start of the program
def _git(*arguments: str) -> str | None:
    """Output of a git command in the project's folder, or None outside a checkout."""
    if not IS_CLONE:
        return None  # an installed package may be inside somebody else's repository
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


FOLDERS = {
    "MPLCONFIGDIR": "matplotlib",
    "WANDB_CACHE_DIR": "wandb",
    "WANDB_DATA_DIR": "wandb",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
}
"""Environment variable of a library → its folder below our cache. Downloads of the hub stay in HF_HOME."""


def default_cache() -> str:
    """Return the `cache_dir` of a command without such an option, as conf/train.yaml has it.

    Returns:
        Value of JUZHEN_CACHE, else `.cache`.
    """
    return os.environ.get("JUZHEN_CACHE", ".cache")


def caches_below(folder: str | Path | None) -> None:
    """Set the cache folders of libraries. Call it before they are imported. Variables that are set already stay.

    Args:
        folder: Folder of all caches. For None, or if it cannot be written to (a read-only container), a temporary
            folder that is removed when the program ends.
    """
    unset = {name: folder_name for name, folder_name in FOLDERS.items() if name not in os.environ}
    if not unset:
        return
    wanted = Path(folder or "").expanduser().absolute()
    there = next(place for place in (wanted, *wanted.parents) if place.exists())
    if folder is None or not os.access(there, os.W_OK | os.X_OK):
        scratch = tempfile.TemporaryDirectory(prefix="juzhen-", ignore_cleanup_errors=True)
        atexit.register(scratch.cleanup)
        folder = scratch.name
    for name, subfolder in unset.items():
        os.environ[name] = str(Path(folder).expanduser().resolve() / subfolder)


PROBE_SECONDS = 2.0
WANDB_SECONDS = 3.0


def without_hub() -> None:
    """Stop requests to the hub for an encoder that is a folder. transformers reads this when it is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def answers(url: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """True if the server, or the proxy in front of it, accepts a connection in time.

    The time limit includes the name look-up, which no system call limits.

    Args:
        url: Address with its scheme. Without a port, 443 for https and 80 for others.
        seconds: Time limit.

    Returns:
        False for a refused connection, an unknown name and a wrong address.
    """
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    target = urlparse(proxy or url)

    answered: list[bool] = []

    def connect() -> None:
        with suppress(OSError, ValueError, OverflowError):
            port = target.port or (443 if target.scheme == "https" else 80)
            socket.create_connection((target.hostname, port), timeout=seconds).close()
            answered.append(True)

    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(answered)


def hub_problem() -> str | None:
    """Return the reason why the Hugging Face hub cannot be reached, or None.

    Returns:
        Reason as part of a sentence, or None.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set"
    return _hub_problem(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@cache
def _hub_problem(endpoint: str) -> str | None:
    return None if answers(endpoint) else f"the hub does not answer within {PROBE_SECONDS:.0f} s"


def wandb_problem() -> str | None:
    """Return the reason why Weights & Biases cannot be used, with the remedy, or None.

    Returns:
        Reason as part of a sentence, or None. Without a key nothing is sent.
    """
    url = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    if not (os.environ.get("WANDB_API_KEY") or _in_netrc(urlparse(url).hostname or "")):
        return "no key (set WANDB_API_KEY, which https://wandb.ai/authorize shows, or run `wandb login`)"
    if not answers(url, seconds=WANDB_SECONDS):
        return f"no answer from the server within {WANDB_SECONDS:.0f} s"
    return None


def _in_netrc(host: str) -> bool:
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return bool(host) and host.encode() in path.read_bytes()
    except OSError:
        return False


USUAL = gc.get_threshold()
RARELY = (50_000, 20, 20)


def collect_rarely() -> None:
    """Collect garbage rarely. For a program that starts by loading modules."""
    gc.set_threshold(*RARELY)


def freeze_modules() -> None:
    """Exempt loaded modules from garbage collection. Models load later, because those of a stage must be freed."""
    gc.freeze()
    gc.set_threshold(*USUAL)


def freeze_objects() -> None:
    """Exempt all loaded objects of a server, its models too, after a garbage collection."""
    gc.unfreeze()
    gc.collect()
    freeze_modules()
