"""`juzhen serve`: encoders over HTTP."""

import os
import re
from functools import partial
from ipaddress import ip_network
from math import isfinite
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.cli.options import Backend
from juzhen.core.errors import UserError, require_packages
from juzhen.core.machine import without_hub
from juzhen.core.text import text_fault

MOST_PROCESSES = 64
"""On a machine with fewer cores. Each process loads its own models."""


def serve(
    encoder: Annotated[str, Argument(help="run, or folder of an encoder. A link is followed at each load")],
    *,
    rerank: Annotated[str | None, Option(metavar="RUN", help="cross-encoder for /v1/rerank")] = None,
    index: Annotated[
        str | None,
        Option(
            metavar="FOLDER|FILE|ADDRESS",
            help="corpus of /search: an index of juzhen index build, a file of texts, or a collection of Qdrant",
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        Option(
            metavar="RUN",
            help="another adapter of the same weights, which requests name as their model. Repeat it for several",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        Option(metavar="RUN", help="second run, which also searches the texts of --index FILE"),
    ] = None,
    threshold: Annotated[
        str | None,
        Option(
            metavar="SCORE|SET",
            help="decision threshold: a score, or a set with a fitted threshold",
            show_default="threshold of the run",
        ),
    ] = None,
    name: Annotated[
        str | None, Option(help="model name for clients", show_default="name of the folder")
    ] = None,
    host: Annotated[str, Option(metavar="ADDRESS", help="address to listen on (0.0.0.0: all)")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="port (0: any free port)")] = 8000,
    api_keys: Annotated[
        Path | None,
        Option(metavar="FILE", help="file of API keys, one per line", show_default="JUZHEN_API_KEYS"),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        Option(
            metavar="ADDRESS",
            help="trusted proxy or network, whose X-Forwarded-For names the client. Repeat it for several",
        ),
    ] = None,
    no_keys: Annotated[bool, Option("--no-keys", help="accept every client that reaches --host")] = False,
    device: Annotated[str, Option(metavar="DEVICE", help="device, such as cuda:0")] = "cpu",
    backend: Backend = BackendName.TORCH,
    batch_tokens: Annotated[int, Option(min=1, help="tokens per batch")] = 2048,
    queue_tokens: Annotated[
        int, Option(min=128, help="most waiting tokens before the answer is 429")
    ] = 262_144,
    processes: Annotated[
        int,
        Option(min=1, help="number of processes, each with its own models and limits (Linux)"),
    ] = 1,
    timeout: Annotated[float, Option(min=0.01, metavar="SECONDS", help="longest time of a request")] = 60.0,
) -> None:
    """Serves embeddings, similarity, reranking and search to clients of OpenAI and Cohere.

    SIGTERM and Ctrl-C stop the server after accepted requests. SIGHUP loads the models again without losing a request.
    Each request is one JSON line on stderr, without its texts. /docs lists the paths.

    juzhen serve runs/NAME
    juzhen serve runs/NAME --rerank runs/CE --index indexes/faq --port 8001
    juzhen serve runs/FAQ --adapter runs/LEGAL --adapter runs/NEWS
    juzhen serve runs/NEW --compare runs/OLD --index texts.txt
    """
    named = {"encoder": encoder, "--rerank": rerank, "--index": index, "--compare": compare, "--name": name}
    for option, value in (named | {"--threshold": threshold, "--host": host, "--device": device}).items():
        if value is not None and (fault := text_fault(value)):
            raise UserError(f"{option}: {fault}. Leave it out, or see juzhen serve --help")
    if name is not None and not name.isprintable():
        raise UserError(f"--name {name}: expected a name in one line. Leave it out, or choose another")
    require_packages("juzhen serve", "fastapi", "uvicorn", "prometheus_client", extra="serve")
    from juzhen.serving.settings import KEYS_VARIABLE, Keys, Limits, is_loopback

    keys = Keys.read(api_keys)
    if keys and no_keys:
        raise UserError(f"{'--api-keys' if api_keys else KEYS_VARIABLE}, --no-keys: give one of the two")
    host = host.lower()
    is_ip = re.fullmatch(r"[\d.]+|[\da-f.]*:[\da-f.:]*(%\w+)?", host)
    if not is_ip and not re.fullmatch(r"[\w.-]+", host):
        raise UserError(f"--host {host}: not an address. Give one such as 127.0.0.1, and the port by --port")
    if not is_loopback(host) and not keys and not no_keys:
        raise UserError(
            f"--host {host}: everybody who reaches this address could use the server. Give keys (--api-keys FILE, or "
            "JUZHEN_API_KEYS), or type --no-keys"
        )
    for address in proxy or ():
        try:
            ip_network(address, strict=False)
        except ValueError as error:
            raise UserError(
                f"--proxy {address}: not an address. Give one such as 10.0.0.7 or 10.0.0.0/24."
            ) from error
    if processes > max(MOST_PROCESSES, os.cpu_count() or 1):
        raise UserError(f"--processes {processes}: too many for this machine. Give {MOST_PROCESSES} at most")
    if not isfinite(timeout):
        raise UserError(f"--timeout {timeout}: expected a positive number of seconds, such as 60.")
    without_hub()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # to wake threads takes longer than a text
    from juzhen.core.machine import limit_threads
    from juzhen.serving.models import load_models
    from juzhen.serving.server import bind, bind_workers, run, serve_workers

    limits = Limits(
        batch_tokens=batch_tokens,
        queue_tokens=queue_tokens,
        seconds=timeout,
        processes=processes,
        proxies=tuple(proxy or ()),
    )
    load = partial(
        load_models,
        encoder,
        rerank,
        index,
        name=name,
        device=device,
        backend=backend,
        adapters=adapter or (),
        compare=compare,
        threshold=threshold,
    )
    if processes > 1:
        serve_workers(load, bind_workers(host, port, processes), limits=limits, keys=keys)
        return
    limit_threads()
    with bind(host, port) as bound:
        run(load, load(), bound, limits=limits, keys=keys)
