"""`juzhen encode`: embeddings of the lines of a file."""

import sys
from pathlib import Path

from juzhen.backends.names import BackendName, backend_name
from juzhen.cli.arguments import BATCH_TOKENS, VerbParser
from juzhen.core.caches import caches_below
from juzhen.core.errors import UserError
from juzhen.core.network import without_hub
from juzhen.core.owned import require_ours
from juzhen.core.texts import text_fault
from juzhen.core.whole import whole_file, writing_to

OWN_CACHES = True


def parser() -> VerbParser:
    parser = VerbParser(
        "encode",
        "Writes the embeddings of the lines of a text as a NumPy array, float32, a row for each line.",
    )
    parser.add_argument("encoder", help="run folder, or folder of an encoder")
    parser.add_argument("file", type=Path, help="one text per line: .txt, also .txt.zst or .txt.gz")
    parser.add_argument("--output", type=Path, metavar="FILE.npy", help="default: <file>.npy beside the file")
    parser.add_batch_tokens()
    add_backend(parser)
    parser.add_argument(
        "--prompt-name", metavar="NAME", help="prompt of the encoder, such as query or passage"
    )
    parser.add_argument("--prompt", metavar="TEXT", help="this before every line; '' for nothing")
    return parser


def add_backend(parser: VerbParser) -> None:
    """The options --backend and --cache: what computes embeddings, and where they are kept."""
    parser.add_argument(
        "--backend",
        help=f"what computes the embeddings: {', '.join(BackendName)} (default: {BackendName.TORCH})",
    )
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep embeddings here for the next time")


def run(
    encoder: str | Path,
    file: Path,
    *,
    output: Path | None = None,
    batch_tokens: int = BATCH_TOKENS,
    backend: str = BackendName.TORCH,
    cache: Path | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
) -> None:
    """Writes an array (lines, dim). Raises UserError for an empty line and for a file that cannot be read."""
    caches_below(cache)
    backend_name(backend, key="--backend")
    output = output or file.with_name(f"{file.name.split('.txt')[0]}.npy")
    require_ours(output)
    from juzhen.data.audit.sources import text_lines

    texts = text_lines(file, option="encode")
    for number, text in enumerate(texts, start=1):
        if fault := text_fault(text):
            raise UserError(f"{file}:{number}: the line {fault}")
    without_hub()
    import numpy as np

    from juzhen.backends import Deferred
    from juzhen.encoders import load_encoder
    from juzhen.encoders.embedding_cache import EmbeddingCache

    loaded = load_encoder(encoder).eval()
    if prompt_name is not None or prompt is not None:
        loaded = loaded.with_prompt(prompt_name, prompt)
    embeddings = loaded.encode(
        texts,
        batch_tokens=batch_tokens,
        backend=Deferred(loaded, backend),
        cache=None if cache is None else EmbeddingCache(cache),
    )
    with writing_to(f"--output {output}"), whole_file(output, "wb") as place:
        np.save(place, embeddings)
    if loaded.score_head is not None:
        print(
            "pairs of this encoder are scored by uᵀWv and not by the cosine of these: juzhen score",
            file=sys.stderr,
        )
    print(f"{len(embeddings):,} embeddings of {embeddings.shape[1]} numbers: {output}", file=sys.stderr)
