"""`juzhen serve`: encoders over HTTP."""

import os
from functools import partial
from ipaddress import ip_network
from math import isfinite
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.cli.options import Backend
from juzhen.core.errors import UserError, require_packages
from juzhen.core.process import without_hub

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    encoder: Annotated[
        str, Argument(help="run folder, or folder of an encoder; a link is followed at each load")
    ],
    *,
    rerank: Annotated[
        str | None, Option(metavar="RUN", help="a cross-encoder, which scores /v1/rerank")
    ] = None,
    index: Annotated[
        str | None,
        Option(
            metavar="FOLDER|FILE|ADDRESS",
            help="what /search looks through: an index of juzhen index build, a file of texts, held in memory, or a "
            "collection of Qdrant, as of juzhen index push",
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        Option(
            metavar="RUN",
            help="a further adapter beside the same weights, which requests name as their model; may be repeated",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        Option(
            metavar="RUN", help="a second run, which searches the texts of --index FILE beside the first one"
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        Option(
            metavar="SCORE|SET",
            help="from which score two texts are the same: a score, or a set with a fitted threshold",
            show_default="that of the run",
        ),
    ] = None,
    name: Annotated[
        str | None, Option(help="what clients call the model", show_default="name of the folder")
    ] = None,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="where to listen; 0.0.0.0: everywhere")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free")] = 8000,
    api_keys: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="keys that clients must have, one per line", show_default="JUZHEN_API_KEYS"
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        Option(
            metavar="ADDRESS",
            help="a proxy or a network of proxies, whose X-Forwarded-For names the client; may be repeated",
        ),
    ] = None,
    no_keys: Annotated[bool, Option("--no-keys", help="let everybody in who reaches --host")] = False,
    device: Annotated[str, Option(metavar="DEVICE", help="such as cuda:0")] = "cpu",
    backend: Backend = BackendName.TORCH,
    batch_tokens: Annotated[int, Option(min=1, help="tokens that are computed at a time")] = 2048,
    queue_tokens: Annotated[
        int, Option(min=1, help="tokens that may wait; more is answered with 429")
    ] = 262_144,
    processes: Annotated[
        int,
        Option(min=1, help="that answer at the address, each with the models and limits for itself; Linux"),
    ] = 1,
    timeout: Annotated[float, Option(min=0.01, metavar="SECONDS", help="that a request may take")] = 60.0,
) -> None:
    """Answers requests for embeddings, similarity, reranking and search, as OpenAI's and Cohere's clients send them.

    SIGTERM and Ctrl-C answer first what was taken. SIGHUP loads the models again, without a lost request. Each request
    is one line of JSON on stderr, without its texts. /docs lists the paths.

    juzhen serve runs/NAME
    juzhen serve runs/NAME --rerank runs/CE --index indexes/faq --port 8001
    juzhen serve runs/FAQ --adapter runs/LEGAL --adapter runs/NEWS
    juzhen serve runs/NEW --compare runs/OLD --index texts.txt
    """
    require_packages("juzhen serve", "fastapi", "uvicorn", "prometheus_client", extra="serve")
    from juzhen.serving.settings import Keys, Limits

    keys = Keys.read(api_keys)
    if host not in LOCAL and not keys and not no_keys:
        raise UserError(
            f"--host {host}: whoever reaches this address could use the server; give keys (--api-keys FILE, or "
            "JUZHEN_API_KEYS), or say --no-keys"
        )
    for address in proxy or ():
        try:
            ip_network(address, strict=False)
        except ValueError as error:
            raise UserError(
                f"--proxy {address}: not an address. Give one such as 10.0.0.7 or 10.0.0.0/24."
            ) from error
    if not isfinite(timeout):
        raise UserError(f"--timeout {timeout}: a request needs an end. Give seconds, such as 60.")
    without_hub()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # to wake threads takes longer than a text
    from juzhen.core.machine import limit_threads
    from juzhen.serving.models import load_models
    from juzhen.serving.multiprocess import bind_workers, serve_workers
    from juzhen.serving.server import bind, run

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
